"""Working directories with a bank, for tests of commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.kilns import kilns_bank
from tests.cli_runner import SAMPLE, run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a copy of."""
    folder = tmp_path_factory.mktemp("place")
    kilns_bank(folder / "logs" / "notes")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A working directory with a bank `notes`: one run that used an item; or a copy of what a module has made."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a copy of the sample bank, whose read models are up to date."""
    folder = tmp_path_factory.mktemp("sample")
    shutil.copytree(SAMPLE, folder / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    run("project", "sample", cwd=folder)
    return folder
