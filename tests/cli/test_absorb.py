"""The command `absorb`, as people and programs meet it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from rbank_es import Bank
from tests.cli.misled import TWIN, judged, misled_bank
from tests.cli_runner import run


def test_a_correction_that_was_due_here_is_not_told_as_something_that_came(tmp_path: Path) -> None:
    misled_bank(tmp_path / "logs" / "ann").close()
    run("fork", "ann", "branch", cwd=tmp_path)
    with Bank.open(tmp_path / "logs" / "ann") as bank:
        bank.append(replace(judged("wrong", "failure"), judge="bo", kind="human"))
        due = bank.position + 1
    assert TWIN.id not in run("search", "ann", "focal", cwd=tmp_path).out
    said = run("absorb", "ann", "branch", cwd=tmp_path).out
    assert "branch has nothing that is not here already" in said
    assert f"a correction that was due here before was recorded at positions {due} to {due + 1}" in said
    assert "came: 1 item" in said and TWIN.id in said
    again = run("absorb", "ann", "branch", cwd=tmp_path).out
    assert again == "branch has nothing that is not here already\n"
