"""Which event ids the log knows: for ever, and without reading it all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rbank_es import limits
from rbank_es.events.event import Event
from rbank_es.log.file import hints, lines
from rbank_es.log.file.reader import Reader, opened
from rbank_es.log.file.segments import Segment, all_segments, blocks


class Ids:
    """Finds positions by event id: closed segments by their index, the active one by search, then by dictionary."""

    def __init__(self, directory: Path, reader: Reader) -> None:
        self._directory = directory
        self._reader = reader
        self._active: dict[str, int] | None = None
        self._searched = 0
        self._indexes: dict[str, hints.IdIndex] = {}

    def forget_active(self) -> None:
        """The active segment is not what it was."""
        self._active = None

    def forget_all(self) -> None:
        """Derived files were removed."""
        self._active = None
        self._indexes.clear()

    def add(self, events: Iterable[Event]) -> None:
        """Take in events that were just appended."""
        if self._active is not None:
            self._active.update((event.id, event.seq) for event in events)

    def find(self, event_ids: Sequence[str]) -> dict[str, int]:
        """Positions of those of the ids that are known. For a writer that holds the lock."""
        *closed, active = all_segments(self._directory)
        self._searched += len(event_ids)
        if self._active is None and self._searched >= limits.SEARCHED_IDS:
            self._active = _all_ids(active)
        found = {event_id: self._find(event_id, closed, active) for event_id in event_ids}
        return {event_id: seq for event_id, seq in found.items() if seq is not None}

    def _find(self, event_id: str, closed: list[Segment], active: Segment) -> int | None:
        seq = self._reader.find_id(event_id, active) if self._active is None else self._active.get(event_id)
        return seq if seq is not None else self._in_closed(event_id, closed)

    def seq_of(self, event_id: str) -> int | None:
        """Position of the event with this id, if any; for readers, who hold no lock."""
        *closed, active = all_segments(self._directory)
        seq = self._reader.find_id(event_id, active)
        return seq if seq is not None else self._in_closed(event_id, closed)

    def _in_closed(self, event_id: str, closed: list[Segment]) -> int | None:
        for segment in reversed(closed):
            if segment.name not in self._indexes:
                self._indexes[segment.name] = hints.id_index(self._directory / hints.FOLDER, segment, self._reader.seed)
            seq = self._indexes[segment.name].find(event_id)
            if seq is not None:
                return seq
        return None


def _all_ids(segment: Segment) -> dict[str, int]:
    with opened(segment.path) as fd:
        return dict(
            hints.id_and_seq(line)
            for _, complete in blocks(fd, 0)
            for line in complete
            if not line.startswith((lines.ANY_TEXT, lines.SEGMENT))
        )
