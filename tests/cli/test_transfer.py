"""`import`, `export`, `schema`, `dashboard` and `demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.events.codec import TYPES
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


@pytest.mark.slow
def test_export_writes_files_folders_and_standard_output(sample: Path) -> None:
    """Trajectories are a folder of files; every other form is one file, or standard output."""
    report = run("export", "sample", "--format", "trajectories", "-o", "runs", "--json", cwd=sample).json
    assert len(report["files"]) == 31 == len(list((sample / "runs").glob("*.jsonl")))
    assert "31 runs" in fails("export", "sample", "--format", "trajectories", cwd=sample)
    assert run("export", "sample", "--format", "prov", cwd=sample).out.startswith("@prefix")
    assert run("export", "sample", "--format", "reasoningbank", cwd=sample).lines[0]["memory_items"] is not None
    assert "wrote runs/sample.ttl" in run("export", "sample", "--format", "prov", "-o", "runs/", cwd=sample).out
    assert "is not one of" in fails("export", "sample", "--format", "csv", cwd=sample)
    assert "--json reports" in fails("export", "sample", "--format", "items", "--json", cwd=sample)
    assert "own directory" in fails("export", "sample", "--format", "items", "-o", "logs/sample/x", cwd=sample)
    assert "not a directory" in fails("export", "sample", "--format", "items", "-o", "none/x", cwd=sample)


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
def test_import_refuses_broken_files_and_makes_no_bank_for_them(tmp_path: Path) -> None:
    """A file of no known form, or broken, is named with its line; nothing of the others is imported."""
    (tmp_path / "good.json").write_text('[{"id":"a","title":"A","desc":"","content":"x","src":"seed","tags":[]}]')
    (tmp_path / "bad.json").write_text('{"what": "is this"}')
    assert "bad.json" in fails("import", "new", "good.json", "bad.json", "--create", cwd=tmp_path)
    assert "none.json" in fails("import", "new", "none.json", "--create", cwd=tmp_path)
    assert not (tmp_path / "logs").exists()
    assert "no bank at" in fails("import", "new", "good.json", cwd=tmp_path)
    assert "Missing argument 'PATH...'" in fails("import", "new", cwd=tmp_path)


def test_schema_is_json_schema(tmp_path: Path) -> None:
    """Of one type, or of all; an unknown type is answered with the nearest."""
    one = run("schema", "run_started", cwd=tmp_path).json
    assert "run" in one["$defs"]["RunStarted"]["required"]
    assert len(run("schema", cwd=tmp_path).json["anyOf"]) == len(TYPES)
    assert "did you mean 'run_started'?" in fails("schema", "run_start", cwd=tmp_path)


@pytest.mark.slow
def test_dashboard_writes_one_page(place: Path) -> None:
    """The page is a whole HTML file; where it can't be written, the message says so."""
    written = run("dashboard", "notes@HEAD~1", "-o", "page.html", "--json", cwd=place).json
    page = (place / "page.html").read_text()
    assert written["size_bytes"] == len(page.encode()) and page.startswith("<!")
    assert "wrote" in run("dashboard", "notes", "-o", "page.html", cwd=place).out
    assert "not a directory" in fails("dashboard", "notes", "-o", "none/page.html", cwd=place)
    assert "Missing option '-o'" in fails("dashboard", "notes", cwd=place)


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
