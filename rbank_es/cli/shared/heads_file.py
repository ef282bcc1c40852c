"""The file in which a loop notes the heads of its bank, a line after each task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rbank_es.cli.shared.arguments import outside, writable
from rbank_es.cli.shared.output import warn
from rbank_es.errors import CannotWrite

if TYPE_CHECKING:
    from rbank_es.bank import Bank


def heads_file(bank: Bank, path: Path) -> Path:
    """Return the file to note heads in, made if it is missing. Raises `BadInput`."""
    from rbank_es.bank.noted_heads import append_durably

    append_durably(outside(bank, writable(path)), b"")
    return path


def note_head(bank: Bank, path: Path) -> None:
    """Note the bank's head; warn where that fails, because the loop's own record is in the bank."""
    from rbank_es.bank import noted_heads

    try:
        noted_heads.note_head(bank, path)
    except CannotWrite as error:
        # The task is recorded all the same, so only warn; the head is printed to be noted by hand.
        warn(f"the head {bank.head()} was not noted: {error}")
