"""Writers that run in processes of their own. Few imports, because many of them are started."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import PositionConflict
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import note


def write_until_killed(place: Path, side: Path, writer: int, size: int, segment_bytes: int) -> None:
    """Append groups for ever; note each acknowledged one, in one write, in a file."""
    limits.SEGMENT_BYTES = segment_bytes
    log, acknowledged = FileLog.open(place), appending_to(side)
    for number in range(10**9):
        name = f"{writer}.{os.getpid()}.{number}"
        texts = [f"{name} {index} {'x' * (3_000 if index % 4 == 0 else 30)}" for index in range(size)]
        appended = log.append([note(text, run=f"{name}/{size}") for text in texts])
        os.write(acknowledged, f"{name}/{size} {appended.first} {appended.last}\n".encode())


def appending_to(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def append_expecting(place: Path, rounds: int, start: float, out: Path) -> None:
    log, mine = FileLog.open(place), appending_to(out)
    time.sleep(max(0.0, start - time.monotonic()))
    for _ in range(rounds):
        position = log.position()
        try:
            won = log.append([note("mine")], expected=position)
        except PositionConflict as error:
            assert error.expected == position < error.actual
        else:
            assert won.first == position + 1
            os.write(mine, b"%d\n" % won.first)
