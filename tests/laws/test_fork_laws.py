"""Laws of forks: whatever is appended to, erased from and forked off the banks of a lineage, in any order."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.bank.branches import common_history
from rbank_es.events import NoteLogged
from rbank_es.events.codec import TYPES
from rbank_es.log import Erasing, Head
from rbank_es.log.file.file_log import FileLog
from tests.effort import examples
from tests.faults.disk import Quick

steps = st.lists(
    st.tuples(st.sampled_from(("append", "append", "fork", "erase")), st.integers(0, 99), st.integers(0, 99)),
    min_size=3,
    max_size=16,
)


@dataclass
class Branch:
    """A bank and the model of it: ids of all events, the words that it must still have, heads noted, ends of groups."""

    log: FileLog
    ids: list[str]
    words: dict[int, str]
    noted: list[Head]
    ends: list[int]

    def seen(self) -> None:
        """Take up what was appended."""
        self.ids += [event.id for event in self.log.read(after=len(self.ids))]
        self.ends.append(len(self.ids))
        self.noted.append(self.log.head())


class Lineage:
    """The banks of one lineage."""

    def __init__(self, place: Path) -> None:
        self.place, self.count = place, 0
        self.banks = [Branch(FileLog.create(place / "0", calls=Quick()), [], {}, [], [0])]

    def append(self, bank: Branch, size: int) -> None:
        events = []
        for _ in range(size % 3 + 1):
            self.count += 1
            words = f"words number {self.count:06d}" + " and so on" * (size % 50)
            bank.words[bank.log.position() + len(events) + 1] = words
            events.append(NoteLogged(note=words))
        bank.log.append(events)
        bank.seen()

    def fork(self, bank: Branch, choice: int) -> None:
        end = bank.ends[choice % len(bank.ends)]
        made = bank.log.fork(end, str(self.place / str(len(self.banks))))
        words = {seq: text for seq, text in bank.words.items() if seq <= end}
        noted = [head for head in bank.noted if head.seq <= end]
        ends = [each for each in bank.ends if each <= end]
        self.banks.append(Branch(FileLog.open(made.directory, calls=Quick()), bank.ids[:end], words, noted, ends))
        self.banks[-1].seen()

    def erase(self, bank: Branch, choice: int) -> None:
        if bank.words:
            seq = sorted(bank.words)[choice % len(bank.words)]
            text = bank.words.pop(seq)
            found = bank.log.erase(Erasing(events=frozenset({seq})))
            bank.seen()
            holders = {each.place for each in found.relatives}
            others = [each for each in self.banks if each is not bank and each.words.get(seq) == text]
            assert holders >= {str(each.log.directory.resolve()) for each in others}


@settings(max_examples=examples(25), deadline=None)
@given(steps, st.sampled_from((700, 3_000)))
def test_the_banks_of_a_lineage_are_what_was_done_to_each(did: list[tuple[str, int, int]], segment_bytes: int) -> None:
    """Each verifies, with every head noted of it or of an ancestor; has the words that were not erased in it or, before
    it was forked, in its parent; and shares with each other exactly the events that both have."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(limits, "SEGMENT_BYTES", segment_bytes),
        patch.object(limits, "INLINE_TEXT_BYTES", 120),
    ):
        lineage = Lineage(Path(folder))
        for act, which, choice in did:
            step: Any = getattr(lineage, act)
            step(lineage.banks[which % len(lineage.banks)], choice)
        for bank in lineage.banks:
            bank.log.verify(bank.noted)
            read = {event.seq: event for event in bank.log.read(resolve=TYPES) if isinstance(event, NoteLogged)}
            assert {seq: each.note for seq, each in read.items() if isinstance(each.note, str)} == bank.words
            assert [event.id for event in bank.log.read()] == bank.ids
        for one, other in combinations(lineage.banks, 2):
            shared = common_history(one.log, other.log)
            same = [here == there for here, there in zip(one.ids, other.ids, strict=False)]
            assert shared is not None and shared.head.seq == (same.index(False) if False in same else len(same))
            shared.require_claimed("one", "other")
            assert shared.beyond == (len(one.ids) - shared.head.seq, len(other.ids) - shared.head.seq)
