"""Promises of `append`: positions, groups, expectations, limits, time, retries, several writers at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

from rbank_es import limits
from rbank_es.errors import BadEvent, DuplicateEvent, LimitExceeded, PositionConflict
from rbank_es.events import (
    ContentErased,
    Erased,
    Event,
    Hit,
    LmCalled,
    MemoriesForgotten,
    MemoriesRetrieved,
    NoteLogged,
    Ref,
    RunFinished,
    RunStarted,
)
from rbank_es.events.event_envelope import Settings
from rbank_es.log.lines import Head
from rbank_es.log.protocol import ANY, EMPTY, Appended
from rbank_es.testing.contract_base import ContractBase, at_once, event_id, note, run


class AppendingContract(ContractBase):
    """Positions, groups, expectations."""

    def test_new_log_is_empty(self) -> None:
        """A new log is at position 0, reads as nothing, and has the head of nothing."""
        log = self.make_log()
        assert (log.position(), log.head(), list(log.read())) == (0, Head(0, "0" * 64), [])
        assert log.seq_of_id(event_id(1)) is None and log.erasures() == 0
        assert log.verify().events == 0

    def test_append_says_what_was_stored(self) -> None:
        """`append` returns first and last position, and the events as they will be read."""
        log = self.make_log()
        log.append([note("one")])
        appended = log.append([note("two"), run("r", "three", 3)])
        assert (appended.first, appended.last, appended.duplicate) == (2, 3, False)
        assert appended.events == tuple(log.read(after=1))
        assert appended.events[1].id == event_id(3) and len(appended.events[0].id) == 36
        assert all(event.at.endswith("Z") and len(event.at) == 27 and len(event.crc) == 8 for event in appended.events)

    def test_group_stands_together(self) -> None:
        """The events of a group have consecutive positions in their order; `more` counts those still to come."""
        log = self.make_log()
        log.append([note("before")])
        appended = log.append([note(str(number)) for number in range(5)])
        assert [event.seq for event in appended.events] == [2, 3, 4, 5, 6]
        assert [event.more for event in appended.events] == [4, 3, 2, 1, 0]
        assert [getattr(event, "note", None) for event in log.read(after=1)] == list("01234")

    def test_expected_any(self) -> None:
        """`ANY` appends wherever the log is."""
        log = self.make_log()
        assert [log.append([note("x")], expected=ANY).last for _ in range(3)] == [1, 2, 3]

    def test_expected_empty(self) -> None:
        """`EMPTY` appends to an empty log, and only to one."""
        log = self.make_log()
        assert log.append([note("first")], expected=EMPTY).last == 1
        with self.refused(log, PositionConflict) as caught:
            log.append([note("second")], expected=EMPTY)
        assert (caught[0].expected, caught[0].actual) == (0, 1)

    def test_expected_position_right(self) -> None:
        """A position appends where the log is at it; 0 means an empty log."""
        log = self.make_log()
        assert log.append([note("first"), note("second")], expected=0).last == 2
        assert log.append([note("third")], expected=2).last == 3

    def test_expected_position_wrong(self) -> None:
        """A position that the log has passed, or not reached, is a conflict that names both."""
        log = self.filled(3)
        for wrong in (0, 2, 4, 10**12, -1):
            with self.refused(log, PositionConflict) as caught:
                log.append([note("late")], expected=wrong)
            assert (caught[0].expected, caught[0].actual) == (wrong, 3)
        assert self.reopen(log).append([note("in time")], expected=3).last == 4

    def test_expected_sees_other_handles(self) -> None:
        """The expectation is compared with the position that readers see, events of other handles included."""
        log = self.filled(2)
        other = self.reopen(log)
        assert other.append([note("theirs")], expected=2).last == 3
        with self.refused(log, PositionConflict):
            log.append([note("ours")], expected=2)
        assert log.append([note("ours")], expected=log.position()).last == 4

    def test_refused_events_leave_the_log_as_it_was(self) -> None:
        """One event that can't be stored makes its whole group refused."""
        log = self.filled(2)
        bad: tuple[Event, ...] = (
            NoteLogged(note="x", id="not-a-uuid"),
            NoteLogged(note="x", id="01900000-0000-7000-8000-00000000000A"),
            NoteLogged(note="x", occurred_at="2026-01-31T12:00:00+01:00"),
            NoteLogged(note="x", origin='","note":"y'),
            NoteLogged(note="x", origin="F" * 32),
            NoteLogged(note=Erased("0" * 64)),
            NoteLogged(note="a lone surrogate \ud800"),
            NoteLogged(note=Ref("f" * 64, "text", 3, "abc")),
            RunStarted(run="n" * (limits.NAME_CHARS + 1)),
            RunStarted(run="n\0"),
            MemoriesForgotten(ids=("a", "b\\\0"), policy="hand-1"),
            RunStarted(run="r", iterations_max=-1),
            RunFinished(run="r", outcome="submitted", cost_usd=float("nan")),
            LmCalled(role="agent", model="m", parameters={"temperature": 1.0, "salt": 1}),
            ContentErased(units=()),
        )
        for event in bad:
            with self.refused(log, BadEvent):
                log.append([note("good", 100), event])
        with self.refused(log, BadEvent):
            log.append([])
        # The good event's id is free: it was refused with its group each time.
        assert log.append([note("good", 100), run("\\u0000", "\0")]).last == 4

    def test_a_number_that_json_cannot_hold_is_refused_and_not_stored_as_unknown(self) -> None:
        """At whatever depth; words that look like a missing number are no such thing."""
        log = self.make_log()
        hits = (Hit(id="i", rank=1, score=1.0, coverage=0.5), Hit(id="j", rank=2, score=1.0, coverage=float("inf")))
        bad: dict[str, Event] = {
            "$.cost_usd": RunFinished(run="r:null", outcome="submitted", cost_usd=float("nan")),
            "$.hits[1].coverage": MemoriesRetrieved(k=1, policy="p-1", hits=hits),
        }
        for path, event in bad.items():
            with self.refused(log, BadEvent) as caught:
                log.append([event])
            assert caught[0].path == path
        log.append([RunFinished(run="r:null", outcome="submitted")])
        assert log.position() == 1

    def test_the_bank_that_recorded_first_is_kept(self) -> None:
        """The origin of an event is read back as it was given; a retry with another one is the same event."""
        log = self.make_log()
        first = log.append([run("q", "one", 1, origin="ab" * 16), run("r", "x" * 5_000, 2, origin="ab" * 16)])
        log.append([note("two")])
        assert [event.origin for event in self.reopen(log).read()] == ["ab" * 16, "ab" * 16, None]
        assert log.append([run("q", "one", 1), run("r", "x" * 5_000, 2, origin="cd" * 16)]).first == first.first
        assert log.verify().events == 3

    def test_limits(self) -> None:
        """Too many events, a line, a text or a group that is too long: refused with the number and the limit."""
        log = self.filled(2)
        # Facts, because texts of this size would lie outside of the line.
        names = tuple(f"name {number:04d} {'x' * 200}" for number in range(100))
        cases: tuple[tuple[str, int, Sequence[Event]], ...] = (
            ("GROUP_EVENTS", 10, [note("x")] * 11),
            ("LINE_BYTES", 10_000, [run("r", "x", layers=names)]),
            ("TEXT_LINE_BYTES", 10_000, [note("x" * 11_000)]),
            ("GROUP_BYTES", 10_000, [note("x" * 400)] * 25),
        )
        for name, value, events in cases:
            with patch.object(limits, name, value), self.refused(log, LimitExceeded) as caught:
                log.append([note("fine"), *events])
            assert caught[0].allowed == value < caught[0].actual
        assert log.append([note("x" * 11_000)]).last == 3

    def test_time_never_goes_backwards_nor_stands_still(self) -> None:
        """`at` grows from group to group, whatever the clock does, through whichever handle."""
        now = [1_800_000_000_000_000]
        log = self.make_log(clock=lambda: now[0])
        log.append([note("first")])
        now[0] -= 10**9
        log.append([note("second")])
        other = self.reopen(log, clock=lambda: now[0] - 10**9)
        assert other.position() == 2
        other.append([note("third")])
        now[0] += 2 * 10**9
        log.append([note("fourth")])
        times = [event.at for event in log.read()]
        # The first three are a microsecond apart, because the clock was set back; then it passed that.
        assert times == sorted(set(times)) and times[0][:20] == times[2][:20] < times[3][:20]

    def test_closed_log_opens_again_when_used(self) -> None:
        """`close` releases files; using the log opens it again. `sync` may be called at any time."""
        log = self.filled(2)
        log.sync()
        assert log.settled() == log.position()
        log.close()
        # Twice, because closing what is closed is no error.
        log.close()
        assert log.position() == 2
        assert log.append([note("again")]).last == 3
        log.close()
        assert len(list(self.reopen(log).read())) == 3


