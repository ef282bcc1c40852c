"""`init` and `append`: what a new bank holds, what is printed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.kilns import NOTE, log_bytes
from tests.cli_runner import fails
from tests.effort import one_in


@pytest.mark.parametrize(
    ("given", "said"),
    one_in(
        4,
        [
            (b"\xff\xff", "not JSON"),
            ("[" * 100_000, "nested too deeply"),
            (json.dumps({"type": "run_started", "run": "r" * 300}), "Expected `str` of length <= 256"),
            (json.dumps({"type": "note_logged", "note": "x" * (17 << 20)}), "over the limit"),
            (f"{NOTE}\n" * 10_001, "over the limit"),
        ],
    ),
)
def test_bad_events_are_refused_with_line_and_path_and_nothing_is_lost(
    given: str | bytes, said: str, place: Path
) -> None:
    """Bad input is one clear message and exit code 2; the log stays as it was, byte for byte."""
    before = log_bytes(place)
    message = fails("append", "notes", cwd=place, stdin=given)
    assert said in message and len(message) < 600
    assert log_bytes(place) == before
