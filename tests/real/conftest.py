"""Where real data are: in the folder that RBANK_REAL_DATA names. In CI they must be there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data: trajectories, memory, tasks, ontologies."""
    place = os.environ.get("RBANK_REAL_DATA")
    if not place:
        reason = "RBANK_REAL_DATA names no folder of real data"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return Path(place)


@pytest.fixture(scope="session")
def ontologies(data: Path) -> Path:
    """The folder of real ontologies."""
    return data / "ontologies"
