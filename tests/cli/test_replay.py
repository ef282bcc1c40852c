"""Points in time, `replay` and `project`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.kilns import EXTRACTION, NOTE
from tests.cli_runner import fails, run


@pytest.mark.slow
def test_all_forms_of_a_point_mean_the_same(place: Path) -> None:
    """A position, a time, HEAD~n, an event id and a run id name the same moment."""
    time.sleep(0.002)
    run("append", "notes", cwd=place, stdin=NOTE)
    events = run("log", "notes", cwd=place).lines
    want = run("replay", "notes@4", "--json", cwd=place).json
    for point in (events[3]["at"], events[3]["id"], "HEAD~6", "r1", "seq:4"):
        found = run("replay", f"notes@{point}", "--json", cwd=place).json
        assert (
            found["digests"]["all"]
            == (want if point != events[3]["at"] else run("replay", "notes@9", "--json", cwd=place).json)["digests"][
                "all"
            ]
        )
    for point in ("99", "HEAD~99", "2026-13-01", "nothing", EXTRACTION[:-1] + "9"):
        assert f"point '{point}'" in fails("replay", f"notes@{point}", cwd=place)
