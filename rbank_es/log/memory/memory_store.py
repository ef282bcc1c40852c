# ruff: noqa: D102  the methods without a docstring are documented in `Rows`
"""The rows of a log in memory, and the indexes that are kept with them."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rbank_es.log.lines import GENESIS, event_of, seed_of
from rbank_es.log.protocol import Ancestor
from rbank_es.log.rows.line_rows import End, LineRow, TextRow
from rbank_es.system.files import remove_temporary, temporary_folder
from rbank_es.system.forks import told_of_forks


@dataclass(eq=False)
class MemoryStore:
    """The rows of one log; see `Rows` for the promises of its methods.

    `events` are the rows of events, that of position n at n - 1; `long_texts` those of long texts by key, in the order
    of `text_places`. Readers take no lock: an event is there when it is in `events`, and what the indexes have beside
    is of an append under way, or of one that a signal interrupted, or a fork, in the child.
    """

    bank_id: str
    name: str = ""
    events: list[LineRow] = field(default_factory=list)
    long_texts: dict[str, TextRow] = field(default_factory=dict)
    text_places: list[tuple[int, str]] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    runs: dict[str, list[int]] = field(default_factory=dict)
    """The positions of each run's events."""
    stored: dict[bytes, str] = field(default_factory=dict)
    """The key of each text that is stored and not erased, by SHA-256 of its raw JSON."""
    erased_at: int = 0
    ancestors: tuple[Ancestor, ...] = ()
    held: set[str] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))
    _derived: Path | None = None

    def __post_init__(self) -> None:
        self.lineage = next((each.bank for each in self.ancestors), self.bank_id)
        self.seed = seed_of(self.lineage)
        told_of_forks.add(self)

    def forget_parent(self) -> None:
        """Reset the state in a forked child: a parent's thread may hold the lock, and the files are the parent's."""
        self.changed, self._derived = threading.Condition(threading.RLock()), None
        self.held.clear()

    @property
    def derived_directory(self) -> Path:
        """A temporary directory that is made when it is first needed, and removed with this object."""
        with self.changed:
            if self._derived is None:
                self._derived = temporary_folder("memory")
                weakref.finalize(self, _remove, self._derived, os.getpid())
            return self._derived

    # ------------------------------------------------------------ reading

    def position(self) -> int:
        return len(self.events)

    def end(self) -> End:
        if not self.events:
            return End(0, "", GENESIS, None, ())
        last = self.events[-1]
        return End(last.seq, event_of(last.line).at, last.digest, last.line, ())

    def lines(
        self, after: int, upto: int, types: Collection[str] | None, run: str | None, most: int
    ) -> Sequence[tuple[int, bytes]]:
        found = (row for row in self._rows(after, upto, run) if types is None or row.type in types)
        return [(row.seq, row.line) for row in islice(found, most)]

    def _rows(self, after: int, upto: int, run: str | None) -> Iterator[LineRow]:
        upto = min(upto, len(self.events))
        if run is None:
            return (self.events[at] for at in range(after, upto))
        positions = self.runs.get(run, [])
        return (self.events[at - 1] for at in positions[bisect_right(positions, after) : bisect_right(positions, upto)])

    def page(self, after: int, most: int) -> Sequence[LineRow]:
        return self.events[after : after + most]

    def texts(self, after: int, upto: int) -> Iterable[tuple[int, bytes]]:
        first, behind = (bisect_left(self.text_places, (seq + 1, "")) for seq in (after, upto))
        return [(seq, self.long_texts[key].line) for seq, key in self.text_places[first:behind]]

    def digest(self, seq: int) -> bytes | None:
        return self.events[seq - 1].digest if 0 < seq <= len(self.events) else None

    def positions(self, ids: Sequence[str]) -> dict[str, int]:
        found = {event_id: self.ids.get(event_id, 0) for event_id in ids}
        return {event_id: seq for event_id, seq in found.items() if 0 < seq <= len(self.events)}

    def text(self, key: str) -> bytes | None:
        found = self.long_texts.get(key)
        return None if found is None else found.line

    def keys(self, digests: Collection[bytes]) -> dict[bytes, str]:
        found = {digest: self.stored.get(digest) for digest in digests}
        # That of an append that was interrupted goes with the next one.
        return {digest: key for digest, key in found.items() if key and self.long_texts[key].seq <= len(self.events)}

    def erasures(self) -> int:
        return self.erased_at

    # ------------------------------------------------------------ writing

    def add(self, events: Sequence[LineRow], texts: Sequence[TextRow], kinds: Collection[str]) -> None:
        """Store rows behind the end, and wake the threads that wait for them."""
        self._drop_unfinished()
        for text in texts:
            self.text_places.append((text.seq, text.key))
            self.long_texts[text.key] = text
            if text.digest is not None:
                self.stored[text.digest] = text.key
        for row in events:
            self.ids[row.id] = row.seq
            if row.run is not None:
                self.runs.setdefault(row.run, []).append(row.seq)
        erased = max((row.seq for row in events if row.type == "content_erased"), default=self.erased_at)
        with self.changed:
            # Last and in one step, because readers take no lock and must see whole groups.
            self.events += events
            self.erased_at = erased
            self.changed.notify_all()

    def _drop_unfinished(self) -> None:
        """Drop from the indexes what an append left that did not come to its end."""
        end = len(self.events)
        if len(self.ids) == end and (not self.text_places or self.text_places[-1][0] <= end):
            return
        self.runs = {run: [seq for seq in found if seq <= end] for run, found in self.runs.items()}
        self.stored = {digest: key for digest, key in self.stored.items() if self.long_texts[key].seq <= end}
        self.text_places = [each for each in self.text_places if each[0] <= end]
        self.ids = {row.id: row.seq for row in self.events}  # last, because they show that there is something to drop

    def rewrite(self, events: Sequence[tuple[int, bytes]], texts: Sequence[tuple[str, bytes]]) -> None:
        """Replace lines of events by position, and of texts by key, whose digests go. For the holder of `changed`."""
        erased = dict(texts)
        # An erased text that is appended again is stored again, under another key.
        self.stored = {digest: key for digest, key in self.stored.items() if key not in erased}
        for key, line in texts:
            self.long_texts[key] = self.long_texts[key]._replace(digest=None, line=line)
        for seq, line in events:
            self.events[seq - 1] = self.events[seq - 1]._replace(line=line)


def _remove(directory: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child ends with the parent's finalizers
        remove_temporary(directory)
