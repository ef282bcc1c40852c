"""Where node is, which runs the app's modules as they are."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.cli_runner import ROOT

MODULES = ROOT / "rbank_es" / "page" / "app"


def node() -> str:
    """Return the path of node; without one the test is skipped, and fails in continuous integration."""
    found = shutil.which("node")
    if found is None:
        reason = "node is not installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return found
