"""Promises of reading: windows, types, lines, handles, heads, verification, waiting, copies."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from pathlib import Path
from threading import Event as Signal

import msgspec

from rbank_es import limits
from rbank_es.errors import CheckFailed, LogBusy, LogCorruption, UnknownEvent
from rbank_es.events import BankForked, MemoriesExtracted, NoteLogged, Ref, ToolCalled
from rbank_es.events.codec import TYPES, decode_event, type_of
from rbank_es.events.items import Item, ItemText
from rbank_es.log.lines import Head
from rbank_es.log.protocol import Erasing
from rbank_es.testing.contract_base import ODD_TEXTS, SECRET, ContractBase, called, extraction, note, raises, run


class ReadingContract(ContractBase):
    """Windows, types, lines, handles."""

    def test_windows(self) -> None:
        """`read` and `lines` yield the events after one position up to another, in order, and no others."""
        log = self.filled(7)
        everything = list(log.read())
        for after in range(9):
            assert list(log.read(after=after)) == everything[after:]
            for upto in range(9):
                wanted = everything[after:upto]
                assert list(log.read(after=after, upto=upto)) == wanted
                assert [decode_event(line) for line in log.lines(after=after, upto=upto)] == wanted

    def test_marks(self) -> None:
        """A mark is another for each position, stays what it is while events are appended, and is None past the end."""
        log = self.filled(7)
        marks = [log.mark(position) for position in range(log.position() + 1)]
        assert marks[0] == "" and None not in marks and len(set(marks)) == len(marks)
        assert log.mark(log.position() + 1) is None
        log.append([note("x" * 3_000), note("y")])
        for handle in (log, self.reopen(log)):
            assert [handle.mark(position) for position in range(len(marks))] == marks

    def test_types(self) -> None:
        """`types` gives only events of these types; a type that doesn't exist is an error, not an empty answer."""
        log = self.make_log()
        log.append([note("1"), run("r", "2"), note("3"), extraction()])
        for types in ({"note_logged"}, {"run_started", "memories_extracted"}, {"tool_called"}, set[str]()):
            wanted = [event for event in log.read() if event.__struct_config__.tag in types]
            assert list(log.read(types=types)) == wanted
            assert [decode_event(line) for line in log.lines(types=types)] == wanted
        assert [event.seq for event in log.read(after=1, upto=3, types={"note_logged"})] == [3]
        with raises(UnknownEvent):
            list(log.read(types={"no_such_type"}))

    def test_runs(self) -> None:
        """`run` gives only that run's events, however they lie among others, with `types` and in any window."""
        log = self.make_log()
        for number in range(9):
            log.append([run(f"r{number % 3}", str(number)), note(str(number)), called(f"r{number % 2}", "x" * 3_000)])
        everything = list(log.read(resolve=TYPES))
        for handle in (log, self.reopen(log)):
            # The last two are no runs: one begins a run's name, the other begins with one.
            for name in ("r0", "r1", "r2", "r", "r00"):
                for types in (None, {"run_started"}, {"tool_called", "note_logged"}, set[str]()):
                    for after, upto in ((0, None), (4, 17), (13, 12), (26, 40)):
                        wanted = [
                            event
                            for event in everything[after:upto]
                            if getattr(event, "run", None) == name and (types is None or type_of(event) in types)
                        ]
                        found = handle.read(after=after, upto=upto, types=types, run=name, resolve=TYPES)
                        assert list(found) == wanted
                        stored = handle.lines(after=after, upto=upto, types=types, run=name)
                        assert [decode_event(line).seq for line in stored] == [event.seq for event in wanted]
        with raises(UnknownEvent):
            list(log.read(run="r0", types={"no_such_type"}))

    def test_runs_grow_and_are_erased(self) -> None:
        """What is appended to a run, by whichever handle, is read at once; erasure and copies keep its events."""
        log = self.make_log()
        other = self.reopen(log)
        for number in range(4):
            (log, other)[number % 2].append([called("r", SECRET * 400), called("s", "short"), note("x")])
            for handle in (log, other):
                assert [event.seq for event in handle.read(run="r")] == [1 + 3 * n for n in range(number + 1)]
        log.erase(Erasing(words=(SECRET,)))
        with log.copy(7) as copy:
            assert [event.seq for event in copy.read(run="r")] == [1, 4, 7]
        for handle in (log, other, self.reopen(log)):
            assert [event.seq for event in handle.read(run="r", resolve=TYPES)] == [1, 4, 7, 10]
            assert [event.seq for event in handle.read(run="s", types={"tool_called"})] == [2, 5, 8, 11]

    def test_reading_a_run_ends_where_it_began(self) -> None:
        """It ends at the position at the first step; other reading goes on with what is appended meanwhile."""
        log = self.make_log()
        log.append([run("r", "1"), note("2"), note("3", run="r")])
        of_run, of_all = log.read(run="r"), log.read()
        begun = next(of_run).seq, next(of_all).seq
        log.append([note("4", run="r"), note("5")])
        assert begun == (1, 1)
        assert ([event.seq for event in of_run], [event.seq for event in of_all]) == ([3], [2, 3, 4, 5])

    def test_lines_are_the_events(self) -> None:
        """A line is one JSON object without a newline, and decodes to the event that `read` gives."""
        log = self.make_log()
        log.append([note(text) for text in ODD_TEXTS] + [run("r", text * 3_000) for text in ODD_TEXTS])
        for line, event in zip(log.lines(), log.read(), strict=True):
            assert b"\n" not in line and isinstance(json.loads(line), dict)
            assert decode_event(line) == event
            assert list(log.lines(after=event.seq - 1, upto=event.seq)) == [line]
        assert list(log.lines(after=log.position(), upto=log.position() + 1)) == []

    def test_texts_are_what_was_given(self) -> None:
        """Any text reads as it was given, short or long."""
        log = self.make_log()
        texts = [text + tail for text in ODD_TEXTS for tail in ("", "x" * limits.INLINE_TEXT_BYTES)]
        log.append([note(text) for text in texts])
        for handle in (log, self.reopen(log)):
            assert [getattr(event, "note", None) for event in handle.read(resolve=TYPES)] == texts

    def test_long_texts_are_handles(self) -> None:
        """A text of more bytes than the limit is read as a handle: size, beginning, key; `text` gives it in full."""
        log = self.make_log()
        at_limit, over, wide = "x" * limits.INLINE_TEXT_BYTES, "y" * (limits.INLINE_TEXT_BYTES + 1), "é" * 1_500
        log.append([note(at_limit), note(over), note(wide), ToolCalled(run="r", tool="t", result=over)])
        first, second, third, fourth = log.read()
        assert isinstance(first, NoteLogged) and first.note == at_limit
        assert isinstance(second, NoteLogged) and isinstance(second.note, Ref)
        assert (second.note.sz, second.note.prev, second.note.dtype) == (len(over), "y" * 80, "text")
        assert isinstance(third, NoteLogged) and isinstance(third.note, Ref) and third.note.sz == 1_500
        assert isinstance(fourth, ToolCalled) and isinstance(fourth.result, Ref)
        assert [log.text(ref) for ref in (second.note, third.note, fourth.result)] == [over, wide, over]
        with raises(LogCorruption):
            log.text(Ref("0" * 64, "text", 1, "x"))

    def test_resolve(self) -> None:
        """`resolve` puts texts and items in the place of handles, for the types it names and no others."""
        log = self.make_log()
        item = Item.make("a title", "content " * 1_000, desc="d", tags=("a", "b"))
        log.append([extraction(item, Item.make("short", "short")), note("z" * 5_000)])
        plain, resolved = list(log.read()), list(log.read(resolve={"memories_extracted"}))
        assert isinstance(plain[0], MemoriesExtracted) and isinstance(resolved[0], MemoriesExtracted)
        assert isinstance(plain[0].candidates[0], Ref) and isinstance(plain[0].candidates[1], ItemText)
        assert resolved[0].candidates == (item.text, Item.make("short", "short").text)
        assert resolved[1] == plain[1]

    def test_events_can_be_appended_as_they_were_read(self) -> None:
        """An event that was read, handles and all, is new content under a new id, and a retry under its own."""
        log = self.make_log()
        log.append([note("long " * 1_000), extraction(Item.make("t", "c" * 5_000))])
        read = list(log.read())
        assert log.append(read).duplicate
        copies = log.append([msgspec.structs.replace(event, id="") for event in read])
        assert (copies.first, copies.last) == (3, 4)
        events = list(log.read(resolve=TYPES))
        assert getattr(events[2], "note", None) == "long " * 1_000
        assert getattr(events[3], "candidates", None) == getattr(events[1], "candidates", ())

    def test_type_version_or_field_from_the_future(self) -> None:
        """What this release doesn't know raises, by name; the events before it are read."""
        for old, new, known in (
            (b'"note_logged"', b'"note_sung"', None),
            (b'"v":1', b'"v":7', 1),
            (b'"salt":', b'"mood":"calm","salt":', 1),
        ):
            log = self.filled(2)
            log.append([note("three")])
            line = list(log.lines())[-1]
            self.replace_last_line(log, line.replace(old, new))
            later, seen = self.reopen(log), list[int]()
            with raises(UnknownEvent) as caught:
                seen.extend(event.seq for event in later.read())
            assert caught[0].known == known and caught[0].seq == 3
            assert caught[0].type == ("note_sung" if known is None else "note_logged")
            assert caught[0].version == (7 if b"7" in new else 1) and ("`mood`" in str(caught[0])) == (b"mood" in new)
            assert [event.seq for event in later.read(upto=2)] == [1, 2]
            for use in (later.verify, partial(later.append, [note("x")])):
                with raises(UnknownEvent):
                    use()


