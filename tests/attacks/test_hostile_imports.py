"""A hostile file is refused with one message, before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.cli import main
from tests.attacks.hostile_text import steering

BROKEN = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "not-utf8": b'{"event_type": "run_start", "timestamp": "2026-01-01", "data": {"task": "\xff"}}',
    "no-time": b'{"event_type": "run_start", "timestamp": "never", "data": {"task": "x"}}',
    "year-zero": b'{"event_type": "run_start", "timestamp": "0000-01-01T00:00:00", "data": {"task": "x"}}',
    "far-zone": b'{"event_type": "run_start", "timestamp": "0001-01-01T00:00:00+23:59", "data": {"task": "x"}}',
    "huge-number": b'{"event_type": "run_start", "timestamp": "2026-01-01", "data": {"task": "x", "max_iters": 1e999}}',
    "negative": b'{"event_type": "run_start", "timestamp": "2026-01-01", "data": {"task": "x", "max_iters": -1}}',
    "two-keys": b'{"event_type": "run_start", "timestamp": "2026-01-01", "data": {"task": "x", "task": "y"}}',
    "empty": b"",
    "nul": b"\x00" * 1000,
    "segment": b'{"segment_started": 1}',
    "surrogate": b'[{"title": "\\ud800", "content": "x"}]',
    "no-title": b'[{"content": "x"}]',
    "list-of-lists": b"[[[]]]",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_hostile_file_is_refused_and_leaves_nothing(
    data: bytes, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """With one message; a bank that --create would make isn't there, one that is there is unchanged."""
    (tmp_path / "good.json").write_text(json.dumps([{"title": "t", "content": "c"}]))
    (tmp_path / "bad.jsonl").write_bytes(data)
    Bank.create(tmp_path / "there").log.close()
    for bank, options in (("new", ["--create"]), ("there", [])):
        code = main(
            ["import", str(tmp_path / bank), str(tmp_path / "good.json"), str(tmp_path / "bad.jsonl"), *options]
        )
        shown = capsysbinary.readouterr().err.decode()
        # The number of bad files, the one, and the way on: what it holds makes no line of its own.
        assert code == 2 and shown.count("\n") == 3 and "bad.jsonl" in shown and not steering(shown)
    assert not (tmp_path / "new").exists()
    with Bank.open(tmp_path / "there") as opened:
        assert opened.position == 2
