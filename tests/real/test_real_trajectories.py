"""Recorded runs as an extractor sees them: each within its budget, its first and last step in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.exchange import import_paths
from rbank_es.extraction import PastRun, extract, format_trajectory, past_run
from tests.extraction.judged_runs import LOST, WON, answer, entry, extractor

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PastRun]]:
    with Bank.create(tmp_path_factory.mktemp("real") / "bank", unsafe_no_sync=True) as bank:
        import_paths(bank, [data / "trajectories"])
        yield [past_run(bank, run) for run in bank.state().runs]


def test_every_recorded_run_has_a_task_and_all_but_the_failed_one_have_steps(runs: list[PastRun]) -> None:
    assert len(runs) == 13 and all(run.task for run in runs)
    assert [run.outcome for run in runs if run.empty] == ["failed"]


@pytest.mark.parametrize("budget", [1_000, 4_000, limits.EXTRACTION_TRAJECTORY_CHARS])
def test_every_recorded_run_fits_its_budget(runs: list[PastRun], budget: int) -> None:
    """Most of what there is room for is used; what is left out is said."""
    for run in runs:
        whole, text = format_trajectory(run.steps, 10**9), format_trajectory(run.steps, budget)
        assert len(text) <= budget
        if len(whole) > budget:
            assert len(text) > budget // 3 and "left out" in text
            assert f"Step {run.steps[0].index}\n" in text and f"Step {run.steps[-1].index}\n" in text


@pytest.mark.slow
def test_every_recorded_run_that_did_something_can_be_learned_from(runs: list[PastRun], tmp_path: Path) -> None:
    """One request each, which holds the question; of the run that broke down at its start, none."""
    with extractor(tmp_path, answer([entry()])) as (_, lms, engine):
        made = [extract(run, run.task, LOST if run.outcome == "failed" else WON, lms) for run in runs]
        assert [each.code for each in made] == ["nothing_happened" if run.empty else "" for run in runs]
        asked = [run for run in runs if not run.empty]
        assert all(run.task in prompt for run, prompt in zip(asked, engine.prompts, strict=True))
