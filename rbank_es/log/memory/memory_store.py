"""The stored form of a log in memory: its lines, and the indexes that are kept with them."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from rbank_es.errors import LogCorruption
from rbank_es.events.event import Ref
from rbank_es.log import erasure, lines
from rbank_es.log.disk import locked
from rbank_es.log.erasure_residue import clear_derived
from rbank_es.log.line_groups import line_groups, named_texts
from rbank_es.log.protocol import DERIVED_LOCK, Ancestor
from rbank_es.system.files import remove_temporary, temporary_folder
from rbank_es.system.forks import told_of_forks


@dataclass(eq=False)
class MemoryStore:
    """The stored form of one log: lines without newline, in the order in which they were written.

    `events` are the lines of events, that of position n at n - 1; `texts` the lines of long texts by key.
    """

    bank_id: str
    name: str = ""
    events: list[bytes] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    runs: dict[str, list[int]] = field(default_factory=dict)
    """The positions of each run's events."""
    stored: dict[bytes, str] = field(default_factory=dict)
    """SHA-256 of the raw JSON of each text that is stored, to its key."""
    digests: list[bytes] = field(default_factory=lambda: [lines.GENESIS])
    erased_at: int = 0
    ancestors: tuple[Ancestor, ...] = ()
    held: set[str] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))
    _derived: Path | None = None

    def __post_init__(self) -> None:
        self.lineage = next((each.bank for each in self.ancestors), self.bank_id)
        self.seed = lines.seed_of(self.lineage)
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

    def derived_files_held(self) -> AbstractContextManager[None]:
        """Exclude writers of derived files, if there are any files."""
        if self._derived is None:
            return nullcontext()
        return locked(self._derived / DERIVED_LOCK, f"memory:{self.name}")

    # ------------------------------------------------------------ as a source for erasure

    def parts(self) -> tuple[None]:
        """Return the one part that a log in memory has."""
        return (None,)

    def line_at(self, seq: int) -> tuple[None, bytes] | None:
        """Return the line at a position; None where there is none."""
        return (None, self.events[seq - 1]) if 0 < seq <= len(self.events) else None

    def lines_with(self, part: None, needle: bytes) -> Iterator[bytes]:
        """Yield the lines that hold some bytes."""
        return (line for line in (*self.texts.values(), *self.events) if needle in line)

    def blocks(self, part: None) -> Iterator[tuple[str, bytes]]:
        """Yield all lines, each with its place in words."""
        yield from (("a long text", line) for line in self.texts.values())
        yield from ((f"position {number:,}", line) for number, line in enumerate(self.events, 1))

    def text(self, ref: Ref, part: None = None) -> str | None:
        """Return the text that a handle names; None if it was erased. Raises `LogCorruption`."""
        line = self.texts.get(ref.key)
        if line is None:
            raise LogCorruption(f"the text {ref.key[:12]}…", "it is missing")
        try:
            return lines.read_text(line, self.seed)
        except ValueError as error:
            raise LogCorruption(f"the text {ref.key[:12]}…", str(error)) from None

    # ------------------------------------------------------------ writing

    def stored_lines(self) -> Iterator[bytes]:
        """Yield the lines of events, each behind those of the texts that it names first, or records as erased."""
        seen, texts = set[str](), self.texts
        for group in line_groups(self.events):
            named = dict.fromkeys(key for line in group.events for key in named_texts(line) if key not in seen)
            yield from (texts[key] for key in named if key in texts)
            seen |= named.keys()
            yield from group.events

    def add(self, rows: Sequence[bytes]) -> None:
        """Add the lines of a group, and wake the threads that wait for it."""
        self._drop_unfinished()
        events = [line for line in rows if not line.startswith(lines.ANY_TEXT)]
        self.texts |= {lines.key_of_text(line): line for line in rows if line.startswith(lines.ANY_TEXT)}
        self.stored |= {
            sha256(lines.raw_text(line)).digest(): lines.key_of_text(line)
            for line in rows
            if line.startswith(lines.TEXT)
        }
        for seq, line in enumerate(events, len(self.events) + 1):
            self.digests.append(lines.chain(self.digests[-1], line))  # 32 bytes an event make every head immediate
            self.ids[lines.id_of(line)] = seq
            run = lines.key_of(line).run
            if isinstance(run, str):
                self.runs.setdefault(run, []).append(seq)
        with self.changed:
            # Last and in one step, because readers take no lock and must see whole groups.
            self.events += events
            self.changed.notify_all()

    def _drop_unfinished(self) -> None:
        """Drop from the indexes what an append left that a signal interrupted, or a fork, in the child."""
        end = len(self.events)
        if len(self.digests) > end + 1:
            self.ids, self.runs = self._indexes_upto(end)
            del self.digests[end + 1 :]  # last, because they show that there is something to drop

    def _indexes_upto(self, position: int) -> tuple[dict[str, int], dict[str, list[int]]]:
        ids = {event_id: seq for event_id, seq in self.ids.items() if seq <= position}
        runs = {run: seqs[: bisect_right(seqs, position)] for run, seqs in self.runs.items() if seqs[0] <= position}
        return ids, runs

    def rewrite(self, targets: erasure.Targets) -> None:
        """Replace the lines of texts to erase, and remove derived files. For the holder of `changed`."""
        # First what the next erasure of the same words would not find again, should a signal interrupt this one.
        self.erased_at = len(self.events)
        if self._derived is not None:
            clear_derived(self._derived)
        for key in targets.keys & self.texts.keys():
            self.texts[key] = targets.erased_line(self.texts[key], self.seed)[:-1]
        # An erased text that is appended again is stored again, under another key.
        self.stored = {digest: key for digest, key in self.stored.items() if key not in targets.keys}
        for seq in targets.paths:
            self.events[seq - 1] = targets.erased_line(self.events[seq - 1], self.seed)[:-1]


def _remove(directory: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child ends with the parent's finalizers
        remove_temporary(directory)
