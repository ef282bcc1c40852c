"""The conversation with the extracting model; and its prompts as dspy's signatures, created on first use.

All prompts ask for `memory_items`, a list of objects with the schema of `MemoryItem`, and `why_none`. The parser of
answers in `rbank_es.extraction.candidates` is more tolerant than this schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import MissingExtra
from rbank_es.extraction.candidates import ParsedAnswer, Usable, read_answer
from rbank_es.models.dspy_adapter import signature_of
from rbank_es.models.prompt import asked_again
from rbank_es.models.role_prompts import ENTRIES, WHY_NONE, PromptKind, prompt_for
from rbank_es.policies import SuccessFailure

if TYPE_CHECKING:
    ContrastiveExtractor: Any
    FailureExtractor: Any
    MemoryItem: Any
    PatternExtractor: Any
    SuccessExtractor: Any
    from rbank_es.models.run_models import Lms


SIGNATURES: dict[str, PromptKind] = {
    "SuccessExtractor": "success",
    "FailureExtractor": "failure",
    "ContrastiveExtractor": "contrastive",
    "PatternExtractor": "pattern",
}


def __getattr__(name: str) -> Any:
    """Return a signature or `MemoryItem`, created on first use because dspy takes a second to load."""
    if name == "MemoryItem":
        return memory_item()
    if name in SIGNATURES:
        return _signature(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _signature(name: str) -> Any:
    return signature_of(prompt_for(SIGNATURES[name]), {ENTRIES: GenericAlias(list, (memory_item(),))})


@cache
def memory_item() -> Any:
    """Return the pydantic model whose schema the model is shown: an item's title, description and content."""
    try:
        from pydantic import ConfigDict, Field, create_model
    except ImportError as error:
        raise MissingExtra("agent", "dspy's signature of a prompt") from error
    return create_model(
        "MemoryItem",
        __config__=ConfigDict(extra="forbid"),
        title=(str, Field(min_length=1, max_length=limits.ITEM_TITLE_CHARS)),
        description=(str, Field(max_length=limits.ITEM_DESC_CHARS)),
        content=(str, Field(min_length=1, max_length=limits.ITEM_CONTENT_CHARS)),
    )


# ---------------------------------------------------------------- conversation

UNREADABLE = (
    f"Your answer could not be read. [[ ## {ENTRIES} ## ]] must hold one JSON list of objects, each with title, "
    "description and content, all texts."
)


class ExtractorReply(msgspec.Struct, frozen=True, kw_only=True):
    """The items of the model's last answer, its own reason if it gave none, and the number of answers parsed.

    `readable` is False if the last answer had no list, and `problem` says why, if that is known. `cut`: the list was
    never closed, and the entries before its end are all that is used.
    """

    usable: Usable = Usable()
    reason: str = ""
    tries: int = 0
    readable: bool = False
    cut: bool = False
    problem: str = ""

    @property
    def settled(self) -> bool:
        """Whether no other answer is needed: there are items, or an empty list."""
        return self.readable and (bool(self.usable.items) or not self.usable.flaws)


def ask(
    kind: PromptKind,
    inputs: Mapping[str, str],
    lms: Lms,
    make: Callable[[list[Any]], Usable],
    policy: SuccessFailure,
    rollout_id: int | None = None,
    *,
    over_source: bool = True,
) -> ExtractorReply:
    """Ask the model in the role `extractor`, and again after each unusable answer, up to `policy.tries` times.

    `kind` and `over_source` choose the prompt; `make` turns the entries of an answer into items. Raises `LmFailed` if
    the model gives no answer.
    """
    asked = ExtractorReply()
    prompt = prompt_for(kind, policy.items_max, over_source=over_source)
    messages, schema, warmth = prompt.messages(inputs), prompt.schema, policy.temperature
    for number in range(1, policy.tries + 1):
        reply = lms.ask("extractor", messages, temperature=warmth, rollout_id=rollout_id, schema=schema)
        asked = _read(read_answer(reply, ENTRIES, WHY_NONE), make, number)
        if asked.settled:
            break
        messages = asked_again(messages, reply.text, _complaint(asked))
    return asked


def _read(reading: ParsedAnswer, make: Callable[[list[Any]], Usable], number: int) -> ExtractorReply:
    if reading.entries is None:
        return ExtractorReply(reason=reading.reason, tries=number, problem=reading.problem)
    made = make(reading.entries)
    return ExtractorReply(usable=made, reason=reading.reason, tries=number, readable=True, cut=reading.cut)


def _complaint(asked: ExtractorReply) -> str:
    """Return in words for the model why its answer is unusable."""
    if asked.readable:
        flaws = ", ".join(f"entry {number}: {flaw}" for number, flaw in enumerate(asked.usable.flaws, 1))
        return f"No item could be made of your list ({flaws}). {UNREADABLE}"
    return UNREADABLE.replace("read.", f"read: {asked.problem}.", 1) if asked.problem else UNREADABLE
