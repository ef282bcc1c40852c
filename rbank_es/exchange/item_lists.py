"""Item JSON: a list of `{id, title, desc, content, src, tags}`, optionally with polarity, role, scope and domain, and
with the mark of the bank that exported it (`rbank_es.exchange.record_identity.CopyMark`).

Ids are kept, texts are kept whole. A missing id follows from title and content, a missing polarity from the source.
Neighbours of one source become one extraction of that kind; `principle` and `episode` count as given by hand.

An entry is the item with its id; without one, or with that of its words, the item with its words, however they are
spaced and composed. A list of items names no runs, so it brings items and no witnesses: an entry whose item the bank
has met, in any state or as a candidate, adds nothing, wherever the list comes from. Other words under a known id
differ, and are left out. An entry that comes in is a copy: of the extractions that its mark names, else of the entry
itself, so that the same entry is one witness in every bank that absorbs others. A marked entry whose words were changed
is another item, with the id of its words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Annotated, Literal, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.events import Event, MemoriesExtracted
from rbank_es.events.items import Item, ItemText, Name, Polarity, Source, digest_of_words
from rbank_es.exchange.importer import Importer, ImportUnit, News, Opening, Parsed, RecordChange
from rbank_es.exchange.json_records import JsonRecord, json_records
from rbank_es.exchange.record_identity import MARK, CopyMark, identity, part_id
from rbank_es.law import State
from rbank_es.system.validation_messages import reason_of

EXTRACTOR = "item-import-1"
FORM = "items"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item as a file has it. An export of all items writes `state`; only active ones can be imported."""

    title: str
    desc: str = ""
    content: str = ""
    id: Annotated[Name, msgspec.Meta(min_length=1)] | None = None
    src: Source = "seed"
    tags: tuple[str, ...] = ()
    polarity: Polarity | None = None
    role: Name | None = None
    scope: Literal["", "general", "exception"] = ""
    domain: Name | None = None
    state: str = "active"
    rbank_es: CopyMark | None = None

    @property
    def item(self) -> Item:
        """The item that it describes."""
        left_out = ("state", MARK, *(("id",) if self._is_changed() else ()))
        return Item.make(
            **{name: value for name, value in msgspec.structs.asdict(self).items() if name not in left_out}
        )

    @property
    def copy_of(self) -> tuple[str, ...]:
        """The ids of what it is a copy of."""
        if self.rbank_es is None or self._is_changed():
            return (part_id(identity(FORM, _name_of(self.item)), "entry"),)
        return self.rbank_es.copy_of

    def _is_changed(self) -> bool:
        """Return whether its words are others than those that were exported."""
        return self.rbank_es is not None and self.rbank_es.words != digest_of_words(self.title, self.content)


class Listed(NamedTuple):
    """An item of a list, and what it is a copy of."""

    item: Item
    copy_of: tuple[str, ...]


def _name_of(item: Item) -> str:
    """Return what an entry is known by: its id, or its words where that follows from them."""
    return digest_of_words(item.title, item.content) if _is_named_by_words(item) else item.id


def _is_named_by_words(item: Item) -> bool:
    return item.id == Item.make_id(item.title, item.content)


def parse_items(path: str, data: bytes) -> Parsed:
    """Parse an item list into extractions. Raises `BadImport`, naming the entry (from 1)."""
    entries: dict[str, Listed] = {}
    named: dict[str, str] = {}
    notes: list[str] = []
    for record in json_records(path, data):
        entry = _entry(path, record)
        item = entry.item
        id = named.setdefault(_name_of(item), item.id)
        if _words(entries.setdefault(id, Listed(item, entry.copy_of)).item) != _words(item):
            notes.append(f"{record.name}: {item.id} is the id of an earlier entry that differs; left out")
    units = tuple(units_of(entries.values()))
    shown = tuple(notes[: limits.RECORDS_NAMED])
    return Parsed(path=path, form=FORM, units=units, decided=False, listed=True, left_out=len(notes), notes=shown)


