"""The messages of a model's span in one form, whichever convention it follows: JSON of parts, or flattened names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from rbank_es.agents.transcripts.transcript_run import text_in, text_or_none
from rbank_es.exchange.otlp_names import names_of, told
from rbank_es.limits.otlp_limits import OTLP_JSON_CHARS, OTLP_MESSAGES


class MessageCall(msgspec.Struct, frozen=True):
    """A call of a tool that a message asks for."""

    id: str
    name: str
    arguments: Any = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message: its role, its words, the calls that it asks for, and the results that it brings, by ids of calls."""

    role: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[MessageCall, ...] = ()
    results: tuple[tuple[str, str], ...] = ()


def input_messages(attributes: Mapping[str, Any]) -> list[Message]:
    """Return the messages that a model was sent."""
    return _messages(attributes, "input", "flat_input", "input_text")


def output_messages(attributes: Mapping[str, Any]) -> list[Message]:
    """Return the messages that a model answered with."""
    return _messages(attributes, "output", "flat_output", "output_text")


def system_text(attributes: Mapping[str, Any]) -> str:
    """Return the instructions that were given apart from the messages."""
    given = parsed(told(attributes, "system"))
    return given if isinstance(given, str) else _words(given, "text")


def parsed(given: Any) -> Any:
    """Return the value of a JSON text that isn't too long; anything else as it is."""
    if isinstance(given, str) and given[:1] in ("[", "{") and len(given) <= OTLP_JSON_CHARS:
        with suppress(ValueError, RecursionError):
            return msgspec.json.decode(given)
    return given


def nested(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Return the list that flattened names tell of: `PREFIX.0.message.role` is `[{"message": {"role": …}}]`."""
    found: dict[str, Any] = {}
    begin = prefix + "."
    for name, value in attributes.items():
        if name.startswith(begin):
            *path, last = name[len(begin) :].split(".")
            place: Any = found
            for part in path:
                place = place.setdefault(part, {}) if isinstance(place, dict) else None
            if isinstance(place, dict):
                place.setdefault(last, value)
    return _listed(found)


def _listed(found: dict[str, Any]) -> list[Any]:
    numbered = sorted((int(key), value) for key, value in found.items() if key.isdecimal() and len(key) < _DIGITS)
    return [value for _, value in numbered[:OTLP_MESSAGES]]


_DIGITS = 7


def _messages(attributes: Mapping[str, Any], fact: str, flat: str, raw: str) -> list[Message]:
    given = parsed(told(attributes, fact))
    if isinstance(given, dict):
        given = [given]
    if isinstance(given, list):
        # The last ones, because a turn is at the end of its conversation.
        return [_of_parts(each) for each in given[-OTLP_MESSAGES:] if isinstance(each, dict)]
    # Before the flattened names: of those the SDK drops the oldest beyond 128, so long chats lose their start.
    if found := _exchanged(parsed(told(attributes, raw))):
        return [_of_names(each) for each in found[-OTLP_MESSAGES:] if isinstance(each, dict)]
    for prefix in names_of(flat):
        if found := nested(attributes, prefix):
            return [_of_names(each.get("message", each)) for each in found if isinstance(each, dict)]
    return []


def _exchanged(body: Any) -> list[Any]:
    """Return the messages in the body of a request to a chat's interface, or of its response; empty for any other."""
    if not isinstance(body, dict):
        return []
    choices = body.get("choices")
    if isinstance(choices, list):
        return [each["message"] for each in choices if isinstance(each, dict) and isinstance(each.get("message"), dict)]
    messages = body.get("messages")
    return messages if isinstance(messages, list) else []


def _of_parts(message: Mapping[str, Any]) -> Message:
    parts = message.get("parts")
    if not isinstance(parts, list):
        return _of_names(message)
    inner = [each for each in parts if isinstance(each, dict)]
    return Message(
        role=str(message.get("role") or ""),
        text=_words(inner, "text"),
        reasoning=_words(inner, "reasoning"),
        calls=tuple(
            MessageCall(_id(each), str(each.get("name") or "unknown"), parsed(each.get("arguments")))
            for each in inner
            if each.get("type") == "tool_call"
        ),
        results=tuple(
            # `result` in examples of the convention before 1.38.
            (_id(each), _plain(each.get("response", each.get("result"))))
            for each in inner
            if each.get("type") == "tool_call_response"
        ),
    )


def _of_names(message: Any) -> Message:
    if not isinstance(message, dict):
        return Message(role="")
    content = message.get("content")
    contents = [each.get("message_content", each) for each in _each(message.get("contents")) if isinstance(each, dict)]
    text = "\n".join(filter(None, (text_in(content) or text_in(parsed(content)), text_in(contents))))
    role, call = str(message.get("role") or ""), text_or_none(message.get("tool_call_id"))
    return Message(
        role=role,
        text="" if role == "tool" else text,
        calls=tuple(_calls_of_names(message)),
        results=((call or "", text),) if role == "tool" else (),
    )


def _calls_of_names(message: Mapping[str, Any]) -> Iterator[MessageCall]:
    for each in _each(message.get("tool_calls")):
        call = each.get("tool_call", each) if isinstance(each, dict) else {}
        call = call if isinstance(call, dict) else {}
        inner = call.get("function")
        function = inner if isinstance(inner, dict) else call
        yield MessageCall(_id(call), str(function.get("name") or "unknown"), parsed(function.get("arguments")))


def _each(value: Any) -> list[Any]:
    return _listed(value) if isinstance(value, dict) else value if isinstance(value, list) else []


def _words(parts: Any, kind: str) -> str:
    if not isinstance(parts, list):
        return ""
    found = (
        each.get("content", each.get("text")) for each in parts if isinstance(each, dict) and each.get("type") == kind
    )
    return "\n".join(each for each in found if isinstance(each, str))


def _id(fields: Mapping[str, Any]) -> str:
    return text_or_none(fields.get("id")) or ""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
