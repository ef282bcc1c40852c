"""Events as pages show them: facts by name, texts by their beginning; and the answer `text`, the whole of one text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import msgspec

from rbank_es import limits
from rbank_es.errors import NotInBank
from rbank_es.events import ContextBuilt, Erased, Event, LmCalled, Ref, type_of
from rbank_es.events.codec import facts_of, texts_of
from rbank_es.events.items import ItemText
from rbank_es.limits import answer_limits, page_limits
from rbank_es.page.answers.bank_answer import second
from rbank_es.page.answers.page_question import PageQuestion
from rbank_es.system.whole_number import whole_number

Shown = dict[str, Any]

PROMPT_FIELDS = frozenset({(LmCalled, "request"), (LmCalled, "response"), (ContextBuilt, "texts")})
"""The texts that models were sent and answered, by type and field: left out where prompts are."""

_UNSEEN = frozenset({"run", "request_key", "config_digest", "calls"})
"""Fields that say nothing to a reader: digests, ids of calls, and the run that was asked for."""


def shown_event(event: Event, *, prompts: bool = True, chars: int = page_limits.EVENT_TEXT_CHARS) -> Shown:
    """Return a resolved event for a page: position, time, type, its facts that are set, and the beginnings of texts.

    A text is {text, chars, more}: its beginning, its whole length, and the path of the whole, None where this is all.
    `text` is None for one that was erased, or is left out. Prompts and answers of models are lists of {role, text}.
    The time is to the second; scores, shares, seconds and costs have three digits.
    """
    facts = {name: getattr(event, name) for name in facts_of(type(event)) if name not in _UNSEEN}
    known = {
        name: shortened(msgspec.to_builtins(value)) for name, value in facts.items() if value not in (None, "", (), {})
    }
    texts = {}
    for name in texts_of(type(event)):
        value = getattr(event, name)
        if name not in _UNSEEN and value not in (None, "", ()):
            hidden = not prompts and (type(event), name) in PROMPT_FIELDS
            texts[name] = _shown(event, name, value, 0 if hidden else chars, hidden=hidden)
    time = second(event.occurred_at or event.at)
    return {"seq": event.seq, "time": time, "type": type_of(event), **known, **texts}


def shortened(value: Any) -> Any:
    """Return figures with three digits: the others are noise to a reader, and don't compress."""
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(each) for each in value]
    return float(f"{value:.3g}") if isinstance(value, float) and abs(value) < 1_000 else value


def text_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return a block of the text at `path` of the event at `seq`, from `offset` on, in characters; None if erased."""
    # Far beyond any log, and within the integers that a browser holds exactly.
    seq, path = asked.number("seq", 0, 1, page_limits.POSITION_MOST), asked.needed("path")
    offset = asked.number("offset", 0, 0, page_limits.OFFSET_MOST)
    event = next(asked.bank.events(after=seq - 1, point=seq, resolve=True), None) if seq <= asked.position else None
    if event is None:
        raise NotInBank(f"{seq:,}", asked.position, kind="event at")
    left_out = not asked.prompts and (type(event), path.partition(".")[0]) in PROMPT_FIELDS
    try:
        text = "" if left_out else text_at(event, path)
    except KeyError:
        raise NotInBank(path[: limits.GIVEN_CHARS], asked.position, kind=f"text of the event at {seq:,}:") from None
    if left_out:
        raise NotInBank(path[: limits.GIVEN_CHARS], asked.position, kind="text", advice="prompts are left out here")
    following = None if text is None or offset + answer_limits.TEXT_BLOCK_CHARS >= len(text) else offset
    return {
        **{"seq": seq, "path": path, "text": None if text is None else text[offset:][: answer_limits.TEXT_BLOCK_CHARS]},
        "total": None if text is None else len(text),
        "next": None if following is None else following + answer_limits.TEXT_BLOCK_CHARS,
    }


def text_at(event: Event, path: str) -> str | None:
    """Return the whole text of a resolved event at a path: a field, an index in it, a field of that; None if erased.

    Raises KeyError where there is no such text.
    """
    name, *rest = path.split(".")
    if name not in texts_of(type(event)):
        raise KeyError(path)
    value: Any = getattr(event, name)
    if rest and isinstance(event, LmCalled) and isinstance(value, str):
        value = [message["text"] for message in messages_of(value)]
    for step in rest:
        index = whole_number(step)
        if isinstance(value, Sequence) and not isinstance(value, str) and index is not None:
            if index >= len(value):
                raise KeyError(path)
            value = value[index]
        elif isinstance(value, ItemText) and step in ItemText.__struct_fields__:
            value = getattr(value, step)
        else:
            raise KeyError(path)
    if isinstance(value, Erased):
        return None
    if not isinstance(value, str):
        raise KeyError(path)
    return value


def messages_of(recorded: str) -> list[dict[str, str]]:
    """Return the messages of a recorded request or response, {role, text} each; its JSON as one where it is none."""
    try:
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
    listed = value.get("messages") or [value.get("message")]
    for message in listed if isinstance(listed, list) else ():
        if isinstance(message, dict):
            yield {"role": str(message.get("role", "")), "text": _text_of(message.get("parts"))}


def _text_of(value: object) -> str:
    """Return the text of a message's parts; a part that is no text as JSON."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return "\n".join(_part(part) for part in parts if part is not None)


def _part(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else msgspec.json.encode(part).decode()


def beginning(text: object, path: str, chars: int, *, hidden: bool = False) -> Shown:
    """Return the beginning of a text with its length, and its path where there is more; None for an erased one."""
    if isinstance(text, Erased):
        return {"text": None, "chars": None, "more": None, "erased": True}
    if isinstance(text, Ref):  # not resolved, because it was erased meanwhile
        return {"text": None, "chars": text.sz, "more": None, "erased": True}
    whole = text if isinstance(text, str) else ""
    if hidden:
        return {"text": None, "chars": len(whole), "more": None, "left_out": True}
    return {"text": whole[:chars], "chars": len(whole), "more": path if len(whole) > chars else None}


def _shown(event: Event, name: str, value: Any, chars: int, *, hidden: bool) -> Any:
    if isinstance(event, LmCalled) and name in ("request", "response") and isinstance(value, str):
        messages = messages_of(value)
        return [
            {"role": each["role"], "text": beginning(each["text"], f"{name}.{number}", chars, hidden=hidden)}
            for number, each in enumerate(messages[: answer_limits.PROMPT_MESSAGES])
        ]
    if _is_list(value):
        return [_entry(entry, f"{name}.{number}", chars, hidden=hidden) for number, entry in enumerate(value)]
    return _entry(value, name, chars, hidden=hidden)


def _entry(value: object, path: str, chars: int, *, hidden: bool) -> Any:
    if not isinstance(value, ItemText):
        return beginning(value, path, chars, hidden=hidden)
    fields = {name: getattr(value, name) for name in ItemText.__struct_fields__}
    texts = {name: beginning(text, f"{path}.{name}", chars) for name, text in fields.items() if isinstance(text, str)}
    return texts | {name: list(entries) for name, entries in fields.items() if _is_list(entries)}


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, tuple | list)
