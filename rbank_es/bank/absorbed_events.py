"""Events of another log as new events of this one: which stay there, their names here, and the words that come.

Pure: no log, no clock. An event keeps its id, its facts and its words. Position, salt and checksum belong to the log
that holds it and are made again; the time at which it was recorded there becomes `occurred_at`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.events import (
    BankAbsorbed,
    BankCreated,
    BankForked,
    ConsolidationProposed,
    ContentErased,
    ContextBuilt,
    CorrectionCompleted,
    Erased,
    Event,
    ItemsLinked,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    MemoriesRetrieved,
    MemoryProposed,
    PolicySet,
    RunStarted,
    WordsEmbedded,
)
from rbank_es.events.codec import facts_of, has_plain_texts, texts_of
from rbank_es.events.items import NO_WORDS, Item, ItemText, digest_of_words
from rbank_es.events.memory_events import BY_HAND
from rbank_es.log.escaped_words import SoughtWords

_STAYING = (BankCreated, PolicySet, BankForked, BankAbsorbed, ContentErased, MemoriesConsolidated, CorrectionCompleted)
_ERASED = Erased("0" * 64)


def stays(event: Event) -> bool:
    """Return whether an event says something of its own bank only: its policies, its decisions, its corrections."""
    if isinstance(event, MemoriesForgotten):
        return event.policy != BY_HAND
    return isinstance(event, _STAYING) or (isinstance(event, MemoriesRestored) and event.how == "supported")


def fresh(event: Event, recorder: str | None = None) -> Event:
    """Return a stored event (handles resolved) as a new one: the log's fields cleared, erased texts emptied.

    `recorder` is the id of the bank that recorded it, unless it says another one itself.
    """
    changes: dict[str, Any] = {"seq": 0, "at": "", "more": 0, "dur": 0, "crc": ""}
    changes |= {"occurred_at": event.occurred_at or event.at or None, "origin": event.origin or recorder}
    if texts_of(type(event)):
        changes["salt"] = ""
        if not has_plain_texts(event):
            changes |= _emptied(event)
    return replace(event, **changes)


def _emptied(event: Event) -> dict[str, Any]:
    emptied: dict[str, Any] = {}
    for name in texts_of(type(event)):
        value = getattr(event, name)
        if isinstance(value, Erased):
            emptied[name] = _defaults(type(event))[name]
        elif isinstance(value, tuple) and any(isinstance(part, Erased) for part in value):
            empty = NO_WORDS if name == "candidates" else ""
            emptied[name] = tuple(empty if isinstance(part, Erased) else part for part in value)
    return emptied


# The defaults of a type never change, and an absorption asks for them once an event.
@cache
def _defaults(cls: type[Event]) -> dict[str, Any]:
    """Return the defaults of a type's fields; a required text is an item's words."""
    return {field.name: NO_WORDS if field.required else field.default for field in msgspec.structs.fields(cls)}


# ---------------------------------------------------------------- names


def content_id(words: Any) -> str | None:
    """Return the id that an item's words give; None for words that are gone."""
    if not isinstance(words, ItemText) or words == NO_WORDS:
        return None
    return Item.make_id(words.title, words.content)


def words_digest(words: Any) -> str | None:
    """Return the digest by which an item's words are the same, however spaced; None for words that are gone."""
    if not isinstance(words, ItemText) or words == NO_WORDS:
        return None
    return digest_of_words(words.title, words.content)


def free_run_name(run: str, start: str) -> str:
    """Return the name under which a run comes in whose name is taken here; `start` is the id of its `run_started`.

    Made of the two alone, so that every bank that has to give it another name gives it the same one.
    """
    # The last 12 digits of a UUIDv7 are random; the first ones, its time, are alike for runs that began together.
    return f"{run[: limits.NAME_CHARS - 13]}-{start[-12:]}"


