"""Relatives of a bank, ancestors and forks: notes of where they are, one file each in this user's cache.

A bank does not say where its forks are: these notes do, for the forks that this user made and as long as they stay in
their places. A note is only a hint, so each is checked against the log at its place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from rbank_es import limits
from rbank_es.errors import LimitExceeded, RBankError
from rbank_es.log.ancestry import shared_position
from rbank_es.log.file.segments import ancestors_of, identity_of
from rbank_es.log.protocol import Ancestor, Relative
from rbank_es.system.files import cache_folder, read_regular, write_replacing

_LINEAGES_SWEPT = 50
"""Lineages whose noted places are checked at each fork, so that notes of banks that are gone don't pile up."""

_LINEAGES = "lineages"


class Placed(Protocol):
    """A log that is in a directory."""

    directory: Path

    @property
    def bank_id(self) -> str:
        """The bank's id."""
        ...

    def ancestors(self) -> tuple[Ancestor, ...]:
        """Return the banks that the bank was forked from."""
        ...

    def position(self) -> int:
        """Return the position of the last event."""
        ...


def note_place(lineage: str, directory: Path) -> None:
    """Note where a bank of a lineage is. Where the cache can't be written, nothing is noted."""
    place = os.fsencode(os.path.realpath(directory))
    with suppress(OSError):
        if (lineages := cache_folder(_LINEAGES)) is not None:
            sweep_lineages(lineages, os.getpid())
    # Twice, because another process that sweeps may remove the folder as long as nothing is in it.
    for _ in range(2):
        with suppress(OSError):
            if (folder := cache_folder(_LINEAGES, _digest(lineage.encode()))) is not None:
                write_replacing(folder / _digest(place), [place])
            return


def known_relatives(lineage: str, log: Placed) -> tuple[Relative, ...]:
    """Return the ancestors of a bank, with their places if known, and the other banks of its lineage that are noted."""
    own, position = log.ancestors(), log.position()
    here = os.path.realpath(log.directory)
    found: dict[tuple[str, str], Relative] = {}
    for place in _noted_places(lineage):
        if str(place) == here:
            continue
        # A bank that was removed, damaged or closed to this user since it was noted is no known relative.
        with suppress(RBankError, OSError):
            of, bank = identity_of(place)
            if of == lineage:
                # The other's end does not matter: it only ever grows beyond what both share.
                shared = shared_position(own, log.bank_id, position, ancestors_of(place), bank, sys.maxsize)
                found[bank, str(place)] = Relative(bank, str(place), shared)
    placed = {bank for bank, _ in found}
    elsewhere = [Relative(each.bank, "", each.upto) for each in own if each.bank not in placed]
    return (*elsewhere, *(found[key] for key in sorted(found)))


def _noted_places(lineage: str) -> Iterator[Path]:
    folder = cache_folder(_LINEAGES, _digest(lineage.encode()))
    yield from _places_in(folder) if folder is not None else ()


def _places_in(folder: Path) -> Iterator[Path]:
    """Yield the places that a lineage's folder notes; remove the notes of banks that were removed or moved."""
    for note in sorted(folder.iterdir())[: limits.RELATED_PLACES]:
        with suppress(OSError, LimitExceeded):
            place = Path(os.fsdecode(read_regular(note, limits.CACHE_PLACE_BYTES)))
            # Where the folder above is missing, too, a disk may not be mounted.
            if place.parent.is_dir() and not os.path.lexists(place):
                note.unlink()
            else:
                yield place


@cache
def sweep_lineages(lineages: Path, _process: int) -> None:
    """Remove the notes of banks that are gone, in some lineages; once in a process."""
    import random

    folders = sorted(lineages.iterdir())
    for folder in random.sample(folders, min(len(folders), _LINEAGES_SWEPT)):
        for _ in _places_in(folder):
            pass
        with suppress(OSError):  # other banks of the lineage are still there
            folder.rmdir()


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]
