"""Positions, groups, expectations, limits, time."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

from rbank_es import limits
from rbank_es.errors import (
    BadEvent,
    LimitExceeded,
    PositionConflict,
)
from rbank_es.events import (
    ContentErased,
    Erased,
    Event,
    LmCalled,
    NoteLogged,
    Ref,
    RunFinished,
    RunStarted,
)
from rbank_es.log.protocol import ANY, EMPTY, Head
from rbank_es.testing.contract_base import Basis, event_id, note, run


class AppendingContract(Basis):
    """Positions, groups, expectations."""

    def test_new_log_is_empty(self) -> None:
        """A new log is at position 0, reads as nothing, and has the head of nothing."""
        log = self.make_log()
        assert (log.position(), log.head(), list(log.read())) == (0, Head(0, "0" * 64), [])
        assert log.crc_at(1) is None and log.seq_of_id(event_id(1)) is None and log.erasures() == 0
        assert log.verify().events == 0

    def test_append_says_what_was_stored(self) -> None:
        """`append` returns first and last position and the events just as they will be read."""
        log = self.make_log()
        log.append([note("one")])
        appended = log.append([note("two"), run("r", "three", 3)])
        assert (appended.first, appended.last, appended.duplicate) == (2, 3, False)
        assert appended.events == tuple(log.read(after=1))
        assert appended.events[1].id == event_id(3) and len(appended.events[0].id) == 36
        assert all(event.at.endswith("Z") and len(event.at) == 27 and len(event.crc) == 8 for event in appended.events)

    def test_group_stands_together(self) -> None:
        """The events of a group have consecutive positions in their order, and say how many are still to come."""
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
        """What another handle appended counts: the position that is compared is the one that is read."""
        log = self.filled(2)
        other = self.reopen(log)
        assert other.append([note("theirs")], expected=2).last == 3
        with self.refused(log, PositionConflict):
            log.append([note("ours")], expected=2)
        assert log.append([note("ours")], expected=log.position()).last == 4

    def test_refused_events_leave_the_log_as_it_was(self) -> None:
        """One event that can't be stored as it is refuses its whole group."""
        log = self.filled(2)
        bad: tuple[Event, ...] = (
            NoteLogged(note="x", id="not-a-uuid"),
            NoteLogged(note="x", id="01900000-0000-7000-8000-00000000000A"),
            NoteLogged(note="x", occurred_at="2026-01-31T12:00:00+01:00"),
            NoteLogged(note=Erased("0" * 64)),
            NoteLogged(note="a lone surrogate \ud800"),
            NoteLogged(note=Ref("f" * 64, "text", 3, "abc")),
            RunStarted(run="n" * (limits.NAME_CHARS + 1)),
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
        assert log.append([note("good", 100)]).last == 3

    def test_limits(self) -> None:
        """Too many events, a line, a text or a group that is too long: refused with the number and the limit."""
        log = self.filled(2)
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

    def test_time_never_goes_backwards(self) -> None:
        """`at` never decreases from position to position, whatever the clock does, through whichever handle."""
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
        assert times == sorted(times) and times[0] == times[2] < times[3]

    def test_closed_log_opens_again_when_used(self) -> None:
        """`close` lets go of files; using the log opens it again. `sync` may be called at any time."""
        log = self.filled(2)
        log.sync()
        log.close()
        log.close()
        assert log.position() == 2
        assert log.append([note("again")]).last == 3
        log.close()
        assert len(list(self.reopen(log).read())) == 3