class RetryingContract(ContractBase):
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
        """A retry need not know that its first try succeeded."""
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
        """An id inside an event's facts or texts is not known."""
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


class TogetherContract(ContractBase):
    """Several writers and readers at once, in threads, through one handle and through several."""

    def test_positions_have_no_gap(self) -> None:
        """Groups appended at once follow each other, whole, those of each writer in its order."""
        log = self.make_log()
        handles = [log, log, self.reopen(log), self.reopen(log)]

        def write(writer: int) -> None:
            for number in range(8):
                size = (1, 3, 7)[number % 3]
                handles[writer].append([note(f"{number}", run=f"w{writer}") for _ in range(size)])

        at_once(*[partial(write, writer) for writer in range(4)])
        events = list(log.read())
        # Eight groups of 1, 3, 7, 1, … events are 26 for each writer.
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
        """Of several that expect the same position, exactly one appends; the others learn the log's position."""
        log = self.make_log()
        handles = [log, log, self.reopen(log), self.reopen(log)]
        for position in range(8):
            results = at_once(*[partial(handle.append, [note("mine")], expected=position) for handle in handles])
            assert sum(isinstance(result, Appended) for result in results) == 1
            assert sum(isinstance(result, PositionConflict) and result.actual > position for result in results) == 3

    def test_reader_sees_whole_groups(self) -> None:
        """While others append, a reader sees a growing prefix of whole groups."""
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
                # Counted after the position was read, so there may be more by now.
                count = sum(1 for _ in reader.read())
                assert position % 4 == 0 and count % 4 == 0 and seen <= position <= count
                seen = count
                time.sleep(0.001)

        for result in at_once(write, look):
            assert result is None, result
        assert reader.position() == 100
