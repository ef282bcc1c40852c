"""Transcripts: ten thousand lines of a coding agent's sessions imported, beside the decoding of their JSON alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.exchange import import_paths

LINES = 10_000
_TEXT = "def half_up(value):\n    return floor(value + 0.5)  # not banker's rounding\n" * 8


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row for a first import, and one for the import of the same file again."""
    path = place / "session.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in session(LINES)))
    numbers = count()
    known = place / "known"
    with Bank.create(known) as bank:
        assert import_paths(bank, [path]).files[0].runs == LINES // 10
    contestants = {
        "first": timed(partial(_import, place, numbers, path)),
        "again": timed(partial(_again, known, path)),
        "floor": timed(partial(_decode, path)),
    }
    samples = interleave(contestants, sizes.harness_rounds)
    took = {name: duration(samples.median(name)) for name in contestants}
    floor = f"json.loads of every line {took['floor']}"
    for name, what in (("first", "imported into a new bank"), ("again", "imported again, which adds nothing")):
        yield Row(
            "transcripts",
            f"{LINES:,} lines of a Claude Code session, {path.stat().st_size / 1e6:.0f} MB, {what}",
            took[name],
            floor=floor,
            goal=Goal("≤", 2, "s"),
            value=samples.median(name),
        )


def session(lines: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of turns of ten lines: a prompt, four calls with their results, an answer."""
    made = count()

    def line(kind: str, message: dict[str, Any]) -> dict[str, Any]:
        number = next(made)
        time = f"2026-05-{1 + number // 1440 % 28:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00.000Z"
        around = {"cwd": "/srv/shop", "sessionId": "s", "version": "2.1.332", "gitBranch": "main", "isSidechain": False}
        return {"type": kind, "uuid": str(number), "timestamp": time, **around, "message": message}

    usage = {"input_tokens": 4, "cache_read_input_tokens": 2100, "output_tokens": 60}
    for turn in range(lines // 10):
        yield line("user", {"role": "user", "content": f"Mend the rounding of part {turn}, and run the tests."})
        for call in range(4):
            id = f"{turn}_{call}"
            given = {"command": "pytest -q"} if call == 3 else {"file_path": f"/srv/{call}.py", "new_string": _TEXT}
            block = {"type": "tool_use", "id": f"toolu_{id}", "name": "Bash" if call == 3 else "Edit", "input": given}
            told = {"id": f"msg_{id}", "role": "assistant", "model": "m", "content": [block], "usage": usage}
            yield line("assistant", told | {"stop_reason": "tool_use"})
            result = {"type": "tool_result", "tool_use_id": f"toolu_{id}", "content": f"{_TEXT}\n2 passed in 0.10s"}
            yield line("user", {"role": "user", "content": [result]})
        answer = {
            "id": f"msg_{turn}",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Done."}],
        }
        yield line("assistant", answer | {"stop_reason": "end_turn", "usage": usage})


def _import(place: Path, numbers: Iterator[int], path: Path) -> None:
    folder = place / str(next(numbers))
    with Bank.create(folder) as bank:
        import_paths(bank, [path])
    shutil.rmtree(folder)


def _again(known: Path, path: Path) -> None:
    with Bank.open(known) as bank:
        assert import_paths(bank, [path]).appended == 0


def _decode(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
