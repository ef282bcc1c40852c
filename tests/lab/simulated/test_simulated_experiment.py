"""Simulations as an experiment: rows, report and check as of any other, and SIMULATED in every output."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest
from msgspec.structs import replace

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import ExperimentFinished, ExperimentStarted, RunStarted
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.experiment_results import results_of
from rbank_es.lab.plan import ordered_tasks
from rbank_es.lab.report import write_report
from rbank_es.lab.report_check import check_report
from rbank_es.lab.simulated.memory_mirror import MirrorMemory
from rbank_es.lab.simulated.simulated_experiment import WITHOUT, simulate_experiment
from rbank_es.lab.simulated.simulation import SimulationPlan, VerdictCheck, simulate
from rbank_es.lab.simulated.solver import PERFECT, JudgeErrors
from rbank_es.lab.simulated.study import Study, StudyCell
from rbank_es.lab.simulated.world import Assumptions, World
from tests.cli_runner import fails, run
from tests.loop.test_closed_loop import of_type

SMALL = Assumptions(families=4, clan=2, tasks=12, unseen=1)
PLAN = SimulationPlan(
    judge=JudgeErrors(false_success=0.5, false_failure=0.3),
    checks=(VerdictCheck(at=6, verdicts=3, errors=0.2),),
    policies={"consolidation": {"name": "append"}},
)


ONE = ("--repeat", "1", "--where", "bank=append", "--where", "false_success=0.25", "--where", "false_failure=0.3")


def study_of(plan: SimulationPlan = PLAN) -> Study:
    cell = StudyCell(factors={"bank": "append", "checks": 3}, plan=plan)
    return Study(name="poisoned-bank", title="Small", assumptions=SMALL, repetitions=2, cells=(cell,))


@pytest.mark.slow
def test_lives_are_trials_whose_rows_are_counted_reported_and_checked(tmp_path: Path) -> None:
    study, folder = study_of(), tmp_path / "sim"
    simulate_experiment(study, study.cells, 1, folder)
    data = read_experiment(folder)
    assert [each.state for each in data.trials] == ["finished"] * 2
    assert len(data.rows) == 24 and all(row.simulated and row.counted for row in data.rows)
    write_report(data, folder)
    assert check_report(folder).holds
    with Bank.open(folder / "banks" / "append-3" / "o0-r0") as bank:
        assert len(of_type(bank, ExperimentStarted)) == len(of_type(bank, ExperimentFinished)) == 1
        assert {each.suite for each in of_type(bank, RunStarted)} == {data.suite.digest}
    for name in ("report.html", "results/conditions.json", "experiment.toml", "suite.json"):
        assert "SIMULATED" in (folder / name).read_text(), name
    assert json.loads((folder / "environment.json").read_text())["kind"].startswith("SIMULATED")
    assert results_of(data).marks == {"SIMULATED": 24}


@pytest.mark.slow
def test_the_trials_are_those_of_the_mirror(tmp_path: Path) -> None:
    """What the rows say of a trial is what the same simulation in memory says of itself."""
    study, folder = study_of(), tmp_path / "sim"
    simulate_experiment(study, study.cells, 2, folder)
    data = read_experiment(folder)
    for order in range(2):
        world = World(SMALL, 0, order)
        places = [task.id for task in ordered_tasks(data.suite.tasks, 0, order)]
        world.tasks = tuple(sorted(world.tasks, key=lambda task: places.index(task.id)))
        simulation = simulate(world, PLAN, lambda: MirrorMemory.begin(PLAN.policies))
        rows = [row for row in data.rows if (row.condition, row.order) == ("append-3", order)]
        with Bank.open(folder / "banks" / "append-3" / f"o{order}-r0") as bank:
            assert sum(entry.state == "active" for entry in bank.state().items.values()) == simulation.items
            judged = {e.run: e.verdict for e in bank.events(types={"run_judged"}) if e.purpose == "learning"}  # type: ignore[attr-defined]
        assert mean(judged[row.run] == row.score for row in rows) == pytest.approx(simulation.judged_right)
    assert {row.given for row in data.rows if row.condition == WITHOUT} == {()}


def test_a_folder_that_is_there_and_a_life_in_two_banks_are_refused(tmp_path: Path) -> None:
    study = study_of()
    (tmp_path / "sim").mkdir()
    with pytest.raises(BadInput, match="sim exists; choose another folder"):
        simulate_experiment(study, study.cells, 1, tmp_path / "sim")
    emptied = study_of(replace(PLAN, emptied_at=6))
    with pytest.raises(BadInput, match="an emptied bank is another bank"):
        simulate_experiment(emptied, emptied.cells, 1, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_leave_one_out_keeps_the_lesson_of_the_very_task_from_it_in_mirror_and_bank_alike(tmp_path: Path) -> None:
    """With an effect of its own for such a lesson, a memory that may repeat itself looks better than it is."""
    from tests.lab.simulated.test_simulation import in_banks, in_mirror

    skills = {}
    for left_out in (True, False):
        plan = SimulationPlan(judge=PERFECT, measured_again=True, leave_one_out=left_out)
        world = World(replace(SMALL, tasks=16, same_task=3.0), 3)
        simulation = in_mirror(world, plan)
        assert simulation == in_banks(world, plan, tmp_path / str(left_out))
        skills[left_out] = simulation.again
    assert skills[False] is not None and skills[True] is not None and skills[False] > skills[True]
    plain = World(replace(SMALL, tasks=16), 3)
    assert in_mirror(plain, SimulationPlan()).again is None


@pytest.mark.slow
def test_the_command_lives_a_condition_in_a_folder_and_the_report_is_marked(tmp_path: Path) -> None:
    command = ("experiment", "simulate", "poisoned-bank", *ONE, "--folder", "sim")
    done = run(*command, cwd=tmp_path)
    assert done.out.startswith("SIMULATED: no language model took part") and "2 trials in sim" in done.out
    assert run("experiment", "report", "sim", cwd=tmp_path).out.startswith("SIMULATED: in 240 of 240 runs")
    assert run("experiment", "check", "sim", "--json", cwd=tmp_path).json["ok"]
    assert "leave out --into and --jobs" in run(*command, "--jobs", "2", cwd=tmp_path, code=2).err


def test_a_condition_is_lived_and_its_results_are_written(tmp_path: Path) -> None:
    done = run("experiment", "simulate", "poisoned-bank", *ONE, "--into", "one.json", cwd=tmp_path)
    assert done.out.startswith("SIMULATED: no language model took part")
    assert "1 repetition of 1 condition" in done.out
    assert '"mark":"SIMULATED' in (tmp_path / "one.json").read_text()
    again = run("experiment", "simulate", "poisoned-bank", *ONE, "--into", "one.json", cwd=tmp_path, code=2)
    assert "one.json exists" in again.err


def test_a_place_that_does_not_exist_is_refused_before_the_study(tmp_path: Path) -> None:
    """The whole study takes minutes, and nothing of it would be left."""
    command = ("experiment", "simulate", "poisoned-bank", *ONE, "--into", "missing/one.json")
    assert "missing is not a directory, so one.json can't be written there" in fails(*command, cwd=tmp_path)


def test_a_factor_or_value_that_no_condition_has_is_refused(tmp_path: Path) -> None:
    for wanted, said in (
        ("bank=heap", "the factors are: bank"),
        ("bank", "write FACTOR=VALUE"),
        ("checks=x", "no condi"),
    ):
        refused = run("experiment", "simulate", "poisoned-bank", "--where", wanted, cwd=tmp_path, code=2)
        assert said in refused.err
