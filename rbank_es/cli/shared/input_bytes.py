"""Files and standard input that a command line names, read up to a limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from rbank_es import limits
from rbank_es.errors import BadInput, LimitExceeded


def utf8(data: bytes, name: str) -> str:
    """The text of bytes read from `name`. Raises `BadInput` where they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: not UTF-8 text (byte {error.start:,})") from None


def read_bounded(path: str) -> bytes:
    """All of a file, or with `-` of standard input. Raises `LimitExceeded`, or OSError if it can't be read."""
    if path != "-":
        with Path(path).open("rb") as stream:
            return _read(stream, path)
    if sys.stdin is None:
        raise BadInput("standard input is closed; name a file")
    return _read(sys.stdin.buffer, "standard input")


def _read(stream: BinaryIO, name: str) -> bytes:
    data = stream.read(limits.IMPORT_FILE_BYTES + 1)
    if len(data) > limits.IMPORT_FILE_BYTES:
        raise LimitExceeded(f"{name} in bytes", len(data), limits.IMPORT_FILE_BYTES, "split it")
    return data
