"""Promises of an engine: a log is made whole or not at all, found again by its locator, and branched to others."""

from __future__ import annotations

from rbank_es.errors import BadEvent, BadInput, BankExists, BankNotFound, LogCorruption
from rbank_es.events import ContentErased, ErasedUnit
from rbank_es.log import LOG_ENGINES
from rbank_es.log.protocol import Erasing, EventLog
from rbank_es.testing.contract_base import SECRET, ContractBase, at_once, note, raises


class MakingContract(ContractBase):
    """Locators, and logs that begin with events."""

    def test_the_engine_is_found_by_the_scheme_of_its_logs(self) -> None:
        """It is registered under the scheme that every handle, copy and fork at a place has."""
        log = self.filled(1)
        with log.copy(1, self.free_place()) as copy, log.fork(1, self.free_place()) as fork:
            assert {each.scheme for each in (log, self.reopen(log), copy, fork)} == {log.scheme}
        assert LOG_ENGINES.get(log.scheme) is self.engine

    def test_a_log_is_found_where_it_was_made(self) -> None:
        """With the events that it begins with; two logs have two ids; where there is none, none is found."""
        place, other = self.free_place(), self.free_place()
        made = self.made(place, [note("one"), note("two")])
        with raises(BankNotFound):
            self.opened(other)
        found = self.opened(place)
        assert (found.bank_id, found.head(), found.position()) == (made.bank_id, made.head(), 2)
        assert self.made(other).bank_id != made.bank_id
        assert self.engine.name_of(place) == self.engine.name_of(place) != self.engine.name_of(other)

    def test_a_taken_place_is_refused(self) -> None:
        """And the log that is there stays as it is, whether or not the new one would be filled."""
        place = self.free_place()
        log = self.made(place, [note("one")])
        for fill in (None, lambda new: new.append([note("filled")])):
            with self.refused(log, BankExists):
                self.engine.create(place, [note("two")], fill=fill)

    def test_of_several_that_make_a_log_at_once_one_does(self) -> None:
        """All of them may find the same place free."""
        for _ in range(4):
            place = self.free_place()
            made = at_once(*[lambda place=place: self.made(place, [note("mine")])] * 3)
            assert sorted(isinstance(each, BankExists) for each in made) == [False, True, True]
            assert self.opened(place).position() == 1

    def test_nobody_sees_a_log_before_it_is_filled(self) -> None:
        """`fill` appends to it as to any log; then it is there with all of that, at its place."""
        place, position = self.free_place(), list[int]()

        def fill(log: EventLog) -> None:
            with raises(BankNotFound):
                self.opened(place)
            log.append([note("filled " * 1_000)], expected=1)
            position.append(log.position())

        made = self.made(place, [note("first")], fill=fill)
        found = self.opened(place)
        assert (position, found.position(), found.bank_id, found.place) == ([2], 2, made.bank_id, made.place)
        assert made.append([note("later")]).last == 3 == found.verify().events

    def test_a_log_that_cannot_be_filled_is_not_made(self) -> None:
        """A refused event, or an error of `fill`: nothing is there, and the place is free."""
        place = self.free_place()

        def fail(log: EventLog) -> None:
            log.append([note("half")])
            raise BadInput("no more")

        with raises(BadInput):
            self.engine.create(place, [note("first")], fill=fail)
        erased = ContentErased(units=(ErasedUnit(seq=1, path="note", digest="0" * 64),))
        for refused in ([note("first"), note("x", 1), note("x", 1)], [note("first"), erased]):
            with raises(BadEvent):
                self.engine.create(place, refused)
        with raises(BankNotFound):
            self.opened(place)
        assert self.made(place, [note("again")]).position() == 1


class PlacingContract(ContractBase):
    """Copies and forks that are kept at a place."""

    def test_copies_and_forks_are_kept_at_their_place(self) -> None:
        """They are found there when they were closed, and nowhere before."""
        log, copied, forked = self.filled(3), self.free_place(), self.free_place()
        with log.copy(2, copied) as copy, log.fork(3, forked, name="trial") as fork:
            copy.append([note("on")])
            fork.append([note("on")])
            heads = copy.head(), fork.head()
        assert (self.opened(copied).head(), self.opened(forked).head()) == heads
        assert self.opened(copied).bank_id == log.bank_id != self.opened(forked).bank_id
        assert self.opened(forked).ancestors() == fork.ancestors()

    def test_a_branch_does_not_take_the_place_of_a_log(self) -> None:
        """Neither of another one nor of its own; all stay as they were."""
        place, taken = self.free_place(), self.free_place()
        log, other = self.made(place, [note("one")]), self.made(taken, [note("theirs")])
        before = self.all_of(other)
        for at in (taken, place):
            for branch in (log.copy, log.fork):
                with self.refused(log, BadInput):
                    branch(1, at)
        assert self.all_of(other) == self.all_of(self.opened(taken)) == before

    def test_a_position_beyond_the_end_is_missing(self) -> None:
        """It has no head, and a copy up to it is refused rather than cut short."""
        log = self.filled(2)
        for ask in (lambda: log.head(3), lambda: log.copy(3)):
            with raises(LogCorruption):
                ask()

    def test_a_mark_tells_histories_apart(self) -> None:
        """Of two copies that went on apart it is the same as long as they are, and another behind that."""
        log = self.filled(2)
        with log.copy(2) as one, log.copy(2) as other:
            one.append([note("of the one", 3)])
            other.append([note("of the other", 3)])
            assert one.mark(3) != other.mark(3)
            one.append([note("the same", 4)])
            other.append([note("the same", 4)])
            assert one.mark(4) != other.mark(4)

    def test_a_branch_holds_nothing_of_what_came_later(self) -> None:
        """Neither in its events nor among the texts that are stored apart."""
        log, later = self.filled(2), f"{SECRET} {'long ' * 1_000}"
        log.append([note(later), note(SECRET)])
        for branch in (log.copy(2), log.fork(2)):
            with branch:
                assert SECRET.encode() not in self.stored_bytes(branch)

    def test_a_copy_of_an_erased_log_verifies(self) -> None:
        """It holds the record of the erasure, and what is left of the texts, those stored apart too."""
        log = self.make_log()
        log.append([note(f"{SECRET} {'long ' * 1_000}"), note(SECRET), note("harmless")])
        assert log.erase(Erasing(words=(SECRET,))).texts
        for copy in (log.copy(log.position()), log.fork(log.position())):
            with copy:
                copy.append([note(f"again {'long ' * 1_000}")])
                assert copy.verify([log.head()]).erased == 3

    def test_erasing_removes_what_was_derived(self) -> None:
        """Whether or not it is made again: a file that was derived before may hold the words."""
        log = self.filled(1)
        log.append([note(SECRET)])
        folder = log.derived_directory / "pages"
        folder.mkdir(parents=True)
        for file in (folder / "page", log.derived_directory / "copy"):
            file.write_text(SECRET)
        residue = log.erase(Erasing(words=(SECRET,))).residue
        assert residue is not None and not residue.found and not folder.exists()
