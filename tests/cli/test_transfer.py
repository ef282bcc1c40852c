"""`import`, `export`, `schema`, `dashboard` and `demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.kilns import ITEM, vouch
from tests.cli_runner import SAMPLE, digest_of, fails, run


@pytest.mark.slow
def test_items_go_out_and_come_back(place: Path) -> None:
    """Exported items imported into a new bank are the same items; importing again adds nothing."""
    (place / "more.json").write_text(
        json.dumps(
            [{"id": "glaze", "title": "Glaze last", "desc": "", "content": "Dip.", "src": "success", "tags": []}]
        )
    )
    report = run("import", "notes", "more.json", "--json", cwd=place).json
    assert report["files"][0]["items_added"] == 1
    assert run("import", "notes", "more.json", "--json", cwd=place).json["appended"] == 0
    run("export", "notes", "--format", "items", "-o", "items.json", cwd=place)
    assert "items.json" in run("import", "copy", "items.json", "--create", cwd=place).out
    assert "was there already" in run("import", "copy", "items.json", cwd=place).out
    assert run("export", "copy", "--format", "items", cwd=place).json == json.loads((place / "items.json").read_text())
    assert {item["title"] for item in run("export", "notes@9", "--format", "items", cwd=place).json} == {ITEM["title"]}


@pytest.mark.slow
def test_events_go_out_and_come_back_with_the_same_digests(sample: Path) -> None:
    """A bank made from exported events has the digests of the original."""
    run("export", "sample", "--format", "events", "-o", "events.jsonl", cwd=sample)
    run("import", "again", "events.jsonl", "--create", cwd=sample)
    digests = [run("replay", bank, "--json", cwd=sample).json["digests"] for bank in ("sample", "again")]
    assert digests[0] == digests[1]


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


@pytest.mark.slow
def test_demo_keeps_the_sample_where_nothing_is_and_leaves_its_own_as_it_was(tmp_path: Path) -> None:
    before = digest_of(SAMPLE)
    facts = run("demo", "--sample", "./kept", "--json", "-o", "page.html", cwd=tmp_path).json
    assert facts["live"] is False and (tmp_path / "page.html").exists() and digest_of(SAMPLE) == before
    again = fails("demo", "--sample", "./kept", "--json", "-o", "page.html", cwd=tmp_path)
    assert "kept" in again and "defect" not in again
