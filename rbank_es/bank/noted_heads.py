"""Heads that are noted outside of a bank, one a line, to prove later that nothing up to there was changed or dropped.

    BANK-ID POSITION:DIGEST NOTED-AT NAME

The first two words are what counts; the time of noting and the bank's name are for people. A line may also be a head
alone, as `verify` prints it. Lines that begin with `#`, and empty ones, say nothing. One file may serve many banks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from rbank_es.bank.bank import Bank
from rbank_es.errors import BadInput, CannotWrite
from rbank_es.log import Head, system_clock, utc_text

_BANK = re.compile(r"[0-9a-f]{32}", re.ASCII)


class NotedHeads(msgspec.Struct, frozen=True):
    """The heads of one bank in a file, and the number of lines about other banks."""

    heads: tuple[Head, ...]
    others: int


def head_line(bank: Bank, point: str | int | None = None) -> str:
    """Return the line to note for the head at a point, without newline."""
    return f"{bank.id} {bank.head(point)} {utc_text(system_clock())} {bank.name}"


def parse_heads(text: str, bank_id: str) -> NotedHeads:
    """Return the heads of a bank among noted lines. Raises `BadInput`, with the line's number, for any other line."""
    heads, others = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        of, *rest = words if _BANK.fullmatch(words[0]) else [bank_id, *words]
        try:
            head = Head.parse(rest[0] if rest else "")
        except BadInput as error:
            raise BadInput(f"line {number}: {error}") from None
        if of == bank_id:
            heads.append(head)
        else:
            others += 1
    return NotedHeads(tuple(heads), others)


def note_head(bank: Bank, path: Path) -> None:
    """Append the line of a bank's head to a file, durably; make the file if there is none. Raises `CannotWrite`."""
    data = head_line(bank).encode() + b"\n"
    try:
        fd = open_for_noting(path)
        try:
            # In one write at the file's end: loops over several banks may share the file.
            if os.write(fd, data) != len(data):
                raise OSError("the disk is full: a part of the line was written")
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise CannotWrite(str(path), error) from error
