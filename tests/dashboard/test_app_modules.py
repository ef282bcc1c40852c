"""The app's pure parts, tested by node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.dashboard.node import MODULES, node


def test_the_pure_parts_of_the_app() -> None:
    """Addresses, time, lists, words, texts: the cases are in `app.test.mjs`."""
    command = [node(), "--test", "--test-reporter=tap", str(Path(__file__).parent / "app.test.mjs")]
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"MODULES": str(MODULES)})
    assert done.returncode == 0, done.stdout.decode()
    assert b"# fail 0" in done.stdout
