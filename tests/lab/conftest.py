"""The folder of an experiment with its report, made once for all tests that look at one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.report import write_report
from tests.lab.folders import written


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder itself; tests that change it take a copy."""
    folder = written(tmp_path_factory.mktemp("experiment") / "pair")
    write_report(read_experiment(folder), folder)
    return folder


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """A copy of the folder."""
    return Path(shutil.copytree(kept, tmp_path / "pair"))