class Renaming(NamedTuple):
    """The names here of the other bank's runs and items, where they differ."""

    runs: Mapping[str, str] = {}
    items: Mapping[str, str] = {}

    def applied(self, event: Event) -> Event:
        """Return an event with the names of this bank. Words are left as they are."""
        changes: dict[str, Any] = {}
        if self.runs:
            changes |= self._of_runs(event)
        if self.items:
            changes |= self._of_items(event)
        return replace(event, **changes) if changes else event

    def _of_runs(self, event: Event) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        run = getattr(event, "run", None) or ""
        if run in self.runs:
            changes["run"] = self.runs[run]
        if isinstance(event, MemoriesExtracted):
            changes["runs"] = tuple(self.runs.get(each, each) for each in event.runs)
            changes["relied"] = tuple(
                replace(each, run=self.runs[each.run]) if each.run in self.runs else each for each in event.relied
            )
        return changes

    def _of_items(self, event: Event) -> dict[str, Any]:
        match event:
            case MemoriesExtracted():
                return {"heads": tuple(self._named(head) for head in event.heads)}
            case MemoryProposed():
                return {"head": self._named(event.head)}
            case MemoriesRetrieved():
                return {name: tuple(map(self._named, getattr(event, name))) for name in ("hits", "withheld")}
            case ContextBuilt():
                return {"items": self._ids(event.items)}
            case ConsolidationProposed():
                return {"targets": self._ids(event.targets)}
            case ItemsLinked():
                source, target = self._ids((event.source, event.target))
                return {"source": source, "target": target}
            case WordsEmbedded():
                return {"items": self._ids(event.items)}
            case MemoriesRead() | MemoriesForgotten() | MemoriesRetracted() | MemoriesRestored() | MemoriesAdmitted():
                return {"ids": self._ids(event.ids)}
        return {}

    def _named(self, named: Any) -> Any:
        return replace(named, id=self.items[named.id]) if named.id in self.items else named

    def _ids(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.items.get(id, id) for id in ids)


def names_begun(event: Event) -> set[str]:
    """Return the names that an event brings: its own id, the run that it starts, the items of its candidates."""
    match event:
        case RunStarted():
            return {event.id, event.run}
        case MemoriesExtracted():
            return {event.id, *(head.id for head in event.heads)}
    return {event.id}


def names_in(event: Event) -> set[str]:
    """Return all names that an event's facts hold, its runs, items and events among them."""
    waiting: list[Any] = [msgspec.to_builtins(getattr(event, name)) for name in facts_of(type(event))]
    found = set[str]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return found


# ---------------------------------------------------------------- comparison


def texts_in(event: Event) -> Iterator[tuple[str, int, Any]]:
    """Yield the texts of an event: field, index (0 where the field is no row), value."""
    for name in texts_of(type(event)):
        value = getattr(event, name)
        for index, part in enumerate(value if isinstance(value, tuple) else (value,)):
            yield name, index, part


def same_event(stored: Event, given: Event) -> bool:
    """Return whether a stored event (handles resolved) is one that another log holds, under the names of this bank.

    A text that was erased on either side equals anything, and so does one that came in empty for that reason. Whether
    items of an extraction are held back is each bank's own affair, and so is which bank recorded an event first.
    """
    if type(stored) is not type(given) or (stored.occurred_at or stored.at) != (given.occurred_at or given.at):
        return False
    if any(getattr(stored, name) != getattr(given, name) for name in facts_of(type(given)) if name != "pending"):
        return False
    here, there = list(texts_in(stored)), list(texts_in(given))
    return len(here) == len(there) and all(
        mine == theirs or is_gone(mine, name, stored) or is_gone(theirs, name, given)
        for (name, _, mine), (_, _, theirs) in zip(here, there, strict=True)
    )


def is_gone(text: Any, field: str, event: Event) -> bool:
    """Return whether a text in a field of an event is erased, or perhaps came in empty because it was."""
    if isinstance(text, Erased) or event.origin is None:
        return isinstance(text, Erased)
    return not text or text in (NO_WORDS, _defaults(type(event))[field])


# ---------------------------------------------------------------- words that were erased here


def words_of(text: Any) -> Iterator[str]:
    """Yield the strings of a text."""
    if isinstance(text, ItemText):
        yield from (text.title, text.desc, text.content, *text.tags)
    elif isinstance(text, str):
        yield text


def without(event: Event, sought: SoughtWords, erased_items: frozenset[str]) -> tuple[Event, int]:
    """Return an event with a mark in the place of each text that holds some words, and the number of such texts.

    Words of candidates for erased items are left out, too.
    """
    if not sought and not erased_items:
        return event, 0
    marked: dict[str, list[Any]] = {}
    heads = event.heads if isinstance(event, MemoriesExtracted) else ()
    for name, index, text in texts_in(event):
        barred = name == "candidates" and index < len(heads) and heads[index].id in erased_items
        if barred or any(sought.form_in(words.encode("utf-8", "surrogatepass")) for words in words_of(text)):
            value = getattr(event, name)
            row = marked.setdefault(name, list(value) if isinstance(value, tuple) else [value])
            row[index] = _ERASED
    if not marked:
        return event, 0
    changes = {name: tuple(row) if isinstance(getattr(event, name), tuple) else row[0] for name, row in marked.items()}
    return replace(event, **changes), sum(part is _ERASED for row in marked.values() for part in row)
