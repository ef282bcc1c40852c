"""Opening what a command line names: BANK, and BANK@POINT."""

from __future__ import annotations

from pathlib import Path

from rbank_es.bank import Bank
from rbank_es.bank.locator import locate, split_point
from rbank_es.errors import BadInput


def whole_bank(text: str) -> str:
    """The bank that is named without a point. Raises `BadInput` where a point is given: this command takes none."""
    bank, point = split_point(text)
    if point is not None:
        raise BadInput(f"this command works on a whole bank: leave out @{point} and write {bank}")
    return bank


def open_whole(text: str) -> Bank:
    """The bank named by BANK. Raises as `Bank.open` and `whole_bank` do."""
    return Bank.open(whole_bank(text))


def open_at(text: str) -> tuple[Bank, str | None]:
    """The bank and the point named by BANK@POINT; the point is None where none is given."""
    place, point = split_point(text)
    return Bank.open(place), point


def lasting(bank: str) -> str:
    """Return BANK. Raises `BadInput` for one that would be lost when the command that makes it ends."""
    if not locate(bank).engine.outlives_process:
        raise BadInput(f"{bank} would be lost when this command ends; name a bank that is kept, such as ./notes")
    return bank


def open_or_create(place: str, *, may_be_lost: bool = False) -> tuple[Bank, bool]:
    """Return the bank that is there, or a new one, and whether it is new."""
    from rbank_es.errors import BankExists, BankNotFound

    if not may_be_lost:
        lasting(place)
    try:
        return Bank.open(place), False
    except BankNotFound:
        pass
    try:
        return Bank.create(place), True
    except BankExists as taken:
        try:
            return Bank.open(place), False  # somebody else made it in between
        except BankNotFound:
            raise taken from None


def writable(path: Path) -> Path:
    """A path that a file can be written to: where a link leads, for what is there is replaced.

    Raises `BadInput` where its directory is missing, or it is one itself, or a device or a pipe, which would be lost.
    """
    if path.is_symlink():
        path = path.resolve()
    if path.is_dir():
        raise BadInput(f"{path} is a directory; name a file in it")
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is a device or a pipe, and would be replaced by a file; name a file")
    if not path.parent.is_dir():
        raise BadInput(f"{path.parent} is not a directory, so {path.name} can't be written there")
    return path


def outside(bank: Bank, path: Path) -> Path:
    """A path that is not among the bank's own files. Raises `BadInput`: there it would be in the way, or be swept."""
    if bank.log.owns(path):
        raise BadInput(f"{path} is inside the bank's own directory; choose a place outside of it")
    return path
