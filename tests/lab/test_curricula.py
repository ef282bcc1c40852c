"""Conditions with a curriculum: what came of the tasks decides their order; a trial that departs from it is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import RunStarted
from rbank_es.lab.experiment_definition import Experiment, parse_experiment
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.experiment_inputs import gather
from rbank_es.lab.experiment_plan import ordered_tasks, trials
from rbank_es.lab.experiment_results import results_of
from rbank_es.lab.report import PAGE, write_report
from rbank_es.lab.report_check import check_report
from rbank_es.lab.task_suite import Suite
from rbank_es.lab.trial_place import TrialPlace
from rbank_es.loop.closed_loop import ClosedLoop
from rbank_es.loop.curriculum import Curriculum
from rbank_es.models.model_choice import LmChoice
from tests.lab.folders import suite_of, written
from tests.lab.trials import FREE, ran, told
from tests.loop.loops import TASKS, source
from tests.sandbox.sandboxes import require_dspy

DEFINITION = """\
name = "rising"
title = "As the orders have them, and by a curriculum"
orders = 2
contrasts = [["rising", "given"]]
[shared]
executor = "scratchpad"
layers = ["L0"]
judge = "lm"
[[condition]]
name = "given"
[[condition]]
name = "rising"
curriculum = { won = 1, last = 1 }
"""


def rising() -> Experiment:
    return parse_experiment(DEFINITION.encode())


def test_a_definition_names_when_levels_rise_and_keeps_it(tmp_path: Path) -> None:
    given, by_level = rising().condition
    assert given.curriculum is None and by_level.curriculum == Curriculum(won=1, last=1)
    assert parse_experiment(rising().to_toml().encode()) == rising()
    with pytest.raises(BadInput, match="rise by verdicts"):
        parse_experiment(DEFINITION.replace('judge = "lm"', 'judge = "none"').encode())
    with pytest.raises(BadInput, match="levels rise when 3 of the last 2"):
        parse_experiment(DEFINITION.replace("won = 1, last = 1", "won = 3, last = 2").encode())


def tasks_begun(place: Path) -> list[tuple[str | None, str | None]]:
    with Bank.open(place) as bank:
        runs = [event for event in bank.events(types={"run_started"}) if isinstance(event, RunStarted)]
    return [(event.task_id, event.chosen.why if event.chosen else None) for event in runs]


@pytest.mark.slow
def test_trials_take_their_tasks_by_the_curriculum_and_go_on_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task of the higher level comes last in every order; cut off after a task, a trial ends with the same log."""
    require_dspy()
    (tmp_path / "script.toml").write_text(FREE)
    high, low = (msgspec.structs.replace(task, level=level) for task, level in zip(TASKS, (2, 1), strict=True))
    chosen = msgspec.structs.replace(rising(), models={"agent": LmChoice(model=f"script:{tmp_path / 'script.toml'}")})
    given = gather(chosen, Suite.of("heights", [high, low]), source())
    ran(given, tmp_path / "whole")
    for trial in trials(chosen):
        order = [task.id for task in ordered_tasks([high, low], chosen.seed, trial.order)]
        expected = [("again", "first"), ("height", "mastered")]
        found = tasks_begun(TrialPlace(tmp_path / "whole", trial).bank)
        assert found == (expected if trial.condition == "rising" else [(task, None) for task in order])
    left, really = [3], ClosedLoop.run

    def stopping(*args: object, **options: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return really(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ClosedLoop, "run", stopping)
    with pytest.raises(KeyboardInterrupt):
        ran(given, tmp_path / "cut")
    monkeypatch.setattr(ClosedLoop, "run", really)
    ran(given, tmp_path / "cut")
    for trial in trials(chosen):
        one, other = (told(TrialPlace(tmp_path / folder, trial).bank) for folder in ("whole", "cut"))
        assert one == other
    write_report(read_experiment(tmp_path / "cut", source()), tmp_path / "cut")
    assert check_report(tmp_path / "cut", source()).holds
    assert "By a curriculum: hard tasks come late" in (tmp_path / "cut" / PAGE).read_text()


def test_a_trial_in_another_order_than_its_outcomes_give_is_in_no_number_and_named(tmp_path: Path) -> None:
    """The hand that wrote these trials took the tasks as the orders have them."""
    experiment = msgspec.structs.replace(rising(), models={"agent": LmChoice(model="script:none")})
    folder = written(tmp_path / "rising", experiment, suite_of(6))
    results = results_of(read_experiment(folder))
    assert [each.place for each in results.incomplete] == ["banks/rising/o0-r0", "banks/rising/o1-r0"]
    assert all("where its curriculum had" in each.why and each.state == "altered" for each in results.incomplete)