class ProvingContract(ContractBase):
    """Heads and verification."""

    def test_heads_are_stable(self) -> None:
        """The head at a position never changes, whatever is appended, whoever asks; all heads differ."""
        log = self.make_log()
        noted = [log.head()]
        for number in range(12):
            log.append(
                [
                    note(f"{number}", run="r"),
                    run("r", "x" * 3_000),
                    BankForked(parent="p", parent_seq=1, parent_digest="d"),
                ]
            )
            noted += [log.head(log.position() - 2), log.head(log.position() - 1), log.head()]
        for handle in (log, self.reopen(log)):
            assert [handle.head(head.seq) for head in noted] == noted
            assert handle.verify(noted).noted == tuple(noted)
        assert len({head.digest for head in noted}) == len(noted)
        assert [Head.parse(str(head)) for head in noted] == noted

    def test_verify_counts(self) -> None:
        """`verify` returns the head that it reached, and counts."""
        log = self.filled(4)
        log.append([note("a long text " * 500), note("another long text " * 500)])
        seen = log.verify()
        assert (seen.head, seen.events, seen.texts, seen.erased) == (log.head(), 6, 2, 0)
        assert seen.torn is None and not seen.cleared

    def test_a_line_in_the_place_of_another_is_damage(self) -> None:
        """Though its checksum is right: what reads it raises, and so does `verify`; what is before it is read."""
        for change in ((b'"seq":3', b'"seq":7'), (b'"seq":3', b'"seq":2')):
            log = self.filled(2)
            log.append([note("three")])
            self.replace_last_line(log, list(log.lines())[-1].replace(*change))
            later, seen = self.reopen(log), list[int]()
            with raises(LogCorruption):
                seen.extend(event.seq for event in later.read())
            with raises(LogCorruption):
                later.verify()
            assert seen in ([], [1, 2]) and [event.seq for event in later.read(upto=1)] == [1]

    def test_verify_finds_a_head_that_does_not_hold(self) -> None:
        """A noted head with another digest, or beyond the end, fails the check."""
        log = self.filled(3)
        for seq in (0, 1, 3):
            with raises(CheckFailed):
                log.verify([Head(seq, "ab" * 32)])
        with raises(CheckFailed):
            log.verify([Head(4, log.head().digest)])
        for noted in ([log.head(), Head(3, "ab" * 32)], [Head(3, "ab" * 32), log.head()]):
            with raises(CheckFailed):
                log.verify(noted)


