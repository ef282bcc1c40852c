"""Heads that are noted outside of a bank, one a line, to prove later that nothing up to there was changed or dropped.

    BANK-ID POSITION:DIGEST NOTED-AT NAME

The first two words are what counts; the time of noting and the bank's name are for people. A line may also be a head
alone, as `verify` prints it. Lines that begin with `#`, and empty ones, say nothing. One file may serve many banks.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rbank_es.bank.bank import Bank
from rbank_es.errors import BadInput, CannotWrite
from rbank_es.events.hidden_characters import visible
from rbank_es.log import Ancestor, Head
from rbank_es.log.disk import System
from rbank_es.log.groups import system_clock, utc_text


class NotedHeads(msgspec.Struct, frozen=True):
    """The heads of one bank in a file, those of its ancestors up to the fork included; and the lines about others."""

    heads: tuple[Head, ...]
    others: int


def head_line(bank: Bank, point: str | int | None = None) -> str:
    """Return the line to note for the head at a point, without newline."""
    return f"{bank.id} {bank.head(point)} {utc_text(system_clock())} {visible(bank.name)}"


def parse_heads(text: str, bank_id: str, ancestors: Iterable[Ancestor] = ()) -> NotedHeads:
    """Return the heads of a bank among noted lines. Raises `BadInput`, with the line's number, for any other line.

    A head of one of its `ancestors` is one of the bank's, too, up to where the bank was forked.
    """
    shared = {each.bank: each.upto for each in ancestors} | {bank_id: sys.maxsize}
    heads, others = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        of, *rest = [bank_id, *words] if ":" in words[0] else words
        try:
            head = Head.parse(rest[0] if rest else "")
        except BadInput as error:
            raise BadInput(f"line {number}: {error}") from None
        if head.seq <= shared.get(of, -1):
            heads.append(head)
        else:
            others += 1
    return NotedHeads(tuple(heads), others)


def note_head(bank: Bank, path: Path) -> None:
    """Append the line of a bank's head to a file, durably. Raises `CannotWrite`."""
    append_durably(path, head_line(bank).encode() + b"\n")


def append_durably(path: Path, data: bytes) -> None:
    """Append bytes to a regular file, which is made if there is none, in one write. Raises `CannotWrite`."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise OSError(errno.EINVAL, "it is a pipe or a device, where a regular file must be")
            # One write, because loops over several banks may share the file.
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
            if not before.st_size:  # a new name survives a power cut when its directory was synced
                System().sync_directory(path.resolve().parent)
        finally:
            os.close(fd)
    except OSError as error:
        raise CannotWrite(str(path), error) from error
