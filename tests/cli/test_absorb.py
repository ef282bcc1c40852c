"""The command `absorb`, as people and programs meet it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from tests.cli.misled import HEIGHT, PENDING, TWIN, judged, learned, misled_bank, ran
from tests.cli_runner import run


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
