"""The texts of an event, each with its path: a field, an index in it, a field of that, such as `candidates.0.title`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Struct

from rbank_es.events import ContextBuilt, Erased, Event, LmCalled, Ref
from rbank_es.events.codec import texts_of
from rbank_es.events.items import ItemText
from rbank_es.limits import answer_limits

_STREAMED = ("data:", "event:", ":")
"""How a stream of events begins, which is a response in chunks."""

PROMPT_FIELDS = frozenset({(LmCalled, "request"), (LmCalled, "response"), (ContextBuilt, "texts")})
"""The texts that models were sent and answered, by type and field: left out where prompts are."""


class EventText(Struct, frozen=True, kw_only=True):
    """A text of an event, or a block of it."""

    path: str
    author: str | None
    text: str | None
    chars: int | None
    next_offset: int | None
    erased: bool


class _Words(NamedTuple):
    path: str
    value: object
    author: str | None = None


def event_texts(event: Event, *, chars: int | None = None, prompts: bool = True) -> tuple[EventText, ...]:
    """Return the texts of a resolved event, in order, of each at most so many characters.

    A recorded prompt is a text for each of its messages. Without `prompts`, of those only the lengths are returned.
    """
    return tuple(
        _block(words, 0, chars, hidden=not prompts and is_prompt(event, words.path)) for words in _words(event)
    )


def text_block(event: Event, path: str, offset: int, chars: int) -> EventText | None:
    """Return the block of a text of a resolved event that begins at a character; None where there is no such text."""
    found = next((words for words in _words(event, every=True) if words.path == path), None)
    return None if found is None else _block(found, offset, chars)


def is_prompt(event: Event, path: str) -> bool:
    """Return whether a text is what a model was sent, or answered."""
    return (type(event), path.partition(".")[0]) in PROMPT_FIELDS


def _words(event: Event, *, every: bool = False) -> Iterator[_Words]:
    most = None if every else answer_limits.PROMPT_MESSAGES
    for name in texts_of(type(event)):
        value = getattr(event, name)
        if value in (None, "", (), {}):
            continue
        if isinstance(event, LmCalled) and name in ("request", "response") and isinstance(value, str):
            for number, message in enumerate(islice(messages_of(value), most)):
                yield _Words(f"{name}.{number}", message["text"], message["role"] or None)
        elif isinstance(value, tuple | list):
            for number, entry in enumerate(value):
                yield from _fields(f"{name}.{number}", entry)
        else:
            yield from _fields(name, value)


def _fields(path: str, value: object) -> Iterator[_Words]:
    if not isinstance(value, ItemText):
        yield _Words(path, value)
        return
    for name in ItemText.__struct_fields__:
        own = getattr(value, name)
        if own:
            yield _Words(f"{path}.{name}", ", ".join(own) if isinstance(own, tuple) else own)


def _block(words: _Words, offset: int, chars: int | None, *, hidden: bool = False) -> EventText:
    value = words.value
    # A handle that is not resolved was erased meanwhile.
    erased = isinstance(value, Erased | Ref)
    whole = value if isinstance(value, str) else ""
    end = len(whole) if chars is None else offset + chars
    return EventText(
        path=words.path,
        author=words.author,
        text=None if erased or hidden else whole[offset:end],
        chars=None if erased else len(whole),
        next_offset=end if end < len(whole) and not hidden else None,
        erased=erased,
    )


def messages_of(recorded: str) -> list[dict[str, str]]:
    """Return the messages of a recorded request or response, {role, text} each; its JSON as one where it is none.

    A streamed response is one message: the words of its chunks, joined.
    """
    try:
        if recorded.startswith(_STREAMED):
            words = "".join(map(_words_of_chunk, recorded.splitlines()))
            found = [{"role": "assistant", "text": words}] if words else []
        else:
            found = list(_messages(msgspec.json.decode(recorded)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # A provider of its own form, or an import: shown as it is.
        found = []
    return found or [{"role": "", "text": recorded}]


def _messages(value: object) -> Iterator[dict[str, str]]:
    if not isinstance(value, dict):
        return
    if system := value.get("system"):
        yield {"role": "system", "text": _text_of(system)}
    choices = value.get("choices")
    chosen = [each.get("message") for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []
    listed = value.get("messages") or chosen or [value.get("message")]
    for message in listed if isinstance(listed, list) else ():
        if isinstance(message, dict):
            parts = [message.get("parts"), message.get("content"), message.get("tool_calls")]
            text = "\n".join(_text_of(part) for part in parts if part is not None)
            yield {"role": str(message.get("role", "")), "text": text}


def _words_of_chunk(line: str) -> str:
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return ""
    try:
        value = msgspec.json.decode(data)
        delta = (value.get("choices") or [value])[0].get("delta")
    except (msgspec.MsgspecError, RecursionError, AttributeError, TypeError, LookupError):
        return ""  # the last one may be cut
    words = delta.get("content") if isinstance(delta, dict) else delta
    return words if isinstance(words, str) else ""


def _text_of(value: object) -> str:
    """Return the text of a message's parts; a part that is no text as JSON."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return "\n".join(_part(part) for part in parts if part is not None)


def _part(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else msgspec.json.encode(part).decode()
