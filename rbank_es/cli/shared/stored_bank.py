"""Files of read models in the place of a bank: what `replay --into` and `whatif --into` write, to search, list, show.

Such a file may come from anybody. It is opened for reading only, believed to be one only if its tables are those of
this release, and nothing in it is followed: it names no other file, and none of its own code runs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.bank.locator import split_point
from rbank_es.errors import BadBankName, BadInput, BadPoint, BankNotFound, ProjectionError
from rbank_es.system.files import kind_of
from rbank_es.system.whole_number import whole_number

if TYPE_CHECKING:
    from rbank_es.projections.view import View


class StoredBank(NamedTuple):
    """The read models in a file, and the point that was asked for, if any."""

    path: Path
    point: str | None

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @contextmanager
    def view(self) -> Iterator[View]:
        """Provide a view of the position that was asked for until the context ends.

        Raises `BadPoint`; `BadInput` where the file is not as rbank-es writes such files.
        """
        from rbank_es.projections.read_models import ReadModels

        try:
            with ReadModels.open(self.path, read_only=True) as models:
                with models.live() as latest:
                    last = latest.position
                with models.as_of(self.resolve(self.point, last)) as view:
                    yield view
        # Whoever made the file chose the types and the text of each value.
        except (ProjectionError, sqlite3.Error, msgspec.MsgspecError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(
                f"{self.path} is no sound file of read models of this release: {error}. Write it again with "
                "`rbank-es replay BANK --into FILE` or `rbank-es whatif … --into FILE`"
            ) from error

    def resolve(self, point: str | None, last: int) -> int:
        """Return the position that a point names, where the file's is `last`. Raises `BadPoint`."""
        if point is None or point == "HEAD":
            return last
        is_back = point.startswith("HEAD~")
        number = whole_number(point.removeprefix("HEAD~" if is_back else "seq:"))
        if number is not None and number <= last:
            return last - number if is_back else number
        raise BadPoint(point, f"{self.path} has no events: name a position from 0 to {last:,}, or HEAD~n")


def stored_bank(text: str) -> StoredBank | None:
    """Return the file of read models that an argument BANK[@POINT] names; None where it names a bank, or nothing."""
    place, point = split_point(text)
    path = Path(place)
    if kind_of(path) != "a file":
        return None
    with suppress(BankNotFound, BadBankName):
        Bank.open(place).close()
        return None
    from rbank_es.projections.builder import holds_read_models

    return StoredBank(path, point) if holds_read_models(path) else None
