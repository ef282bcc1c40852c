"""The command `absorb`, as people and programs meet it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.events import NoteLogged
from rbank_es.log.groups import system_clock, utc_text
from tests.cli.misled import HEIGHT, PENDING, TWIN, judged, learned, misled_bank, ran
from tests.cli_runner import fails, run


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two banks: the misled one, and one of somebody else that has a run of a name that is taken."""
    with Bank.create(tmp_path / "logs" / "notes") as bank:
        bank.append([*ran("well"), judged("well", "success")])
        learned(bank, PENDING, ("well", "success"))
    misled_bank(tmp_path / "logs" / "ann").close()
    return tmp_path


def test_show_names_the_bank_in_which_an_event_or_a_verdict_was_recorded_first(place: Path) -> None:
    """Of what came in with another bank; what began here has no such column."""
    ann = run("absorb", "notes", "ann", "--json", cwd=place).json["other_id"][:12]
    run("overrule", "notes", "misled", "--success", "--reason", "It was right.", cwd=place)
    said = run("show", "notes", "misled", cwd=place).out
    verdicts = said[said.index("verdicts") : said.index("given to it")].splitlines()
    assert ["bank" in verdicts[1], ann in verdicts[2], "this one" in verdicts[3]] == [True, True, True]
    assert all(ann in line for line in said[said.index("timeline") :].splitlines()[2:-1] if "run_" in line)
    history = run("show", "notes", HEIGHT.id, cwd=place).out.partition("history")[2]
    assert ann in history and "this one" in history  # that bank drew it, this one decided about it
    assert "bank" not in run("show", "notes", "well", cwd=place).out


def test_a_correction_that_was_due_here_is_not_told_as_something_that_came(place: Path) -> None:
    run("fork", "ann", "branch", cwd=place)
    with Bank.open(place / "logs" / "ann") as bank:
        bank.append(replace(judged("wrong", "failure"), judge="bo", kind="human"))
        due = bank.position + 1
    assert TWIN.id not in run("search", "ann", "focal", cwd=place).out
    said = run("absorb", "ann", "branch", cwd=place).out
    assert "branch has nothing that is not here already" in said
    assert f"a correction that was due here before was recorded at positions {due} to {due + 1}" in said
    assert "came: 1 item" in said and TWIN.id in said
    again = run("absorb", "ann", "branch", cwd=place).out
    assert again == "branch has nothing that is not here already\n"


@pytest.mark.parametrize("command", [("absorb", "notes", "ann"), ("diff", "notes", "ann"), ("diff", "ann", "notes")])
def test_of_two_banks_the_damaged_one_is_named(command: tuple[str, ...], place: Path) -> None:
    [segment] = (place / "logs" / "ann").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"lucky"', b'"lucka"', 1))
    assert f"logs/ann: segment {segment.name}, line" in fails(*command, cwd=place, code=3)


def test_twenty_items_are_listed_and_the_others_counted(place: Path) -> None:
    with Bank.open(place / "logs" / "ann") as bank:
        bank.append(ran("many"))
        bank.append(judged("many", "success"))
        for number in range(45):
            words = f"word{number} " * 9
            learned(
                bank, replace(HEIGHT, id=f"{number:012x}", title=f"Item {number}", content=words), ("many", "success")
            )
    out = run("absorb", "notes", "ann", cwd=place).out
    assert sum(f"{number:012x}" in out for number in range(45)) + sum(id in out for id in (HEIGHT.id,)) <= 20
    assert "28 more: --json lists all" in out


def test_what_waits_for_a_fast_clock_is_said_and_comes_later(place: Path) -> None:
    soon = system_clock() + 600_000_000
    with Bank.create(place / "logs" / "fast") as bank:
        bank.append(NoteLogged(note="in time"))
    with Bank.open(place / "logs" / "fast", clock=lambda: soon) as bank:
        bank.append([*ran("late"), judged("late", "success")])
    said = run("absorb", "notes", "fast", cwd=place).out
    until = utc_text(soon)
    assert f"events wait: of a time in the future, or about what is; absorb again after {until[:19]}" in said
    again = run("absorb", "notes", "fast", "--json", cwd=place).json
    assert (again["brought"], again["known"], again["waiting_until"][:19]) == (0, 1, until[:19]) and again[
        "waiting"
    ] > 2