def _entry(path: str, record: JsonRecord) -> Entry:
    try:
        entry = msgspec.convert(record.fields, type=Entry)
    except msgspec.ValidationError as error:
        raise record.bad(path, reason_of(error, Entry)) from None
    if not entry.title.strip() and not entry.content.strip():
        raise record.bad(path, "title and content are both empty")
    if entry.state != "active":
        raise record.bad(path, f"{entry.id} is {entry.state}; only active items can be imported")
    return entry


def units_of(entries: Iterable[Listed]) -> Iterator[ImportUnit]:
    """Yield extractions of the items, each of neighbours with one source."""
    # Neighbours only, because the order of births decides which of two near duplicates stays.
    for _, neighbours in groupby(entries, key=lambda entry: entry.item.src):
        alike = list(neighbours)
        for start in range(0, len(alike), limits.IMPORT_CANDIDATES):
            chunk = alike[start : start + limits.IMPORT_CANDIDATES]
            # All that the event has, because banks that absorb each other compare events of one id.
            event_id = part_id(identity(FORM, msgspec.to_builtins(chunk)), "drawn")
            yield ImportUnit((_extraction(event_id, chunk),))


def _extraction(event_id: str, entries: list[Listed]) -> MemoriesExtracted:
    src = entries[0].item.src
    return MemoriesExtracted(
        id=event_id,
        # Judges' items have no kind of extraction: no run brought them.
        kind="manual" if src == "principle" or src == "episode" else src,
        extractor=EXTRACTOR,
        heads=tuple(entry.item.head for entry in entries),
        copy_of=tuple(entry.copy_of for entry in entries),
        candidates=tuple(entry.item.text for entry in entries),
    )


def news_of_list(parsed: Parsed, state: State) -> News:
    """Return the entries of a list whose items a bank in this state has not met, as extractions."""
    met = {each.item.id: each.item for each in state.candidates.values() if not each.erased}
    ids = {each.item.id for each in state.candidates.values()} | state.items.keys()
    entries = [entry for unit in parsed.units for event in unit.events for entry in _entries_of(event)]
    items = [entry.item for entry in entries]
    new = list(units_of(_without_met(entries, ids, met.values())))
    differing = [item for item in items if item.id in met and _words(item) != _words(met[item.id])]
    ended = Counter(entry.state for item in items if (entry := state.items.get(item.id)) and entry.state != "active")
    notes = []
    if ended:
        states = ", ".join(f"{number:,} {name}" for name, number in sorted(ended.items()))
        notes.append(f"{states}: a list brings no item back that the bank ended; see: rbank-es restore, admit")
    changes = tuple(RecordChange(record=item.id, run="", differing=("item",)) for item in differing)
    return News(new, changes, tuple(notes), max(len(parsed.units) - len(new), 0), len(differing))


def _without_met(entries: Iterable[Listed], ids: Collection[str], met: Iterable[Item]) -> list[Listed]:
    """Return the entries whose ids aren't known, nor their words where their ids follow from these."""
    new = [entry for entry in entries if entry.item.id not in ids]
    if not any(_is_named_by_words(entry.item) for entry in new):
        return new
    words = {digest_of_words(item.title, item.content) for item in met}
    return [entry for entry in new if not _is_named_by_words(entry.item) or _name_of(entry.item) not in words]


def _entries_of(event: Event) -> Iterator[Listed]:
    if isinstance(event, MemoriesExtracted):
        for head, copy_of, text in zip(event.heads, event.copy_of, event.candidates, strict=True):
            if isinstance(text, ItemText):
                yield Listed(Item.join(head, text), copy_of)


def _words(item: Item) -> tuple[str, str, tuple[str, ...]]:
    return digest_of_words(item.title, item.content), digest_of_words(item.desc, ""), item.tags


def _is_item(opening: Opening) -> bool:
    others = {"event_type", "type", "memory_items", "task_id"}
    if "title" in opening.fields:
        return others.isdisjoint(opening.fields)
    # A role without a title is that of a chat message.
    return (others | {"role"}).isdisjoint(opening.fields) and opening.data.startswith(b"[")


IMPORTER = Importer(form=FORM, about="a list of items (title)", recognise=_is_item, parse=parse_items)
