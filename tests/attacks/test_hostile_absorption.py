"""A stranger's bank that is absorbed: it may say anything of itself, and gains nothing by the labels of its events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import Bank, limits
from rbank_es.errors import BadEvent, BadInput
from rbank_es.events import Event, MemoriesExtracted, NoteLogged, RunJudged, RunStarted
from rbank_es.law import active
from rbank_es.law.decisions import ids_of_decisions
from rbank_es.log.wrapper import LogWrapper
from tests.cli.misled import HEIGHT, WARNING, drawn, judged, misled_bank
from tests.cli_runner import fails
from tests.cli_runner import run as command


@pytest.fixture
def bank() -> Iterator[Bank]:
    with misled_bank("memory:") as made:
        yield made


def test_nobody_claims_an_origin_in_json(bank: Bank) -> None:
    """Only an absorption sets it, so that a retrieval can't be hidden from `verify` under a foreign label."""
    with pytest.raises(BadEvent, match="set by the log's writer"):
        bank.append({"type": "note_logged", "note": "x", "origin": "0" * 32})


def test_a_forged_origin_raises_no_authority(bank: Bank) -> None:
    """A model's verdict that claims to come from this bank, or from any other, is a model's verdict."""
    bank.overrule("wrong", "failure", reason="The wrong height.")
    with Bank.create("memory:") as other:
        forged: list[Event] = [RunStarted(run="r0"), judged("wrong", "success")]
        other.append([replace(event, origin=origin) for event, origin in zip(forged, (bank.id, "0" * 32), strict=True)])
        bank.absorb(other)
    assert bank.state().verdicts["wrong", "learning"].verdict == "failure"
    assert HEIGHT.id not in active(bank.state())


def test_an_event_under_a_known_id_with_other_content_stays_out(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict, a start of a run and the words of an item: nothing here is overwritten, each is named.

    Of more than a person would read only the first are named; all are counted.
    """
    before = list(bank.events(resolve=True))
    known = {type(event): event for event in before}
    extracted = next(event for event in before if isinstance(event, MemoriesExtracted))
    changed: list[Event] = [
        replace(known[RunJudged], verdict="failure"),  # type: ignore[call-arg]
        replace(known[RunStarted], run="another"),  # type: ignore[call-arg]
        replace(extracted, candidates=(replace(WARNING.text, content="Never look."),)),
    ]
    with Bank.create("memory:") as other:
        mine = [replace(event, seq=0, at="", more=0, dur=0, crc="", occurred_at=event.at) for event in changed]
        other.append([*mine, NoteLogged(note='"new"')])
        made = bank.absorb(other)
        assert (made.brought, made.refused) == (1, 3)
        assert [each.known_at for each in made.refusals] == [event.seq for event in changed]
        assert list(bank.events(point=len(before), resolve=True)) == before
        monkeypatch.setattr(limits, "REFUSALS_LISTED", 2)
        again = bank.absorb(other)
        assert (again.brought, again.refused, again.refusals) == (0, 3, made.refusals[:2])


def test_ids_of_decisions_cannot_be_taken_away(bank: Bank) -> None:
    """An event that has the id of the decisions to come would stop the absorption half-way."""
    with Bank.create("memory:") as other:
        made = replace(drawn(HEIGHT, kind="seed"), id=other.log.new_id())
        squatters = [NoteLogged(note='"mine"', id=id) for id in ids_of_decisions(made)]
        other.append([squatters[0]])
        other.append([made, squatters[1]])
        report = bank.absorb(other)
        assert report.refused >= 1
        assert bank.absorb(other).brought == 0
        assert bank.check(decisions=True).canonical.canonical


@pytest.mark.parametrize("change", [{"id": ""}, {"id": "not-a-uuid"}, {"at": "yesterday"}, {"occurred_at": "~"}])
def test_events_that_cannot_be_stored_stop_it_before_it_begins(bank: Bank, change: dict[str, Any]) -> None:
    class Forging(LogWrapper):
        def read(self, **options: Any) -> Iterator[Event]:
            for event in self._log.read(**options):
                yield replace(event, **change) if event.seq == 7 else event

    with misled_bank("memory:") as other:
        head = bank.head()
        with pytest.raises(BadInput, match="position 7"):
            bank.absorb(Bank(Forging(other.log), "forged"))  # type: ignore[arg-type]
        assert bank.head() == head


def test_an_id_that_the_other_bank_has_twice_comes_once(bank: Bank) -> None:
    class Repeating(LogWrapper):
        def read(self, **options: Any) -> Iterator[Event]:
            first = ""
            for event in self._log.read(**options):
                if isinstance(event, RunStarted):
                    first = first or event.id
                    event = replace(event, id=first)
                yield event

    with misled_bank("memory:") as other, Bank.create("memory:") as into:
        made = into.absorb(Bank(Repeating(other.log), "twice"))  # type: ignore[arg-type]
        assert made.refused == 3 and {each.known_at for each in made.refusals} == {0}


def test_nothing_is_written_in_the_other_bank_nor_followed_out_of_it(tmp_path: Path) -> None:
    """Links in its folder are refused as for any command, and a bank that can't be written is absorbed all the same."""
    Bank.create(tmp_path / "notes").close()
    misled_bank(tmp_path / "other").close()
    (tmp_path / "secret").write_text(json.dumps({"type": "note_logged"}))
    [segment] = (tmp_path / "other").glob("*.jsonl")
    before = {path.name: path.read_bytes() for path in (tmp_path / "other").iterdir()}
    (tmp_path / "other").chmod(0o500)
    try:
        assert command("absorb", "./notes", "./other", "--json", cwd=tmp_path).json["brought_runs"] == 4
    finally:
        (tmp_path / "other").chmod(0o700)
    assert {path.name: path.read_bytes() for path in (tmp_path / "other").iterdir()} == before
    (tmp_path / "other" / f"{10**6:020}.jsonl").symlink_to(tmp_path / "secret")
    assert "Traceback" not in fails("absorb", "./notes", "./other", cwd=tmp_path, code=3)


def test_names_of_a_stranger_are_spelled_out_on_a_terminal(tmp_path: Path) -> None:
    Bank.create(tmp_path / "notes").close()
    with Bank.create(tmp_path / "other") as other:
        other.append([RunStarted(run="\x1b[2Jrun")])
    with Bank.open(tmp_path / "notes") as bank:
        bank.append([RunStarted(run="\x1b[2Jrun")])
    out = command("absorb", "./notes", "./other", cwd=tmp_path).out
    assert "\x1b[2J" not in out and "renamed" in out
