"""Numbers that are a mistake of whoever wrote them: integers that Python refuses to convert, and NaN."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import fails, run

ABSURD = "9" * 5_000
TASK = ("--ont", "lights", "--task", "Which lights are lit?")


REFUSED = {
    "expect": (("append", "notes", "--expect", ABSURD), "is not a position, 'empty' or 'any'"),
    "head": (("verify", "notes", "--head", f"{ABSURD}:{64 * 'a'}"), "is not a head"),
    "version": (("policy", "notes", "--set", f"retrieval=bm25-{ABSURD}"), "there is no retrieval policy"),
    "budget": (("context", *TASK, "--budget", f"L1={ABSURD}"), "is not a budget"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_absurd_integer_is_refused_as_bad_input(tmp_path: Path, name: str) -> None:
    """In files too: see `test_hostile_files.py`."""
    run("init", "notes", cwd=tmp_path)
    line, said = REFUSED[name]
    assert said in fails(*line, cwd=tmp_path, stdin="")


@pytest.mark.parametrize(
    "line",
    [
        ("query", "notes", "--sparql", "ASK {}", "--timeout"),
        ("review", "notes", "--verdicts", "3", "--minutes"),
        ("run", "notes", *TASK, "--lm", "openai/any", "--temperature"),
        ("judge", "calibrate", "--cases", "cases.json", "--alpha"),
        ("retrieval", "calibrate", "notes", "--cases", "cases.jsonl", "--precision"),
        ("experiment", "run", "E9", "--lm", "openai/any", "--dry-run", "--patience"),
        ("suite", "check", "suite.json", "--timeout"),
    ],
    ids=lambda line: line[-1],
)
def test_nan_is_in_no_range(tmp_path: Path, line: tuple[str, ...]) -> None:
    assert "'nan' is not a number" in fails(*line, "nan", cwd=tmp_path)
