"""Start-up: the whole process of `rbank-es append` of one event."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.corpus import groups
from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.peers import Table
from benchmarks.sizes import Sizes
from rbank_es import Bank

HOME = Path(__file__).parent.parent

_TABLE = """
import json, sqlite3, sys, uuid
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA synchronous = FULL")
body = json.dumps(json.load(open(sys.argv[2])))
connection.execute("INSERT INTO events (id, type, body) VALUES (?, ?, ?)", (str(uuid.uuid4()), "tool_called", body))
"""
_LIBRARY = """
import json, sys
from pathlib import Path
from benchmarks.peers import LibraryApplication
application = LibraryApplication(Path(sys.argv[1]))
application.append([json.load(open(sys.argv[2]))])
"""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield one row: the command beside the bare interpreter."""
    Bank.create(place / "bank").close()
    Table(place / "table.sqlite").close()
    event = place / "event.json"
    given = next(e for group in groups(1) for e in group if e.__struct_config__.tag == "tool_called")
    event.write_bytes(msgspec.json.encode(given))
    python = [sys.executable]
    commands = {
        "ours": [*_command(), "append", str(place / "bank"), str(event)],
        "bare": [*python, "-I", "-c", "pass"],
        "table": [*python, "-I", "-c", _TABLE, str(place / "table.sqlite"), str(event)],
        "library": [*python, "-c", _LIBRARY, str(place / "library.sqlite"), str(event)],
    }
    contestants = {name: timed(partial(_run, command)) for name, command in commands.items()}
    samples = interleave(contestants, sizes.start_rounds)
    took = {name: duration(samples.median(name)) for name in commands}
    yield Row(
        "start-up",
        "rbank-es append of one event, whole process",
        took["ours"],
        f"standard library and an SQLite row {took['table']}; eventsourcing Application {took['library']}",
        f"python -I -c pass {took['bare']}",
        Goal("≤", 6, "x floor"),
        samples.ratio("ours", "bare"),
    )


def _command() -> list[str]:
    installed = Path(sys.executable).with_name("rbank-es")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "rbank_es"]


def _run(command: Sequence[str]) -> None:
    # Write byte code as an installation does, because this shell may forbid it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=HOME, env=environment)
