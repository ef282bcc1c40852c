"""The command that simulates a study again: the conditions that are chosen, and what is printed."""

from __future__ import annotations

from pathlib import Path

from tests.cli_runner import run

ONE = ("--repeat", "1", "--where", "bank=append", "--where", "false_success=0.25", "--where", "false_failure=0.3")


def test_a_condition_is_lived_and_its_results_are_printed(tmp_path: Path) -> None:
    done = run("experiment", "simulate", "poisoned-bank", *ONE, cwd=tmp_path)
    assert done.out.startswith("SIMULATED: no language model took part")
    assert "1 repetition of 1 condition" in done.out


def test_a_factor_or_value_that_no_condition_has_is_refused(tmp_path: Path) -> None:
    for wanted, said in (
        ("bank=heap", "the factors are: bank"),
        ("bank", "write FACTOR=VALUE"),
        ("checks=x", "no condi"),
    ):
        refused = run("experiment", "simulate", "poisoned-bank", "--where", wanted, cwd=tmp_path, code=2)
        assert said in refused.err
