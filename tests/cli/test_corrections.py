"""Commands that correct what a bank learned: verdicts, ends and returns of items, what waits for a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.events import MemoriesExtracted
from rbank_es.events.items import Item
from rbank_es.extraction.candidates import consolidate
from tests.cli.misled import HEIGHT, SORTED, TWIN, WARNING, drawn, learned, misled_bank
from tests.cli_runner import fails, run
from tests.differences import states_in

RULED = ("overrule", "misled", "wrong", "--failure", "--reason", "It is Cormorant Rock.", "--by", "ann")
PENDING = Item.make("Count with DISTINCT", "A light may be typed twice; count the lights, not the rows.")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a copy of."""
    folder = tmp_path_factory.mktemp("misled")
    misled_bank(folder / "logs" / "misled").close()
    return folder


def corrected(place: Path, *line: str) -> Any:
    return run(*line, "--json", cwd=place).json


def states(place: Path) -> dict[str, str]:
    with Bank.open(place / "logs" / "misled") as bank:
        return {id: entry.state for id, entry in bank.state().items.items()}


def position(place: Path) -> int:
    with Bank.open(place / "logs" / "misled") as bank:
        return bank.position


# ---------------------------------------------------------------- overrule


@pytest.mark.slow
def test_a_dry_run_reports_the_same_and_records_nothing(place: Path) -> None:
    before = position(place)
    tried = corrected(place, *RULED, "--dry-run")
    assert position(place) == before and "nothing was recorded" in run(*RULED, "--dry-run", cwd=place).out
    done = corrected(place, *RULED)
    assert done == tried | {"recorded": True}


def test_the_same_overrule_twice_records_nothing(place: Path) -> None:
    run(*RULED, cwd=place)
    before = position(place)
    assert "nothing was recorded" in run(*RULED, cwd=place).out and position(place) == before


def test_a_verdict_that_nobody_can_give_ends_what_it_taught_and_teaches_nothing(place: Path) -> None:
    facts = corrected(place, "overrule", "misled", "wrong", "--undecided", "--reason", "The task is ambiguous.")
    assert facts["to_extract"] == [] and states(place)[HEIGHT.id] == "unsupported"


def test_an_item_that_a_person_vouched_for_stays_and_is_named(place: Path) -> None:
    run("retract", "misled", HEIGHT.id, "--because", "A slip.", cwd=place)
    run("restore", "misled", HEIGHT.id, "--because", "It helps with lightships.", "--by", "bo", cwd=place)
    facts = corrected(place, *RULED)
    assert [each["id"] for each in facts["stays"]] == [HEIGHT.id] and states(place)[HEIGHT.id] == "active"
    assert facts["misled"] == [] == facts["tainted"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("wrnog", "--failure", "--reason", "x"), "did you mean wrong?"),
        (("wron", "--failure", "--reason", "x"), "write the whole id where something is recorded: wrong"),
        (("wrong", "--reason", "x"), "--success, --failure or --undecided"),
        (("wrong", "--failure"), "--reason"),
        (("wrong", "--failure", "--reason", " "), "reason"),
        (("--failure", "--reason", "x"), "name a RUN"),
        (("wrong", "--failure", "--reason", "x", "--from", "f.csv"), "name a RUN"),
        (("--from", "f.csv", "--success"), "the file"),
        (("--from", "missing.csv"), "missing.csv"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "nothing",
)
def test_a_wrong_overrule_says_why_and_records_nothing(line: tuple[str, ...], words: str, place: Path) -> None:
    before = position(place)
    assert words in fails("overrule", "misled", *line, cwd=place)
    assert position(place) == before


# ---------------------------------------------------------------- many verdicts from a file

