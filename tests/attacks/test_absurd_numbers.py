"""Numbers that are a mistake of whoever wrote them: integers that Python refuses to convert, and NaN."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import fails, run

ABSURD = "9" * 5_000
TASK = ("--ont", "lights", "--task", "Which lights are lit?")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("append", "notes", "--expect", ABSURD), "is not a position, 'empty' or 'any'"),
        (("verify", "notes", "--head", f"{ABSURD}:{64 * 'a'}"), "is not a head"),
        (("verify", "notes", "--head", "heads.txt"), "is not a head"),
        (("policy", "notes", "--set", f"retrieval=bm25-{ABSURD}"), "there is no retrieval policy"),
        (("policy", "notes", "--set", "absurd.toml"), "neither TOML nor a JSON object"),
        (("overrule", "notes", "--from", "absurd.toml", "--by", "ann"), "absurd.toml: "),
        (("context", *TASK, "--budget", f"L1={ABSURD}"), "is not a budget"),
        (("context", *TASK, "--constraints", "absurd.toml"), "it is not TOML"),
        (("run", "notes", *TASK, "--lm", "script:absurd.toml"), "it is not TOML"),
        (("tools", "--endpoint", "absurd.toml"), "this is no endpoint profile"),
        (("experiment", "show", "absurd.toml"), "it is not TOML"),
    ],
    # Because the test's name is in the environment of each process, and a system limits the size of that.
    ids=[
        "expect",
        "head",
        "heads",
        "version",
        "policies",
        "verdicts",
        "budget",
        "constraints",
        "script",
        "profile",
        "experiment",
    ],
)
def test_an_absurd_integer_is_refused_as_bad_input(tmp_path: Path, line: tuple[str, ...], said: str) -> None:
    run("init", "notes", cwd=tmp_path)
    (tmp_path / "absurd.toml").write_text(f"number = {ABSURD}\n")
    (tmp_path / "heads.txt").write_text(f"{ABSURD}:{64 * 'a'}\n")
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
