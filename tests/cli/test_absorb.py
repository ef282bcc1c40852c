"""The command `absorb`, as people and programs meet it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from tests.cli.misled import PENDING, TWIN, judged, learned, misled_bank, ran
from tests.cli_runner import run


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two banks: the misled one, and one of somebody else that has a run of a name that is taken."""
    with Bank.create(tmp_path / "logs" / "notes") as bank:
        bank.append([*ran("well"), judged("well", "success")])
        learned(bank, PENDING, ("well", "success"))
    misled_bank(tmp_path / "logs" / "ann").close()
    return tmp_path


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
