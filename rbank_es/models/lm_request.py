"""Requests to models and their responses, in the form in which `lm_called` records them.

A message has parts, of which those of the type `text` are words. Parts of other types, tools and settings are kept as
they came, because executors may send any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rbank_es.events.event_envelope import Settings
from rbank_es.models.parameters import config_of
from rbank_es.models.prompt import Message

_ENCODER = msgspec.json.Encoder(order="deterministic")

_PLAIN = frozenset({"text", "thinking", "tool_call", "tool_result"})

Tool = dict[str, Any]
"""A function that a model may call: its `type` (function), `name`, `description` and `parameters`, a JSON schema."""

CUT = frozenset({"length", "content_filter", "error"})
"""Reasons of a provider to end an answer before the model did: at a bound, by a filter, by a fault of its own."""


JsonSchema = Mapping[str, Any]
"""A JSON schema."""


def _format(schema: JsonSchema | None) -> dict[str, Any]:
    named = {"name": "reply", "strict": True, "schema": schema}
    return {} if schema is None else {"response_format": {"type": "json_schema", "json_schema": named}}


class LmMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message: who says it, and its parts."""

    role: str
    parts: list[dict[str, Any]]
    continuation: Any = None

    @classmethod
    def of(cls, role: str, text: str) -> LmMessage:
        """Return a message of one text."""
        return cls(role=role, parts=[{"type": "text", "text": text}])

    def telling(self, words: str) -> LmMessage:
        """Return the message with words behind its own, because a further message might be refused."""
        *parts, last = self.parts
        if self.role == "tool":
            content = [*last["content"], {"type": "text", "text": f"\n\n{words}"}]
            return LmMessage(role="tool", parts=[*parts, {**last, "content": content}])
        if last.get("type") != "text":
            return LmMessage(role=self.role, parts=[*self.parts, {"type": "text", "text": words}])
        return LmMessage(role=self.role, parts=[*parts, {**last, "text": f"{last['text']}\n\n{words}"}])


class LmRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request. `config` holds the parameters under the names that all providers share."""

    model: str
    messages: list[LmMessage]
    system: Any = None
    tools: list[Any] = []
    config: dict[str, Any] = {}

    @classmethod
    def of(
        cls, model: str, messages: Sequence[Message], parameters: Settings, schema: JsonSchema | None = None
    ) -> LmRequest:
        """Return the request of a conversation. Lone surrogates become U+FFFD, because no request could hold them.

        With a `schema`, the reply has to be JSON that keeps it.

        Raises `BadInput` for a parameter that no request can hold.
        """
        given = [_encodable(each) for each in messages]
        return cls(
            model=model,
            messages=[LmMessage.of(each["role"], each["content"]) for each in given if each["role"] != "system"],
            system="\n\n".join(each["content"] for each in given if each["role"] == "system") or None,
            config={**config_of(model, parameters), **_format(schema)},
        )

    @classmethod
    def with_tools(
        cls,
        model: str,
        system: str,
        messages: Sequence[LmMessage],
        tools: Sequence[Tool],
        parameters: Settings,
        *,
        forced: bool = False,
        schema: JsonSchema | None = None,
    ) -> LmRequest:
        """Return the request of a conversation with tools; with `forced`, the model has to call one. Raises as `of`.

        With a `schema`, it has to write the call as JSON that keeps it. The tools stay in the prompt.
        """
        mode = {"tool_choice": {"mode": "none" if schema is not None else "required"}} if forced else {}
        config = {**config_of(model, parameters), **mode, **_format(schema)}
        made = cls(model=model, messages=[*messages], system=system, tools=[*tools], config=config)
        return msgspec.convert(_encodable(msgspec.to_builtins(made)), cls)

    def telling(self, words: str) -> LmRequest:
        """Return the request with words behind all that it says, so that a server's cache of its beginning holds."""
        *messages, last = self.messages
        return msgspec.structs.replace(self, messages=[*messages, last.telling(words)])

    @property
    def plain(self) -> bool:
        """Whether the request holds only texts, functions, calls of them, their results in text, and parameters."""
        parts = [part for message in self.messages for part in message.parts]
        parts += [each for part in parts if part.get("type") == "tool_result" for each in part["content"]]
        known = all(part.get("type") in _PLAIN for part in parts)
        functions = all(tool.get("type") == "function" for tool in self.tools)
        choice = self.config.get("tool_choice") or {}
        return known and functions and choice.keys() <= {"mode"} and isinstance(self.system, str | None)

    @property
    def words(self) -> str:
        """The words that the model reads: of the system prompt, then of each message."""
        return prompt_text(self.data)

    @property
    def data(self) -> dict[str, Any]:
        """The request as plain data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data


class LmResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A response. `usage` has the numbers of tokens that the provider reported."""

    model: str
    message: LmMessage
    finish_reason: str
    id: str | None = None
    usage: dict[str, Any] = {}
    logprobs: Any = None
    logprobs_complete: Any = None
    adaptations: Any = None

    @classmethod
    def of(cls, data: Any) -> LmResponse:
        """Parse plain data. Raises ValueError for anything else."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    @property
    def text(self) -> str:
        """The words of the answer: neither its thinking nor its refusal."""
        return answer_text(self.data)

    @property
    def calls_tools(self) -> bool:
        """Whether the answer asks for a tool."""
        return any(part.get("type") == "tool_call" for part in self.message.parts)

    @property
    def data(self) -> dict[str, Any]:
        """The response as plain data. Lone surrogates become U+FFFD."""
        data: dict[str, Any] = _encodable(msgspec.to_builtins(self))
        return data


def canonical(value: Any) -> str:
    """Return plain data as compact JSON with sorted names: equal text for equal content."""
    return _ENCODER.encode(value).decode()


def prompt_text(data: dict[str, Any]) -> str:
    """Return the words of a request that the model reads: of the system prompt, the tools, then of each message."""
    tools = [canonical(tool) for tool in data.get("tools", [])]
    return "\n\n".join(_texts([data.get("system"), tools, data["messages"]]))


def answer_text(data: dict[str, Any]) -> str:
    """Return the words of a response that are passed on: neither its thinking nor its refusal."""
    parts = data.get("message", {}).get("parts", [])
    return "".join(_texts([part for part in parts if part.get("type") in ("text", "data")]))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, dict) and value.get("type") == "tool_call":
        return [f"{value.get('name')}({canonical(value.get('input', {}))})"]
    if isinstance(value, dict):
        return [text for name in ("text", "value", "content", "parts") for text in _texts(value.get(name))]
    return []


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            # Two surrogates that are a pair become their character, a lone one becomes U+FFFD.
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value
