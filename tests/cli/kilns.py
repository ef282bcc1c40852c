"""A small bank for tests of commands: its events, and what they read of its files."""

from __future__ import annotations

from pathlib import Path

from tests.cli_runner import run

RUN = {"type": "run_started", "run": "r1", "task": "Which kilns are there?", "scripted": True}
NOTE = '{"type":"note_logged","note":{"n":1}}'
ITEM = {"title": "List the kilns first", "content": "Ask for the classes, then for their instances."}
EXTRACTION = "00000000-0000-8000-8000-000000000001"


def log_bytes(cwd: Path, bank: str = "notes") -> bytes:
    return b"".join(path.read_bytes() for path in sorted((cwd / "logs" / bank).glob("*.jsonl")))


def vouch(place: Path) -> None:
    """Append until a group says that all of `place` is on disk: a copy's first writer can't know that yet."""
    for _ in range(2):
        run("append", "notes", cwd=place, stdin=NOTE)
