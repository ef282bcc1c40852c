"""`import`, `export`, `schema`, `dashboard` and `demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kilns import vouch
from tests.cli_runner import fails, run


def test_an_export_that_fails_leaves_the_file_that_was_there(place: Path) -> None:
    """A file is replaced whole or not at all."""
    (place / "out.jsonl").write_text("precious")
    vouch(place)
    segment = next((place / "logs" / "notes").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"three kilns", b"seven kilns"))
    fails("export", "notes", "--format", "events", "-o", "out.jsonl", cwd=place, code=3)
    assert (place / "out.jsonl").read_text() == "precious"
    assert [path.name for path in place.iterdir() if "part" in path.name] == []


@pytest.mark.slow
def test_demo_without_a_sandbox_says_why_and_what_to_do(tmp_path: Path) -> None:
    """An empty cache is reason enough; nothing is left behind."""
    cold = {"RBANK_CACHE": str(tmp_path / "cache")}
    refused = run("demo", "--into", "./lesson", cwd=tmp_path, env=cold, code=2)
    assert "doctor --warm" in refused.err or "pip install" in refused.err
    assert refused.out == "" and not (tmp_path / "lesson").exists()
