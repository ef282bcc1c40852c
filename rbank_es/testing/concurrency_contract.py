"""Idempotency, and several writers and readers at once."""

from __future__ import annotations

import threading
import time
from functools import partial

from rbank_es import limits
from rbank_es.errors import (
    BadEvent,
    DuplicateEvent,
    PositionConflict,
)
from rbank_es.events import (
    LmCalled,
    NoteLogged,
)
from rbank_es.events.event import Settings
from rbank_es.log.protocol import EMPTY, Appended
from rbank_es.testing.contract_base import Basis, at_once, event_id, note, run


class RetryingContract(Basis):
    """Idempotency: an event id is a promise for ever."""

    def test_same_again_is_answered_with_the_first_positions(self) -> None:
        """The same ids with the same content: nothing is written, whoever asks, however much later."""
        log = self.make_log()
        group = [note("one", 1), run("r", "t" * 5_000, 2, occurred_at="2026-01-31T12:00:00.000000Z")]
        first = log.append(group)
        log.append([note("later")])
        before = self.all_of(log)
        for handle in (log, self.reopen(log)):
            again = handle.append(group)
            assert (again.first, again.last, again.duplicate) == (first.first, first.last, True)
            assert again.events == first.events
        assert self.all_of(log) == before

    def test_same_again_is_found_before_the_expectation_is_compared(self) -> None:
        """A retry need not know that its first try got through."""
        log = self.make_log()
        first = log.append([note("one", 1)], expected=EMPTY)
        log.append([note("two")])
        for expected in (EMPTY, 0, 1, 99):
            assert log.append([note("one", 1)], expected=expected).first == first.first

    def test_same_again_for_a_text_longer_than_a_line(self) -> None:
        """A retry works for every event that could be appended, texts of any allowed size included."""
        log = self.make_log()
        event = note("x" * (limits.LINE_BYTES + 1_000), 1)
        assert not log.append([event]).duplicate
        assert log.append([event]).duplicate

    def test_other_content_is_a_duplicate(self) -> None:
        """A known id with another type, fact, text or time raises, naming the position."""
        log = self.make_log()
        log.append([note("before"), run("r", "a task", 1)])
        others = (
            note("a task", 1),
            run("r2", "a task", 1),
            run("r", "another task", 1),
            run("r", "a task" * 1_000, 1),
            run("r", "a task", 1, occurred_at="2026-01-31T12:00:00.000000Z"),
        )
        for other in others:
            with self.refused(log, DuplicateEvent) as caught:
                log.append([other])
            assert (caught[0].event_id, caught[0].seq) == (event_id(1), 2)

    def test_known_and_new_ids_in_one_group_are_a_duplicate(self) -> None:
        """A group is answered whole or not at all: some known ids among new ones raise."""
        log = self.filled(2)
        for group in ([note("note 1", 1), note("new", 3)], [note("new", 3), note("note 2", 2)]):
            with self.refused(log, DuplicateEvent):
                log.append(group)
        with self.refused(log, DuplicateEvent):
            log.append([note("note 1", 1), note("without an id")])

    def test_same_id_twice_in_one_group_is_refused(self) -> None:
        """Two events of one group can't share an id, not even with the same content."""
        log = self.filled(1)
        with self.refused(log, BadEvent):
            log.append([note("x", 7), note("x", 7)])

    def test_id_inside_of_content_is_not_an_id(self) -> None:
        """An id that only stands in an event's facts or texts is not known."""
        log = self.make_log()
        settings: Settings = {"a": 1, "id": event_id(5), "v": 1}
        log.append([LmCalled(role="agent", model="m", parameters=settings), note(f',"id":"{event_id(5)}","v":1')])
        assert log.seq_of_id(event_id(5)) is None
        assert not log.append([note("five", 5)]).duplicate
        assert log.seq_of_id(event_id(5)) == 3

    def test_position_of_an_id(self) -> None:
        """`seq_of_id` finds every event, given an id or not, and None for others."""
        log = self.filled(40)
        unnamed = log.append([note("unnamed")]).events[0]
        for handle in (log, self.reopen(log)):
            assert [handle.seq_of_id(event_id(number)) for number in (1, 20, 40, 41)] == [1, 20, 40, None]
            assert handle.seq_of_id(unnamed.id) == 41

    def test_threads_with_the_same_ids_store_one(self) -> None:
        """Of several that append the same at once, one stores it, and all get its positions."""
        log = self.filled(1)
        for number in range(10, 15):
            group = [note("same", number), note("same", 100 + number)]
            results: list[Appended] = at_once(*[partial(log.append, group)] * 4)
            assert {(each.first, each.last) for each in results} == {(results[0].first, results[0].last)}
            assert sorted(each.duplicate for each in results) == [False, True, True, True]
        assert log.position() == 11


class TogetherContract(Basis):
    """Several writers and readers at once, in threads, through one handle and through several."""

    def test_positions_have_no_gap(self) -> None:
        """Groups appended at once stand one after the other, whole, each writer's in its order."""
        log = self.make_log()
        handles = [log, log, self.reopen(log), self.reopen(log)]

        def write(writer: int) -> None:
            for number in range(8):
                size = (1, 3, 7)[number % 3]
                handles[writer].append([note(f"{number}", run=f"w{writer}") for _ in range(size)])

        at_once(*[partial(write, writer) for writer in range(4)])
        events = list(log.read())
        assert [event.seq for event in events] == list(range(1, 4 * 26 + 1))
        assert [event.at for event in events] == sorted(event.at for event in events)
        for writer in range(4):
            own = [
                int(str(event.note)) for event in events if isinstance(event, NoteLogged) and event.run == f"w{writer}"
            ]
            assert own == [number for number in range(8) for _ in range((1, 3, 7)[number % 3])]
        for event, following in zip(events, events[1:], strict=False):
            assert not event.more or following.more == event.more - 1
        assert log.verify().events == 4 * 26

    def test_same_expectation_has_one_winner(self) -> None:
        """Of several that expect the same position, exactly one appends; the others are told where the log is."""
        log = self.make_log()
        handles = [log, log, self.reopen(log), self.reopen(log)]
        for position in range(8):
            results = at_once(*[partial(handle.append, [note("mine")], expected=position) for handle in handles])
            assert sum(isinstance(result, Appended) for result in results) == 1
            assert sum(isinstance(result, PositionConflict) and result.actual > position for result in results) == 3

    def test_reader_sees_whole_groups(self) -> None:
        """While others append, a reader sees a prefix of whole groups, and each look sees at least the last one."""
        log = self.make_log()
        reader, done, seen = self.reopen(log), threading.Event(), 0

        def write() -> None:
            for _ in range(25):
                log.append([note("x" * 50) for _ in range(4)])
            done.set()

        def look() -> None:
            nonlocal seen
            while not done.is_set():
                position = reader.position()
                count = sum(1 for _ in reader.read())
                assert position % 4 == 0 and count % 4 == 0 and seen <= position <= count
                seen = count
                time.sleep(0.001)

        for result in at_once(write, look):
            assert result is None, result
        assert reader.position() == 100
