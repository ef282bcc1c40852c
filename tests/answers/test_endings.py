"""The question `endings`: why runs ended, by kind, and what to do; every kind of end has its advice."""

from __future__ import annotations

import re

import pytest

from rbank_es import Bank
from rbank_es.errors import LmFailed, SandboxUnavailable
from rbank_es.events import RunFinished, RunStarted
from rbank_es.events.run_events import Outcome
from rbank_es.executors.executor import RunResult
from rbank_es.system.error_hints import ending_hint

ENDS: tuple[tuple[str, Outcome, str | None], ...] = (
    ("one", "submitted", None),
    ("two", "forced_at_limit", "unreadable"),
    ("three", "failed", "timeout"),
    ("four", "forced_at_limit", "unreadable"),
    ("five", "submitted", None),
    ("six", "submitted", None),
)


@pytest.fixture
def bank() -> Bank:
    """Six runs that ended, and one that didn't."""
    made = Bank.create("memory:")
    for run, outcome, code in ENDS:
        made.append(RunStarted(run=run, task="Which?"))
        made.append(RunFinished(run=run, outcome=outcome, error_code=code))
    made.append(RunStarted(run="seven", task="Which?"))
    return made


def codes_of(kind: type) -> list[str]:
    """The codes that a docstring lists behind "`code` is stable", or "`error_code` is"."""
    listed = re.search(r"code` is stable, for programs: (.*?)\.(?:\s|$)", kind.__doc__ or "", re.DOTALL)
    assert listed is not None
    return [code for code in re.findall(r"[a-z_]+", listed[1]) if "_" in code or code in ("refused", "timeout", "cold")]


@pytest.mark.parametrize("kind", [LmFailed, SandboxUnavailable, RunResult])
def test_every_code_that_is_documented_has_advice_of_its_own(kind: type) -> None:
    general = ending_hint("failed", "no such code")
    codes = codes_of(kind)
    assert len(codes) >= 5
    assert [code for code in codes if ending_hint("failed", code) in (None, general)] == []


@pytest.mark.parametrize(
    "end", [("forced_at_limit", None), ("failed", "stalled"), ("failed", "new code"), (None, None)]
)
def test_every_other_end_has_advice_and_an_answer_none(end: tuple[str | None, str | None]) -> None:
    assert ending_hint(*end) and ending_hint("submitted", None) is None
