"""A log that is a list, which is what read models need of a log; and what a file of read models holds, to compare."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from rbank_es.events import Event, Ref, type_of
from rbank_es.events.event_envelope import Candidate, Text
from rbank_es.events.items import ItemText
from rbank_es.projections import all_projections, view_texts
from rbank_es.projections.view import View


class FakeLog:
    """Events in a list. `texts` are what handles name; `epoch` is raised by hand; `synced` counts calls of `sync`."""

    place, derived_directory = "a fake", Path("derived")

    def __init__(self, events: Iterable[Event] = (), texts: Mapping[str, str] | None = None) -> None:
        self.events = list(events)
        self.texts = dict(texts or {})
        self.epoch = 0
        self.synced = 0
        self.on_read: Callable[[Event], None] = lambda event: None
        assert [event.seq for event in self.events] == list(range(1, len(self.events) + 1))

    def upto(self, seq: int) -> FakeLog:
        """The log as it was at a position."""
        return FakeLog(self.events[:seq], self.texts)

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        """Events in order of position."""
        for event in self.events[after:upto]:
            if run is not None and getattr(event, "run", None) != run:
                continue
            if types is None or type_of(event) in types:
                self.on_read(event)
                yield self._resolved(event) if type_of(event) in resolve else event

    def _resolved(self, event: Event) -> Event:
        changed: dict[str, object] = {}
        for name in event.__struct_fields__:
            value = getattr(event, name)
            if isinstance(value, Ref):
                changed[name] = self._text(value)
            elif name == "candidates":
                changed[name] = tuple(self._text(one) if isinstance(one, Ref) else one for one in value)
        return msgspec.structs.replace(event, **changed) if changed else event

    def _text(self, ref: Ref) -> Text | Candidate:
        text = self.texts[ref.key]
        return msgspec.json.decode(text, type=ItemText) if ref.dtype == "item" else text

    def position(self) -> int:
        """Position of the last event."""
        return len(self.events)

    def mark(self, position: int) -> str | None:
        """What tells this log from another, as far as an event."""
        return msgspec.json.encode(self.events[:position]).hex() if position <= len(self.events) else None

    def erasures(self) -> int:
        """The erasure epoch."""
        return self.epoch

    def sync(self) -> None:
        """Count the call."""
        self.synced += 1


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table of a file of read models, in order. What the index holds, only a search tells."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [table.name for projection in all_projections() for table in projection.tables]
        return {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in tables}


def shown(view: View) -> dict[str, list[str]]:
    """All rows of all named views, in order."""
    return {name: sorted(repr(row) for row in view.rows(name)) for name in view_texts()} | {
        "usage": [repr(view.usage())]
    }
