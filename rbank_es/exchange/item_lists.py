"""Item JSON: a list of `{id, title, desc, content, src, tags}`, optionally with polarity, role, scope and domain.

Ids are kept, texts are kept whole. A missing id follows from title and content, a missing polarity from the source.
Neighbours of one source become one extraction of that kind; `principle` and `episode` count as given by hand.

An entry is the item with its id. A list of items names no runs, so it brings items and no witnesses: an entry whose id
the bank has met, as an item in any state or as a candidate, adds nothing, wherever the list comes from. Other words
under a known id differ, and are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Literal

import msgspec

from rbank_es import limits
from rbank_es.events import Event, MemoriesExtracted
from rbank_es.events.items import Item, ItemText, Name, Polarity, Source
from rbank_es.exchange.identity import identity, part_id
from rbank_es.exchange.importer import Importer, ImportUnit, Opening, Parsed
from rbank_es.exchange.json_records import JsonRecord, json_records
from rbank_es.exchange.known_records import News, RecordChange
from rbank_es.state import State
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

    @property
    def item(self) -> Item:
        """The item that it describes."""
        return Item.make(**{name: value for name, value in msgspec.structs.asdict(self).items() if name != "state"})


def parse_items(path: str, data: bytes) -> Parsed:
    """Parse an item list into extractions. Raises `BadImport`, naming the entry (from 1)."""
    items: dict[str, Item] = {}
    notes: list[str] = []
    for record in json_records(path, data):
        item = _item(path, record)
        if items.setdefault(item.id, item) != item:
            notes.append(f"{record.name}: {item.id} is the id of an earlier entry that differs; left out")
    units = tuple(units_of(items.values()))
    shown = tuple(notes[: limits.RECORDS_NAMED])
    return Parsed(path=path, form=FORM, units=units, decided=False, listed=True, left_out=len(notes), notes=shown)


def _item(path: str, record: JsonRecord) -> Item:
    try:
        entry = msgspec.convert(record.fields, type=Entry)
    except msgspec.ValidationError as error:
        raise record.bad(path, reason_of(error, Entry)) from None
    if not entry.title.strip() and not entry.content.strip():
        raise record.bad(path, "title and content are both empty")
    if entry.state != "active":
        raise record.bad(path, f"{entry.id} is {entry.state}; only active items can be imported")
    return entry.item


def units_of(items: Iterable[Item]) -> Iterator[ImportUnit]:
    """Yield extractions of the items, each of neighbours with one source."""
    # Neighbours only, because the order of births decides which of two near duplicates stays.
    for _, neighbours in groupby(items, key=lambda item: item.src):
        alike = list(neighbours)
        for start in range(0, len(alike), limits.IMPORT_CANDIDATES):
            chunk = alike[start : start + limits.IMPORT_CANDIDATES]
            event_id = part_id(identity(FORM, [item.id for item in chunk]), "drawn")
            yield ImportUnit((_extraction(event_id, chunk),))


def _extraction(event_id: str, items: list[Item]) -> MemoriesExtracted:
    src = items[0].src
    return MemoriesExtracted(
        id=event_id,
        # Judges' items have no kind of extraction: no run brought them.
        kind="manual" if src == "principle" or src == "episode" else src,
        extractor=EXTRACTOR,
        heads=tuple(item.head for item in items),
        candidates=tuple(item.text for item in items),
    )


def news_of_list(parsed: Parsed, state: State) -> News:
    """Return the entries of a list whose ids a bank in this state has not met, as extractions."""
    met = {each.item.id: each.item for each in state.candidates.values() if not each.erased}
    ids = {each.item.id for each in state.candidates.values()} | state.items.keys()
    items = [item for unit in parsed.units for event in unit.events for item in _items_of(event)]
    new = list(units_of(item for item in items if item.id not in ids))
    differing = [item for item in items if item.id in met and _words(item) != _words(met[item.id])]
    ended = Counter(entry.state for item in items if (entry := state.items.get(item.id)) and entry.state != "active")
    notes = []
    if ended:
        states = ", ".join(f"{number:,} {name}" for name, number in sorted(ended.items()))
        notes.append(f"{states}: a list brings no item back that the bank ended; see: rbank-es restore, admit")
    changes = tuple(RecordChange(record=item.id, run="", differing=("item",)) for item in differing)
    return News(new, changes, tuple(notes), max(len(parsed.units) - len(new), 0), len(differing))


def _items_of(event: Event) -> Iterator[Item]:
    if isinstance(event, MemoriesExtracted):
        for head, text in zip(event.heads, event.candidates, strict=True):
            if isinstance(text, ItemText):
                yield Item.join(head, text)


def _words(item: Item) -> tuple[str, str, str, tuple[str, ...]]:
    return item.title, item.desc, item.content, item.tags


def _is_item(opening: Opening) -> bool:
    others = {"event_type", "type", "memory_items", "task_id"}
    return others.isdisjoint(opening.fields) and (opening.data.startswith(b"[") or "title" in opening.fields)


IMPORTER = Importer(form=FORM, about="a list of items (title)", recognise=_is_item, parse=parse_items)
