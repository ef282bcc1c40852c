"""Recorded runs as an extractor sees them: each within its budget, its first and last step in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.extraction import PastRun, extract, format_trajectory, past_run
from rbank_es.importers import import_paths
from tests.extraction.judged_runs import LOST, WON, answer, entry, extractor

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def attempts(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PastRun]]:
    with Bank.create(tmp_path_factory.mktemp("real") / "bank", unsafe_no_sync=True) as bank:
        import_paths(bank, [data / "trajectories"])
        yield [past_run(bank, run) for run in bank.state().runs]


def test_every_recorded_run_has_a_task_and_all_but_the_failed_one_have_steps(attempts: list[PastRun]) -> None:
    assert len(attempts) == 13 and all(attempt.task for attempt in attempts)
    assert [attempt.outcome for attempt in attempts if attempt.empty] == ["failed"]


@pytest.mark.parametrize("budget", [1_000, 4_000, limits.EXTRACTION_TRAJECTORY_CHARS])
def test_every_recorded_run_fits_its_budget(attempts: list[PastRun], budget: int) -> None:
    """Most of what there is room for is used; what is left out is said."""
    for attempt in attempts:
        whole, text = format_trajectory(attempt.steps, 10**9), format_trajectory(attempt.steps, budget)
        assert len(text) <= budget
        if len(whole) > budget:
            assert len(text) > budget // 3 and "left out" in text
            assert f"Step {attempt.steps[0].index}\n" in text and f"Step {attempt.steps[-1].index}\n" in text


def test_every_recorded_run_that_did_something_can_be_learnt_from(attempts: list[PastRun], tmp_path: Path) -> None:
    """One request each, which holds the question; of the run that broke down at its start, none."""
    with extractor(tmp_path, answer([entry()])) as (_, lms, engine):
        made = [extract(run, run.task, LOST if run.outcome == "failed" else WON, lms) for run in attempts]
        assert [each.code for each in made] == ["nothing_happened" if run.empty else "" for run in attempts]
        asked = [run for run in attempts if not run.empty]
        assert all(run.task in prompt for run, prompt in zip(asked, engine.prompts, strict=True))
