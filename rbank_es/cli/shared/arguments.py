"""Opening what a command line names: BANK, and BANK@POINT."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.locator import split_point
from rbank_es.data import LIGHTS, lights
from rbank_es.errors import BadInput, LimitExceeded

if TYPE_CHECKING:
    from rbank_es.ontology.loader import Ontology


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


def open_or_create(place: str) -> tuple[Bank, bool]:
    """The bank that is there, or a new one; and whether it is new."""
    from rbank_es.errors import BankExists, BankNotFound

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
    if path.resolve().is_relative_to(bank.path.resolve()):
        raise BadInput(f"{path} is inside the bank's own directory; choose a place outside of it")
    return path


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


ONTOLOGY_HELP = f"A file or directory of RDF; '{LIGHTS}' is the small ontology that comes with rbank-es."


def is_shipped(path: str) -> bool:
    """Whether the bare word `lights` is meant: the shipped ontology, unless a file or directory is called so."""
    return path == LIGHTS and not Path(path).exists()


def places(paths: Sequence[str]) -> list[Path]:
    """The paths that are meant, the shipped ontology's own where it is."""
    return [lights().ontology if is_shipped(path) else Path(path) for path in paths]


def loaded(paths: Sequence[str], id: str | None = None) -> Ontology:
    """The ontology in these files and directories, as one dataset. Raises as `load_ontology` does."""
    from rbank_es.ontology.loader import load_ontology

    return load_ontology(*places(paths), id=id)


def refuse_mixtures(paths: Sequence[str], endpoint: str | None, void: str | None) -> None:
    """Raise `BadInput` where files and an endpoint are named together, or a VoID file describes no endpoint."""
    if paths and endpoint is not None:
        raise BadInput("give --ont or --endpoint, not both: a run has one source")
    if void is not None and endpoint is None:
        raise BadInput("--void describes an endpoint: name it with --endpoint; files are given with --ont")
