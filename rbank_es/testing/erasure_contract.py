"""Promises of `erase`: texts are removed, all other bytes stay, and heads noted before still verify."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote, quote_plus

import msgspec

from rbank_es.errors import BadInput, DuplicateEvent
from rbank_es.events import ContentErased, Erased, MemoriesExtracted, NoteLogged, Ref, ToolCalled
from rbank_es.events.codec import TYPES
from rbank_es.events.items import Item
from rbank_es.log.lines import Head
from rbank_es.log.protocol import Erasing, EventLog
from rbank_es.testing.contract_base import SECRET, ContractBase, event_id, extraction, forms_of, note, run


class ErasingContract(ContractBase):
    """Texts can be removed; everything else stays, and heads noted before still hold."""

    def secretive(self) -> EventLog:
        """Return a log that holds the secret in many forms, among other texts."""
        log = self.make_log()
        # One item, one result and one note below are too long for a line, and lie in texts of their own.
        inside = json.dumps({"said": SECRET, "deep": json.dumps({"again": SECRET})})
        log.append([run("r", f"Remember: {SECRET}", 1, model="m"), note("harmless", 2)])
        log.append([note(inside, 3), ToolCalled(run="r", tool="t", arguments=inside, result=SECRET + " or not" * 500)])
        item = Item.make("A title long enough", f"First, {SECRET}. Then go on.")
        other = Item.make("Another title", "harmless content")
        log.append([extraction(other, item, Item.make("Long one", f"{'x ' * 3_000}{SECRET}"))])
        log.append([run("r2", "Something else", 4), note(f"{'y' * 70} {SECRET} {'y' * 5_000}"), note("the end")])
        return log

    def check_erased(self, log: EventLog, noted: Sequence[Head]) -> None:
        """Assert that no form of the secret is left, and that every head noted before holds."""
        for handle in (log, self.reopen(log)):
            assert not any(form in line for line in handle.lines() for form in forms_of(SECRET))
            assert handle.verify(noted).erased > 0
            assert [handle.head(head.seq) for head in noted] == list(noted)
            assert SECRET not in repr(list(handle.read(resolve=TYPES)))
        stored = self.stored_bytes(log)
        assert not [form for form in forms_of(SECRET) if form in stored]

    def test_erase_by_words(self) -> None:
        """Every text that holds the words goes: plain, in items, in long texts, in JSON, in JSON inside of JSON."""
        log = self.secretive()
        noted = [log.head(seq) for seq in range(log.position() + 1)]
        before, epoch = list(log.read(resolve=TYPES)), log.erasures()
        erasure = log.erase(Erasing(words=(SECRET,)), reason="asked for", by="a person")
        places = [f"{place.seq} {place.path}" for place in erasure.places]
        assert places == ["1 task", "3 note", "4 arguments", "4 result", "5 candidates.1", "5 candidates.2", "7 note"]
        assert len(erasure.texts) == 3 and log.erasures() > epoch
        self.check_erased(log, noted)
        after = list(log.read(resolve=TYPES))
        assert [after[index] for index in (1, 5, 7)] == [before[index] for index in (1, 5, 7)]
        assert (after[0].id, after[0].at, getattr(after[0], "model", None)) == (before[0].id, before[0].at, "m")
        assert isinstance(getattr(after[0], "task", None), Erased)

    def test_erase_by_words_in_any_form(self) -> None:
        """Escaped words go too, and the report has the form of each; what was stored is then searched again."""
        log, words = self.make_log(), 'the "vault" opens\nwith <marigold>\xa07'
        forms = {
            "escaped": (repr([words]), json.dumps({"deep": json.dumps(words)}), ascii(words), repr(words.encode())),
            "HTML": (html.escape(words),),
            "URL": (quote(words), quote_plus(words)),
            "HTML, URL": (quote(html.escape(repr(words))),),
            "quotes doubled": (words.replace('"', '""'),),
        }
        texts = [(form, text) for form, written in forms.items() for text in written]
        log.append([note(words), note("the vault opens with <marigold>"), *(note(text) for _, text in texts)])
        log.append([note(f"{text} {'x' * 3_000}") for _, text in texts])
        noted = [log.head(seq) for seq in range(log.position() + 1)]
        erasure = log.erase(Erasing(words=(words,)))
        expected = ["plain", *(form for form, _ in texts * 2)]
        assert [place.form for place in erasure.places] == expected
        assert erasure.searched.forms == Counter(expected)
        assert erasure.searched.bytes > 24_000
        assert erasure.residue is not None and not erasure.residue.found
        assert erasure.residue.searched.lines >= log.position()
        assert [event.seq for event in log.read() if not isinstance(getattr(event, "note", Erased("")), Erased)] == [2]
        assert [log.head(head.seq) for head in noted] == noted and log.verify(noted).erased > 0

    def test_derived_files_are_rebuilt_and_searched(self) -> None:
        """Whatever `rebuild` leaves in the derived directory is searched; words that are found there are reported."""
        log = self.make_log()
        log.append([note(SECRET)])

        def rebuild() -> None:
            log.derived_directory.mkdir(parents=True, exist_ok=True)
            (log.derived_directory / "copy").write_text(f"a copy: {json.dumps(SECRET)}")

        residue = log.erase(Erasing(words=(SECRET,)), rebuild=rebuild).residue
        assert residue is not None and list(residue.found.values()) == [{"plain": 1}]
        assert all(name.endswith("copy") for name in residue.found)

    def test_erasure_is_recorded(self) -> None:
        """The last event is then a `content_erased` that lists every place, with the reason and who asked."""
        log = self.secretive()
        erasure = log.erase(Erasing(events=frozenset({1})), reason="asked for", by="a person")
        assert erasure.appended is not None and erasure.appended.last == log.position() == 9
        (record,) = log.read(after=8)
        assert isinstance(record, ContentErased) and (record.reason, record.by) == ("asked for", "a person")
        assert log.append([record]).duplicate
        assert [(unit.seq, unit.path) for unit in record.units] == [(place.seq, place.path) for place in erasure.places]

    def test_erase_by_event_takes_copies_along(self) -> None:
        """Erasing an event's texts erases their copies elsewhere; `named` marks those that were named."""
        log = self.make_log()
        log.append([note(SECRET), note(f"quoting: {SECRET}"), note("harmless"), note(SECRET)])
        noted = [log.head()]
        erasure = log.erase(Erasing(events=frozenset({1})))
        assert [(place.seq, place.named) for place in erasure.places] == [(1, True), (2, False), (4, False)]
        self.check_erased(log, noted)

    def test_erase_by_path(self) -> None:
        """One text of an event goes, its others stay readable, and may go later."""
        log = self.make_log()
        first, second = Item.make("first title", "first content"), Item.make("second title", SECRET * 200)
        log.append([extraction(first, second)])
        noted = [log.head()]
        log.erase(Erasing(paths=((1, "candidates.1"),)))
        (event,) = log.read(upto=1, resolve=TYPES)
        assert isinstance(event, MemoriesExtracted) and event.candidates[0] == first.text
        assert isinstance(event.candidates[1], Erased) and event.heads == (first.head, second.head)
        self.check_erased(log, noted)
        assert [place.path for place in log.erase(Erasing(events=frozenset({1}))).places] == ["candidates.0"]
        assert log.verify(noted).erased == 3

    def two_runs(self) -> tuple[EventLog, str]:
        """Return a log with two runs that share a question and a long text, and the long text."""
        log, guide = self.make_log(), "how to go about it, " * 500
        log.append([run("a", "Which berths are taken?", 1), note(guide, run="a"), note(SECRET, run="a")])
        log.append([run("b", "Which berths are taken?", 2), note(guide, run="b"), note("berth 5 is", run="b")])
        log.append([note(f"drawn from a: {SECRET}"), note(f"put to b: {SECRET}", run="b")])
        return log, guide

    def test_erase_by_run_leaves_to_other_runs_what_they_have_too(self) -> None:
        """Texts of this run alone go everywhere; a whole text of another run stays in that run, and only there."""
        log, guide = self.two_runs()
        noted = [log.head(seq) for seq in range(log.position() + 1)]
        erasure = log.erase(Erasing(events=frozenset({1, 2, 3}), run="a"))
        assert [(place.seq, place.run, place.named) for place in erasure.places] == [
            (1, "a", True),
            (2, "a", True),
            (3, "a", True),
            (7, None, False),
            (8, "b", False),
        ]
        assert erasure.shared == 2
        self.check_erased(log, noted)
        texts = [getattr(event, "task", getattr(event, "note", None)) for event in log.read(upto=8, resolve=TYPES)]
        assert texts[3:6] == ["Which berths are taken?", guide, "berth 5 is"]
        assert all(isinstance(texts[index], Erased) for index in (0, 1, 2, 6, 7))

    def test_what_runs_share_goes_with_the_last_of_them(self) -> None:
        """No copy of a shared text is left when each of its runs was erased."""
        log, guide = self.two_runs()
        noted = [log.head(seq) for seq in range(log.position() + 1)]
        log.erase(Erasing(events=frozenset({1, 2, 3}), run="a"))
        assert guide[:200].encode() in self.stored_bytes(log)
        erasure = log.erase(Erasing(events=frozenset({4, 5, 6, 8}), run="b"))
        assert erasure.shared == 0 and len(erasure.texts) == 1
        stored = self.stored_bytes(log)
        assert not [text for text in (guide[:40], "Which berths") if text.encode() in stored]
        assert log.verify(noted).head == log.head()

    def test_dry_run_changes_nothing(self) -> None:
        """With `dry_run` the same places are listed, and the log stays as it was."""
        log = self.secretive()
        before = self.all_of(log)
        would = log.erase(Erasing(words=(SECRET,)), dry_run=True)
        assert would.appended is None and self.all_of(log) == before
        did = log.erase(Erasing(words=(SECRET,)))
        assert (would.places, would.texts, would.facts) == (did.places, did.texts, did.facts)

    def test_second_erasure_finds_nothing(self) -> None:
        """Erased texts are not found again, and then nothing is written."""
        log = self.secretive()
        log.erase(Erasing(words=(SECRET,)))
        before, epoch = self.all_of(log), log.erasures()
        for what in (Erasing(words=(SECRET,)), Erasing(events=frozenset({1})), Erasing(words=("never was there",))):
            again = log.erase(what)
            assert (again.places, again.texts, again.appended) == ((), (), None)
        assert (self.all_of(log), log.erasures()) == (before, epoch)

    def test_erasures_can_follow_each_other(self) -> None:
        """Different texts may go one after the other, also from the same event; the epoch grows, all heads hold."""
        log = self.make_log()
        log.append([extraction(*[Item.make(f"title number {n}", f"content number {n} {SECRET}") for n in range(4)])])
        noted, epochs = [log.head()], [log.erasures()]
        for n in range(4):
            log.erase(Erasing(paths=((1, f"candidates.{n}"),), words=(f"content number {n}",)))
            noted.append(log.head())
            epochs.append(log.erasures())
            log.append([note(f"between {n}")])
        assert epochs == sorted(set(epochs))
        self.check_erased(log, noted)

    def test_handles_to_erased_texts(self) -> None:
        """A handle that was kept names nothing any more: `text` returns None, and does not raise."""
        log = self.make_log()
        log.append([note(SECRET + "z" * 3_000)])
        (event,) = log.read()
        assert isinstance(event, NoteLogged) and isinstance(event.note, Ref) and log.text(event.note)
        other = self.reopen(log)
        assert other.text(event.note)
        log.erase(Erasing(events=frozenset({1})))
        assert log.text(event.note) is None and other.text(event.note) is None
        for handle in (log, other):
            again = handle.append([note(SECRET + "z" * 3_000)]).events[0]
            assert isinstance(again, NoteLogged) and isinstance(again.note, Ref)
            assert log.text(again.note) == other.text(again.note) == SECRET + "z" * 3_000

    def test_retry_after_erasure(self) -> None:
        """A retry of an erased event is answered, and stores nothing; texts that remain are still compared."""
        log = self.make_log()
        item, other = Item.make("t", SECRET), Item.make("other title", "other content")
        group = [run("r", SECRET, 1), msgspec.structs.replace(extraction(item, other), id=event_id(2))]
        log.append(group)
        noted = [log.head()]
        log.erase(Erasing(words=(SECRET,)))
        for handle in (log, self.reopen(log)):
            again = handle.append(group)
            assert (again.first, again.last, again.duplicate) == (1, 2, True)
        # What was erased can't be compared, so another text in its place is no conflict.
        assert log.append([run("r", "a guess of the text", 1), group[1]]).duplicate
        with self.refused(log, DuplicateEvent):
            log.append([run("r3", SECRET, 1), group[1]])
        changed = extraction(item, Item.make("other title", "changed", id=other.id))
        with self.refused(log, DuplicateEvent):
            log.append([group[0], msgspec.structs.replace(changed, id=event_id(2))])
        self.check_erased(log, noted)

    def test_facts_are_named_not_erased(self) -> None:
        """Facts that hold the words stay, and the result lists their positions."""
        log = self.make_log()
        log.append([run(SECRET, "task", 1), note(SECRET)])
        erasure = log.erase(Erasing(words=(SECRET,)))
        assert [place.seq for place in erasure.places] == [2] and 1 in erasure.facts

    def test_refused_erasures(self) -> None:
        """Words too short to search for, and a reason that holds the words, are refused."""
        log = self.secretive()
        with self.refused(log, BadInput):
            log.erase(Erasing(words=("yes",)))
        with self.refused(log, BadInput):
            log.erase(Erasing(words=(SECRET,)), reason=f"because of {SECRET}")

    def test_writing_goes_on_after_an_erasure(self) -> None:
        """An erased log is a log like any other: it takes events, the same words included."""
        log = self.secretive()
        other = self.reopen(log)
        other.append([note("other's", 50)])
        noted = [log.head(seq) for seq in range(log.position() + 1)]
        log.erase(Erasing(words=(SECRET,)))
        # By the handle that didn't erase: it must find its own event in what the other one rewrote.
        assert other.append([note("other's", 50)]).duplicate
        position = log.position()
        assert other.append([note("after")], expected=position).last == position + 1
        assert log.append([note(SECRET)]).last == position + 2
        assert [event.seq for event in self.reopen(log).read()] == list(range(1, position + 3))
        assert log.verify(noted).events == position + 2