class SharingContract(ContractBase):
    """Waiting for news, excluding other holders, copies, and the directory of derived files."""

    def test_wait_ends_with_news(self) -> None:
        """`wait` returns at once if the log is past a position, else with the next append, a stop, or the timeout."""
        log, stop = self.filled(1), Signal()
        writer, began = self.reopen(log), time.monotonic()
        log.wait(0, 30)
        log.wait(1, 0.02)
        threading.Timer(0.05, lambda: writer.append([note("news")])).start()
        while log.position() == 1:
            log.wait(1, 30)
        stop.set()
        log.wait(2, 30, stop)
        # Far below the 30 s that any of the waits would take without news.
        assert time.monotonic() - began < 10

    def test_exclusive_has_one_holder(self) -> None:
        """A name is held once, by whichever handle, until its context ends; other names and writers are free."""
        log = self.filled(1)
        other = self.reopen(log)
        with log.exclusive("a-loop"), other.exclusive("another"):
            for handle in (log, other):
                with raises(LogBusy), handle.exclusive("a-loop"):
                    raise AssertionError("two hold the same name")
            assert other.append([note("x")]).last == 2
        with other.exclusive("a-loop"):
            pass

    def test_a_later_holder_has_no_lower_number(self) -> None:
        """The holder's own appends carry it, and come in as long as nobody took over."""
        log = self.filled(1)
        other = self.reopen(log)
        with log.exclusive("a-loop") as lease:
            assert log.append([note("x")]).last == 2
        with other.exclusive("a-loop") as later:
            assert later.number >= lease.number and other.append([note("y")]).last == 3

    def test_copy_is_the_log_as_it_was(self) -> None:
        """At every position, inside a group too, a copy has the same id, events and head, and goes on by itself."""
        log = self.make_log()
        log.append([note("one"), note("long " * 1_000), note("three")])
        log.append([note("four")])
        for position in range(5):
            with log.copy(position) as copy:
                assert (copy.bank_id, copy.position(), copy.head()) == (log.bank_id, position, log.head(position))
                texts = [getattr(event, "note", None) for event in log.read(upto=position, resolve=TYPES)]
                assert [getattr(event, "note", None) for event in copy.read(resolve=TYPES)] == texts
                assert copy.append([note("own"), note("long " * 1_000)]).last == position + 2
                assert copy.verify().events == position + 2
        assert log.position() == 4 == log.verify().events

    def test_derived_files_have_a_place(self) -> None:
        """Every handle has the same directory for derived files, and the log owns it."""
        log = self.filled(1)
        assert log.derived_directory == self.reopen(log).derived_directory
        assert log.owns(log.derived_directory / "file") and not log.owns(Path.home())
