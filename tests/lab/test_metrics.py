"""Metrics of rollouts: what is shown is recounted from the events of the logs, without rows and without the fold."""

from __future__ import annotations

import json
from collections import defaultdict
from math import comb
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.events import LmCalled, MemoriesRead, RunJudged, RunStarted
from rbank_es.lab.definition import Experiment, parse_experiment
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.metrics import METRICS, PASS_K
from rbank_es.lab.plan import trials
from rbank_es.lab.report import CONDITIONS, write_report
from rbank_es.lab.run_rows import rows_of
from rbank_es.lab.trial_log import TrialLog
from rbank_es.lab.trial_place import TrialPlace
from tests.lab.folders import suite_of, written

SCALING = """\
name = "scaling"
title = "One run a task, two, three"
orders = 2
[shared]
layers = ["L0"]
[models.agent]
model = "script:none"
[[condition]]
name = "one"
[[condition]]
name = "two"
rollouts = 2
[[condition]]
name = "three"
rollouts = 3
"""
ROLLOUTS = {"one": 1, "two": 2, "three": 3}


@pytest.fixture(scope="module")
def scaling() -> Experiment:
    return parse_experiment(SCALING.encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, scaling: Experiment) -> Path:
    """The folder of an experiment whose conditions have one, two and three rollouts, with its report."""
    place = written(tmp_path_factory.mktemp("scaling") / "scaling", scaling)
    write_report(read_experiment(place), place)
    return place


class Counted:
    """What the events of one trial say, by task and by run; nothing of the package's own counting is used."""

    def __init__(self, place: Path) -> None:
        self.calls: defaultdict[str, int] = defaultdict(int)
        self.tokens: defaultdict[str, int] = defaultdict(int)
        self.verdicts: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.task: dict[str, str] = {}
        with Bank.open(place) as bank:
            for event in bank.events():
                if isinstance(event, RunStarted):
                    self.task[event.run] = str(event.task_id)
                elif isinstance(event, LmCalled):
                    task = self.task[str(event.run)]
                    self.calls[task] += 1
                    self.tokens[task] += (event.tokens_in or 0) + (event.tokens_out or 0)
                elif isinstance(event, RunJudged):
                    self.verdicts[event.run][event.purpose] = event.verdict

    def share(self, scored: str, judged: str) -> float | None:
        """Of the runs with this score, the share that the judge gave this verdict."""
        own = [each["learning"] == judged for each in self.verdicts.values() if each["scoring"] == scored]
        return mean(own) if own else None

    def pass_at(self, k: int) -> float | None:
        """The share of all choices of k rollouts of a task that hold a right one, over tasks with that many."""
        right: defaultdict[str, list[bool]] = defaultdict(list)
        for run, each in self.verdicts.items():
            right[self.task[run]].append(each["scoring"] == "success")
        shares = [1 - comb(own.count(False), k) / comb(len(own), k) for own in right.values() if len(own) >= k]
        return mean(shares) if shares else None


@pytest.mark.parametrize("name", ROLLOUTS)
def test_costs_are_of_all_rollouts_and_judges_are_measured_on_all_that_they_judged(
    folder: Path, scaling: Experiment, name: str
) -> None:
    [found] = [each for each in json.loads((folder / CONDITIONS).read_bytes())["conditions"] if each["name"] == name]
    banks = [TrialPlace(folder, trial).bank for trial in trials(scaling) if trial.condition == name]
    counted = [Counted(bank) for bank in banks]
    expected: dict[str, list[float | None]] = {
        "lm_calls": [mean(each.calls.values()) for each in counted],
        "tokens": [mean(each.tokens.values()) for each in counted],
        "false_success": [each.share("failure", "success") for each in counted],
        "false_failure": [each.share("success", "failure") for each in counted],
        "judge_accuracy": [
            mean(verdict["learning"] == verdict["scoring"] for verdict in each.verdicts.values()) for each in counted
        ],
        "pass_at_1": [each.pass_at(1) for each in counted],
        "pass_at_k": [each.pass_at(PASS_K) for each in counted],
    }
    for metric, values in expected.items():
        known = [value for value in values if value is not None]
        assert [*found["metrics"][metric]["units"].values()] == pytest.approx(known), metric
    assert found["runs"] == ROLLOUTS[name] * found["counted"]
    assert found["metrics"]["lm_calls"]["units"]["0"] == ROLLOUTS[name]  # one call a run


def test_pass_at_k_of_fewer_rollouts_is_not_known(folder: Path) -> None:
    report = json.loads((folder / CONDITIONS).read_bytes())
    found = {each["name"]: each["metrics"]["pass_at_k"] for each in report["conditions"]}
    assert found["one"]["units"] == found["two"]["units"] == {} and found["three"]["units"]
    assert found["one"]["estimate"] is None


def test_each_number_says_over_which_runs_it_is(folder: Path) -> None:
    report = json.loads((folder / CONDITIONS).read_bytes())
    for each in report["conditions"]:
        assert {name: metric["over"] for name, metric in each["metrics"].items()} == {
            name: metric.over for name, metric in METRICS.items()
        }
    page = (folder / "report.html").read_text()
    assert "a task, all its rollouts" in page and "all judged runs" in page


def test_items_given_are_the_uses_of_the_bank_and_a_quotation_can_still_hold_the_answer(
    folder: Path, scaling: Experiment
) -> None:
    """A run that reads one item in full and is quoted another: the bank, its read models and the row name one use."""
    place = TrialPlace(folder, trials(scaling)[0]).bank
    with Bank.open(place) as bank, bank.copy(bank.position) as copy:
        run = next(iter(TrialLog.of(copy).started))
        read: dict[str, Any] = {"run": run, "chars": 9}
        copy.append([MemoriesRead(ids=("full",), how="get", **read), MemoriesRead(ids=("part",), how="quote", **read)])
        log = TrialLog.of(copy)
        [row] = [each for each in rows_of(log, suite_of()) if each.run == run]
        with copy.as_of() as view:
            uses = tuple(each["item"] for each in view.rows("uses") if each["run"] == run)
        assert row.given == uses == tuple(copy.state().uses) == ("full",)
        assert [*log.runs[run].shown] == ["full", "part"]
