"""Item JSON: a list of `{id, title, desc, content, src, tags}`, optionally with polarity, role, scope and domain.

Ids are kept, texts are kept whole. A missing id follows from title and content, a missing polarity from the source.
Neighbours of one source become one extraction of that kind; `principle` and `episode` count as given by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec

from rbank_es import limits
from rbank_es.errors import BadImport
from rbank_es.events import MemoriesExtracted
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.items import Item, Name, Polarity, Source
from rbank_es.exchange.importer import Importer, ImportUnit, Parsed, decode
from rbank_es.system.validation_messages import reason_of

EXTRACTOR = "item-import-1"


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
    entries = decode(path, data)
    if not isinstance(entries, list):
        raise BadImport(path, f"expected a list of items, got {type(entries).__name__}")
    items = [_item(path, number, entry) for number, entry in enumerate(entries, 1)]
    source = sha256(data).digest()
    return Parsed(path=path, form="items", units=tuple(_units(source, items)), decided=False)


def _item(path: str, number: int, fields: Any) -> Item:
    try:
        entry = msgspec.convert(fields, type=Entry)
    except msgspec.ValidationError as error:
        raise BadImport(path, f"entry {number}: {reason_of(error, Entry)}") from None
    if not entry.title.strip() and not entry.content.strip():
        raise BadImport(path, f"entry {number}: title and content are both empty")
    if entry.state != "active":
        raise BadImport(path, f"entry {number}: {entry.id} is {entry.state}; only active items can be imported")
    return entry.item


def _units(source: bytes, items: list[Item]) -> Iterator[ImportUnit]:
    number = 0
    # Neighbours only, because the order of births decides which of two near duplicates stays.
    for _, neighbours in groupby(items, key=lambda item: item.src):
        alike = list(neighbours)
        for start in range(0, len(alike), limits.IMPORT_CANDIDATES):
            chunk = alike[start : start + limits.IMPORT_CANDIDATES]
            yield ImportUnit((_extraction(derived_id(source, number), chunk),))
            number += len(chunk)


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


IMPORTER = Importer(
    form="items", about="a list of items", recognise=lambda opening: opening.data.startswith(b"["), parse=parse_items
)
