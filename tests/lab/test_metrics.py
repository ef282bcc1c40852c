"""Metrics of rollouts: what is shown is recounted from the events of the logs, without rows and without the fold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.lab.experiment_definition import Experiment, parse_experiment
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


@pytest.fixture(scope="module")
def scaling() -> Experiment:
    return parse_experiment(SCALING.encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, scaling: Experiment) -> Path:
    """The folder of an experiment whose conditions have one, two and three rollouts, with its report."""
    place = written(tmp_path_factory.mktemp("scaling") / "scaling", scaling)
    write_report(read_experiment(place), place)
    return place


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
