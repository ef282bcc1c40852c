"""Promises of `stored` and `receive`: a log passes to another engine and back, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.errors import BankExists, BankNotFound, LogCorruption, RBankError
from rbank_es.events.codec import TYPES
from rbank_es.log import LOG_ENGINES, lines
from rbank_es.log.protocol import Erasing, EventLog, LogEngine
from rbank_es.testing.contract_base import SECRET, ContractBase, note, raises, run

_OTHERS = ("memory", "file")
"""The engines with which a log is exchanged: one that keeps lines as they come, one of segments."""


class CopyingContract(ContractBase):
    """Logs that are made of what another one stored."""

    def lived(self) -> EventLog:
        """Return a log of short and long texts, of a run, of groups of several events, and of an erasure."""
        log = self.make_log()
        log.append([run("r1", "long " * 900), note("short")])
        log.append([note("long " * 900), note(f"{SECRET} " * 200), note(SECRET)])
        assert log.erase(Erasing(words=(SECRET,))).texts
        log.append([note("long " * 900, run="r1"), note("other " * 900)])
        return log

    def assert_same(self, log: EventLog, other: EventLog) -> None:
        """Fail unless two logs have the same id, ancestry, lines, texts and heads, and both verify."""
        assert (other.bank_id, other.ancestors()) == (log.bank_id, log.ancestors())
        assert list(other.lines()) == list(log.lines())
        assert list(other.read(resolve=TYPES)) == list(log.read(resolve=TYPES))
        assert set(other.stored()) == set(log.stored())
        assert other.erasures() == log.erasures() and list(other.lines(run="r1")) == list(log.lines(run="r1"))
        assert other.verify([log.head(at) for at in range(log.position() + 1)]).head == log.verify().head

    def received(self, engine: LogEngine, log: EventLog, place: str | None = None) -> EventLog:
        """Return a log that an engine made of what another one stores."""
        return self._kept(engine.receive(place, log.bank_id, log.ancestors(), log.stored()), place or "")

    def test_a_log_passes_to_another_engine_and_back(self) -> None:
        """The same log is there then, and can be written on; forks too, also of a fork and of nothing."""
        log = self.lived()
        with log.fork(2) as fork, fork.fork(3) as second, log.fork(0) as empty:
            for each in (log, fork, second, empty):
                for scheme in _OTHERS:
                    there = self.received(LOG_ENGINES.get(scheme), each)
                    self.assert_same(each, there)
                    back = self.received(self.engine, there, self.free_place())
                    self.assert_same(each, back)
                    there.append([note("long " * 900), note("on")])
                    back.append([note("long " * 900), note("on")])
                    assert there.verify().events == back.verify().events == each.position() + 2

    def test_what_is_stored_ends_at_a_position(self) -> None:
        """Also inside a group, which is whole there, without the texts of the events that are left out."""
        log = self.make_log()
        log.append([note("one"), note("long " * 900), note(f"{SECRET} " * 200)])
        for upto in range(4):
            kept = list(log.stored(upto))
            events = [line for line in kept if not line.startswith(lines.ANY_TEXT)]
            assert len(events) == upto and (not events or lines.counters_of(events[-1])[0] == 0)
            assert (SECRET.encode() in b"".join(kept)) == (upto == 3) and len(kept) == upto + max(0, upto - 1)
        with raises(LogCorruption):
            list(log.stored(4))

    def test_damaged_lines_are_not_received(self) -> None:
        """Changed, missing, exchanged or repeated ones: nothing is left at the place, as where the source fails."""
        log = self.make_log()
        log.append([note("one"), note("long " * 900)])
        log.append([note("three")])
        whole = list(log.stored())
        text = next(line for line in whole if line.startswith(lines.TEXT))
        damaged = (
            [line.replace(b'"one"', b'"two"') for line in whole],
            whole[:2],
            [line for line in whole if line is not text],
            [*whole[:-1], whole[-1].replace(b'"seq":3', b'"seq":4')],
            [*whole, whole[-1]],
        )
        for stored in damaged:
            place = self.free_place()
            with raises(LogCorruption):
                self.engine.receive(place, log.bank_id, (), iter(stored))
            with raises(BankNotFound):
                self.opened(place)
        place = self.free_place()
        with raises(RBankError):
            self.engine.receive(place, log.bank_id, (), _broken(whole))
        with raises(BankNotFound):
            self.opened(place)

    def test_a_taken_place_receives_nothing(self) -> None:
        """And what is there stays."""
        log, place = self.lived(), self.free_place()
        other = self.made(place, [note("theirs")])
        with self.refused(other, BankExists):
            self.engine.receive(place, log.bank_id, (), log.stored())

    def test_a_copy_without_a_place_ends_when_it_is_closed(self) -> None:
        """It is a log of its own: nothing that is done to it reaches this one."""
        log = self.lived()
        before = self.all_of(log)
        with log.copy(log.position()) as copy:
            self.assert_same(log, copy)
            copy.append([note("there alone")])
        assert self.all_of(log) == before


def _broken(stored: list[bytes]) -> Iterator[bytes]:
    yield from stored[:2]
    raise LogCorruption("the source", "it is damaged")
