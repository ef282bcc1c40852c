"""The traits of a model at its server: what a run that asks it may rely on."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.events.event_envelope import Count
from rbank_es.events.items import Name

Bound = Literal["max_tokens", "max_completion_tokens"]
Rate = Annotated[float, Meta(ge=0, le=limits.COUNT_MOST)]


class ServerTraits(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is known of a model at its server. None: nobody knows, so nobody may rely on it."""

    model: Annotated[Name, Meta(description="Name of the model, as chosen.")]
    server: Annotated[Name | None, Meta(description="Program that serves it, with its build: llama.cpp b1.")] = None
    served: Annotated[Name | None, Meta(description="Name of the model at the server.")] = None
    context_tokens: Annotated[Count | None, Meta(description="Tokens of a request and its reply together.")] = None
    bound: Annotated[Bound | None, Meta(description="Parameter that bounds the tokens of a reply.")] = None
    stop: Annotated[bool | None, Meta(description="Whether `stop` ends a reply.")] = None
    stream_usage: Annotated[bool | None, Meta(description="Whether a stream ends with its numbers of tokens.")] = None
    json_schema: Annotated[bool | None, Meta(description="Whether replies keep a JSON schema.")] = None
    tools: Annotated[bool | None, Meta(description="Whether the model is shown the tools of a request.")] = None
    forms: Annotated[
        dict[Name, bool], Meta(description="Whether a short try kept the form of a reply, by its kind: step, judgment.")
    ] = {}
    read_tokens_s: Annotated[Rate | None, Meta(description="Tokens of a prompt read in a second.")] = None
    written_tokens_s: Annotated[Rate | None, Meta(description="Tokens of a reply written in a second.")] = None
    tried_on: Annotated[
        Name | None, Meta(description="Day on which calls tried it, as 2026-01-31; else only asked.")
    ] = None

    @property
    def known(self) -> bool:
        """Whether anything is known beyond the name."""
        return self != ServerTraits(model=self.model)
