"""Banks all of whose events are valid and make no sense: commands stay quick, whole and silent about nothing."""

from __future__ import annotations

import time
from pathlib import Path

from rbank_es.bank import Bank
from rbank_es.bank.error_model import fitted, opinions_of
from rbank_es.events import RunFinished, RunJudged, RunStarted
from tests.cli_runner import run

JUDGES = 8_000


def judged(run_id: str, number: int) -> RunJudged:
    verdict = ("success", "failure", "undecided")[number % 3]
    return RunJudged(
        run=run_id, purpose="learning", verdict=verdict, kind="lm", judge=f"judge-{number}", judge_version="1"
    )


def processor_s(since_s: float) -> float:
    return time.process_time() - since_s


def test_the_health_of_a_bank_takes_no_square_of_the_verdicts_on_one_run(tmp_path: Path) -> None:
    """With 9,000 judges on one run, one query took 4 s of processor; with 34,000 it took a minute."""
    with Bank.create(tmp_path / "judged", unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run="same"), RunFinished(run="same", outcome="submitted")])
        bank.append([judged("same", number) for number in range(JUDGES)])
        with bank.live() as view:
            before_s = time.process_time()
            [health] = view.rows("bank_health")
            assert processor_s(before_s) < 1
    assert (health["judged"], health["judged_twice"], health["disagreed"]) == (1, 1, 1)


def test_the_errors_of_judges_are_fitted_without_a_square_of_the_verdicts_on_one_run() -> None:
    """With 6,000 decided verdicts on one run, `review --verdicts` took three minutes."""
    verdicts = [judged("same", number) for number in range(JUDGES)]
    before_s = time.process_time()
    model = fitted(opinions_of(verdicts))
    assert processor_s(before_s) < 2
    assert len(model.records) == sum(event.verdict != "undecided" for event in verdicts)


def test_names_with_the_character_0_are_listed_whole(tmp_path: Path) -> None:
    """SQLite's JSON ends a text at it: `runs` of such a bank ended as a defect."""
    names = ["\0first", "sec\0ond", "sec", "third\0"]
    with Bank.create(tmp_path / "zero", unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run=name, task=f"of {name!r}") for name in names])
    listed = run("runs", "./zero", "--json", cwd=tmp_path).json
    assert {row["run"]: row["task"] for row in listed["runs"]} == {name: f"of {name!r}" for name in names}
    assert "\\x00first" in run("runs", "./zero", cwd=tmp_path).out