FORMS = {
    "verdicts.csv": 'run,verdict,reason\nwrong,failure,"the light, not the tower"\nlucky,undecided,\n',
    "verdicts.jsonl": '{"run": "wrong", "verdict": "failure"}\n\n{"run": "lucky", "verdict": "Undecided"}\n',
    "verdicts.json": '[{"run": "wrong", "verdict": "failure"}, {"run": "lucky", "verdict": "undecided"}]',
    "verdicts.toml": '[[ruling]]\nrun="wrong"\nverdict="failure"\n[[ruling]]\nrun="lucky"\nverdict="undecided"\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_many_verdicts_come_from_a_file_in_one_correction(name: str, place: Path) -> None:
    (place / name).write_text(FORMS[name])
    facts = corrected(place, "overrule", "misled", "--from", name, "--reason", "Checked by hand.", "--by", "ann")
    assert facts["verdicts"] == {"wrong": "failure", "lucky": "undecided"}
    with Bank.open(place / "logs" / "misled") as bank:
        given = list(bank.events(after=facts["first_seq"] - 1, types={"judgment_overruled"}))
        assert [getattr(event, "by", "") for event in given] == ["ann", "ann"]
        assert len(list(bank.events(types={"correction_completed"}))) == 1


def test_many_verdicts_may_set_aside_what_they_influenced(place: Path) -> None:
    (place / "verdicts.csv").write_text("run,verdict\nwrong,failure\nwell,failure\n")
    many = ("overrule", "misled", "--from", "verdicts.csv", "--reason", "Checked by hand.")
    assert "overrule misled --from FILE --influence" in run(*many, "--dry-run", cwd=place).out
    facts = corrected(place, *many, "--influence")
    assert len(facts["aside"]) == 2 and "active" not in states(place).values()
    run("overrule", "misled", "wrong", "--success", "--reason", "I had misread it.", cwd=place)
    assert {states(place)[each.id] for each in (HEIGHT, WARNING, SORTED)} == {"active"}


def test_verdicts_come_from_standard_input_as_json_lines(place: Path) -> None:
    line = ("overrule", "misled", "--from", "-", "--reason", "x", "--json")
    assert len(run(*line, cwd=place, stdin=FORMS["verdicts.jsonl"]).json["verdicts"]) == 2


# ---------------------------------------------------------------- items


def test_retract_ends_one_item_and_leaves_its_twin_free(place: Path) -> None:
    facts = corrected(place, "retract", "misled", HEIGHT.id, "--because", "Outdated.", "--by", "ann")
    assert states_in(facts) == {HEIGHT.id: ("active", "withdrawn")}
    with Bank.open(place / "logs" / "misled") as bank:
        learned(bank, TWIN, ("well", "success"))
        learned(bank, HEIGHT, ("well", "success"))
    assert (states(place)[TWIN.id], states(place)[HEIGHT.id]) == ("active", "withdrawn")


@pytest.mark.slow
def test_reject_bars_the_words_of_an_item_and_of_its_twins(place: Path) -> None:
    run(*RULED, cwd=place)
    facts = corrected(place, "reject", "misled", HEIGHT.id, "--because", "Wrong.", "--by", "ann")
    assert states_in(facts)[HEIGHT.id][1] == "rejected"
    assert "active" not in {states(place)[HEIGHT.id], states(place).get(TWIN.id)}
    assert "rejected already" in run("reject", "misled", HEIGHT.id, "--because", "Wrong.", cwd=place).out


@pytest.mark.slow
def test_restore_brings_an_item_back_and_a_rejected_one_only_if_that_is_said(place: Path) -> None:
    run("reject", "misled", WARNING.id, "--because", "Wrong.", cwd=place)
    assert "--even-rejected" in fails("restore", "misled", WARNING.id, "--because", "It holds.", cwd=place)
    facts = corrected(place, "restore", "misled", WARNING.id, "--because", "It holds.", "--even-rejected")
    assert states_in(facts) == {WARNING.id: ("rejected", "active")}
    assert "vouched for it already" in run("restore", "misled", WARNING.id, "--because", "It holds.", cwd=place).out


def test_undo_takes_a_candidate_out_and_undo_of_that_takes_it_back(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        [seq] = [event.seq for event in bank.events(types={"memories_extracted"}) if WARNING.head in event.heads]  # type: ignore[attr-defined]
    facts = corrected(place, "undo", "misled", str(seq), "--because", "A slip.")
    assert states(place)[WARNING.id] == "unsupported"
    run("undo", "misled", str(facts["first_seq"]), "--because", "No slip.", cwd=place)
    assert states(place)[WARNING.id] == "active"
    again = run("undo", "misled", str(facts["first_seq"]), "--because", "No slip.", cwd=place).out
    assert "nothing was recorded" in again and "undone" not in again


@pytest.mark.slow
@pytest.mark.parametrize("command", ["reject", "retract", "restore", "admit"])
def test_a_beginning_of_an_id_names_no_item_to_write_about(command: str, place: Path) -> None:
    before = position(place)
    because = () if command == "admit" else ("--because", "x")
    assert f"whole id where something is recorded: {HEIGHT.id}" in fails(
        command, "misled", HEIGHT.id[:-1], *because, cwd=place
    )
    assert position(place) == before


@pytest.mark.parametrize("command", ["reject", "retract", "restore", "admit"])
def test_a_misspelt_item_is_refused_with_the_nearest(command: str, place: Path) -> None:
    before = position(place)
    wrong = HEIGHT.id[:-2] + ("00" if HEIGHT.id[-2:] != "00" else "11")
    because = () if command == "admit" else ("--because", "x")
    assert f"did you mean {HEIGHT.id}" in fails(command, "misled", wrong, *because, cwd=place)
    assert position(place) == before


@pytest.mark.parametrize("seq", ["1", "999"])
def test_an_undo_of_what_is_no_decision_is_refused(seq: str, place: Path) -> None:
    assert "no decision" in fails("undo", "misled", seq, "--because", "x", cwd=place)


# ---------------------------------------------------------------- review and correct


def propose(place: Path, *items: Item) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        for item in items:
            one = drawn(item, ("well", "success"))
            words = {name: getattr(one, name) for name in ("kind", "runs", "relied", "heads", "candidates")}
            consolidate(bank, [MemoriesExtracted(**words, pending=True, extractor="proposals-1")])


def test_review_shows_six_lines_of_an_item(place: Path) -> None:
    propose(place, Item.make("Many lines", "\n".join(f"Line {n} of the advice." for n in range(20))))
    said = run("review", "misled", cwd=place).out
    assert [n for n in range(20) if f"Line {n} of the advice." in said] == [*range(6)]


def test_review_admits_and_rejects_several_or_none(place: Path) -> None:
    other = Item.make("Ask twice", "Ask the same question twice and compare.")
    propose(place, PENDING, other)
    before = position(place)
    line = ("review", "misled", "--admit", PENDING.id, "--reject", "nosuch", "--because", "Useless.")
    assert "no item 'nosuch'" in fails(*line, cwd=place) and position(place) == before
    assert "--because" in fails("review", "misled", "--reject", other.id, cwd=place)
    both = ("--admit", PENDING.id, "--reject", PENDING.id, "--because", "x")
    assert "say one" in fails("review", "misled", *both, cwd=place)
    run("review", "misled", "--admit", PENDING.id, "--reject", other.id, "--because", "Useless.", cwd=place)
    assert (states(place)[PENDING.id], states(place)[other.id]) == ("active", "rejected")


def test_admit_lets_one_in_and_only_what_is_pending(place: Path) -> None:
    propose(place, PENDING)
    facts = corrected(place, "admit", "misled", PENDING.id, "--by", "ann")
    assert states_in(facts) == {PENDING.id: ("pending", "active")}
    run("retract", "misled", PENDING.id, "--because", "x", cwd=place)
    assert "withdrawn, not pending" in fails("admit", "misled", PENDING.id, cwd=place)


@pytest.mark.slow
def test_correct_makes_decisions_again_after_a_verdict_that_was_appended(place: Path) -> None:
    """The verdict acts at once; what it was in the way of comes in with the correction, once."""
    assert "nothing is due" in run("correct", "misled", cwd=place).out
    verdict = {"type": "judgment_overruled", "run": "wrong", "purpose": "learning", "verdict": "failure",
               "judge": "human", "judge_version": "1", "kind": "human", "by": "ann", "why": "The light."}  # fmt: skip
    run("append", "misled", cwd=place, stdin=json.dumps(verdict))
    assert states(place)[HEIGHT.id] == "unsupported" and TWIN.id not in states(place)
    assert corrected(place, "correct", "misled", "--dry-run")["decided"] == 1 and TWIN.id not in states(place)
    assert "1 decision made again" in run("correct", "misled", cwd=place).out
    assert states(place)[TWIN.id] == "active"
    assert "nothing is due" in run("correct", "misled", cwd=place).out
