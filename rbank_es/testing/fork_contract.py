"""Promises of `fork`: a log of its own that begins as another, and that nothing done to either changes in the other."""

from __future__ import annotations

from rbank_es.errors import BadPoint
from rbank_es.events import BankForked, ContentErased, NoteLogged
from rbank_es.events.codec import TYPES
from rbank_es.log.protocol import Ancestor, Erasing, EventLog
from rbank_es.testing.contract_base import SECRET, ContractBase, forms_of, note, raises


class ForkingContract(ContractBase):
    """Forks hold their parent's history, prove it, and go on alone."""

    def grown(self) -> tuple[EventLog, list[int]]:
        """Return a log of several groups with short and long texts, and the positions at which groups end."""
        log, ends = self.make_log(), [0]
        for number in range(6):
            words = f"{number} " + "long " * (900 if number % 2 else 1)
            ends.append(log.append([note(words)] * (number % 3) + [note(f"{SECRET} {words}")]).last)
        return log, ends

    def texts_of(self, log: EventLog, upto: int) -> list[object]:
        """Return the notes of a log up to a position, long texts in place."""
        return [getattr(event, "note", None) for event in log.read(upto=upto, resolve=TYPES)]

    def test_fork_begins_as_its_parent(self) -> None:
        """At the end of every group: the same events, texts and heads, another id, and the record of the fork."""
        log, ends = self.grown()
        for end in ends:
            with log.fork(end, name="trial", by="mo") as fork:
                assert fork.bank_id != log.bank_id and fork.position() == end + 1
                assert fork.ancestors() == (Ancestor(log.bank_id, end),) and log.ancestors() == ()
                assert list(fork.lines(upto=end)) == list(log.lines(upto=end))
                assert self.texts_of(fork, end) == self.texts_of(log, end)
                forked = next(fork.read(after=end))
                assert isinstance(forked, BankForked)
                assert (forked.parent, forked.parent_seq, forked.fork) == (log.bank_id, end, fork.bank_id)
                assert forked.parent_digest == fork.head(end).digest == log.head(end).digest
                assert (forked.name, forked.by) == ("trial", "mo")
                assert fork.verify([log.head(seq) for seq in range(end + 1)]).events == end + 1
        assert log.verify().events == ends[-1]

    def test_fork_and_parent_go_on_alone(self) -> None:
        """What is appended to one is not in the other; ids of the shared part are known in both."""
        log, ends = self.grown()
        first = next(log.read())
        with log.fork(ends[3]) as fork:
            fork.append([note("in the fork"), note("long " * 900)])
            log.append([note("in the parent")])
            assert fork.append([NoteLogged(note=getattr(first, "note", ""), id=first.id)]).duplicate
            assert fork.position() == ends[3] + 3 and log.position() == ends[-1] + 1
            assert fork.seq_of_id(first.id) == 1 and fork.head(ends[3]) == log.head(ends[3])
            assert fork.verify().events == ends[3] + 3 and log.verify().events == ends[-1] + 1

    def test_a_fork_knows_its_parent(self) -> None:
        """With the position up to which both are the same; an erasure in the fork names who may still hold the text."""
        log, ends = self.grown()
        with log.fork(ends[3]) as fork:
            assert [(each.bank, each.shared) for each in fork.relatives()] == [(log.bank_id, ends[3])]
            late = fork.append([note("only in the fork")]).last
            assert fork.erase(Erasing(events=frozenset({late}))).relatives == ()
            assert [each.bank for each in fork.erase(Erasing(words=(SECRET,))).relatives] == [log.bank_id]

    def test_fork_inside_a_group_is_refused(self) -> None:
        """The error names the nearest ends of groups; a position beyond the log is refused, too."""
        log = self.make_log()
        log.append([note("one")])
        log.append([note("two"), note("three"), note("four")])
        for inside in (2, 3):
            with raises(BadPoint) as caught:
                log.fork(inside)
            assert "fork at 1 or 4" in str(caught[0])
        with raises(BadPoint):
            log.fork(5)

    def test_fork_of_a_fork(self) -> None:
        """It names both ancestors; a fork from before its parent began is one of the parent's parent."""
        log, ends = self.grown()
        with log.fork(ends[4]) as child:
            middle = child.append([note("own")]).last
            with child.fork(middle) as grandchild, child.fork(ends[2]) as early:
                assert grandchild.ancestors() == (Ancestor(log.bank_id, ends[4]), Ancestor(child.bank_id, middle))
                assert early.ancestors() == (Ancestor(log.bank_id, ends[2]),)
                assert grandchild.head(middle) == child.head(middle)
                for fork in (grandchild, early):
                    fork.append([note("on")])
                    fork.verify()

    def test_erasing_in_one_leaves_the_other(self) -> None:
        """Texts of the shared part go where they are erased; noted heads hold in both, and both verify."""
        for erased_first in (True, False):
            log, ends = self.grown()
            noted = [log.head(seq) for seq in range(ends[5] + 1)]
            with log.fork(ends[5]) as fork:
                one, other = (log, fork) if erased_first else (fork, log)
                kept = self.texts_of(other, ends[5])
                assert one.erase(Erasing(words=(SECRET,)), reason="asked for").places
                assert not any(form in line for line in one.lines() for form in forms_of(SECRET))
                assert self.texts_of(other, ends[5]) == kept
                assert one.verify(noted).erased > 0 and other.verify(noted).erased == 0
                assert other.erase(Erasing(words=(SECRET,))).places
                assert other.verify(noted).erased > 0

    def test_fork_from_before_an_erasure(self) -> None:
        """What was erased behind the point is erased in the fork, which records that and verifies."""
        log, ends = self.grown()
        log.erase(Erasing(words=(SECRET,)), reason="asked for")
        log.append([note("later")])
        for end in (ends[1], ends[4]):
            with log.fork(end) as fork:
                assert not any(form in line for line in fork.lines() for form in forms_of(SECRET))
                assert any(isinstance(event, ContentErased) for event in fork.read(after=end))
                # The epoch is the position of the last erasure, and a fork records this one at its end.
                assert fork.erasures() == fork.position() > end
                fork.append([note("on")])
                assert fork.verify([log.head(end)]).erased > 0
