"""Metrics of rollouts: what is shown is recounted from the events of the logs, without rows and without the fold."""

from __future__ import annotations

import json
from collections import defaultdict
from math import comb
from pathlib import Path
from statistics import mean

import pytest

from rbank_es.bank import Bank
from rbank_es.events import LmCalled, RunJudged, RunStarted
from rbank_es.lab.definition import Experiment, parse_experiment
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.metrics import METRICS
from rbank_es.lab.report import CONDITIONS, write_report
from tests.lab.folders import written

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
