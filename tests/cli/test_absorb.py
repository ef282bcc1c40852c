"""The command `absorb`, as people and programs meet it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.events import NoteLogged
from rbank_es.log.groups import system_clock, utc_text
from tests.cli.misled import HEIGHT, TWIN, judged, learned, misled_bank, ran
from tests.cli.test_corrections import PENDING
from tests.cli_runner import fails, run


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two banks: the misled one, and one of somebody else that has a run of a name that is taken."""
    with Bank.create(tmp_path / "logs" / "notes") as bank:
        bank.append([*ran("well"), judged("well", "success")])
        learned(bank, PENDING, ("well", "success"))
    misled_bank(tmp_path / "logs" / "ann").close()
    return tmp_path


@pytest.mark.slow
def test_it_says_what_came_and_under_which_names(place: Path) -> None:
    out = run("absorb", "notes", "ann", "--by", "me", cwd=place).out
    for words in (
        "runs",
        "judgments",
        "decided: add",
        "renamed, because the name is taken here: 1 run",
        "came: 3 items",
    ):
        assert words in out
    assert HEIGHT.id in out and "recorded at positions" in out
    assert run("absorb", "notes", "ann", cwd=place).out.startswith("ann has nothing that is not here already")
    assert run("log", "notes", "--type", "bank_absorbed", cwd=place).json["by"] == "me"


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


def test_a_dry_run_records_nothing(place: Path) -> None:
    head = run("head", "notes", cwd=place).out.split()[1]
    assert "nothing was recorded" in run("absorb", "notes", "ann", "--dry-run", cwd=place).out
    assert run("head", "notes", cwd=place).out.split()[1] == head


def test_a_point_of_the_other_bank(place: Path) -> None:
    assert run("absorb", "notes", "ann@lucky", "--json", cwd=place).json["brought_runs"] == 3


@pytest.mark.slow
def test_what_cannot_be_absorbed(place: Path) -> None:
    assert "can't absorb itself" in fails("absorb", "notes", "notes", cwd=place)
    assert "nobody" in fails("absorb", "notes", "nobody", cwd=place)
    fails("absorb", "notes", "memory:", cwd=place)
    fails("absorb", "notes@3", "ann", cwd=place)
    [segment] = (place / "logs" / "ann").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:9], b"{}\n", *lines[10:]]))
    head = run("head", "notes", cwd=place).out.split()[1]
    fails("absorb", "notes", "ann", cwd=place, code=3)
    assert run("head", "notes", cwd=place).out.split()[1] == head


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


@pytest.mark.slow
def test_another_banks_erasures_are_listed_and_carried_out_only_if_asked_for(place: Path) -> None:
    run("fork", "ann", "mirror", cwd=place)
    run("erase", "mirror", "--item", HEIGHT.id, "--yes", cwd=place)
    for options in ((), ("--dry-run",), ("--erase", "--dry-run")):
        said = run("absorb", "ann", "mirror", *options, cwd=place).out
        assert "were erased there, and are here: 2 texts" in said and "nothing was erased here; --erase does it" in said
        assert HEIGHT.id in said and HEIGHT.content not in said
    assert "erased here, as there: 2 texts" in run("absorb", "ann", "mirror", "--erase", cwd=place).out
    assert HEIGHT.content not in run("show", "ann", HEIGHT.id, cwd=place).out
    assert "erased" not in run("absorb", "ann", "mirror", cwd=place).out
