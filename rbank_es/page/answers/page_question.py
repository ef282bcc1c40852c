"""A question of a page: the bank, its view as of the position that is asked for, and the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LimitExceeded
from rbank_es.limits import page_limits

if TYPE_CHECKING:
    from rbank_es.projections.view import View


class PageQuestion:
    """One question: `view` is of the position, `given` are its parameters as text."""

    def __init__(self, bank: Bank, view: View, given: Mapping[str, str]) -> None:
        self.bank, self.view = bank, view
        self._given = given

    @classmethod
    @contextmanager
    def opened(
        cls, bank: Bank, given: Mapping[str, str], *, statement_s: float | None = None
    ) -> Iterator[PageQuestion]:
        """Open the view of the point `at`, and close it after the answer. Raises `BadPoint`, `ProjectionError`."""
        # First brings the read models up to the head: without that, each view of new events would be a copy in memory.
        bank.live().close()
        with bank.as_of(given.get("at") or None) as view:
            view.statement_s = statement_s
            yield cls(bank, view, given)

    @property
    def position(self) -> int:
        """The position that the answer is as of."""
        return self.view.position

    def text(self, name: str) -> str | None:
        """Return a parameter; None where it is missing or empty. Raises `LimitExceeded`."""
        value = self._given.get(name) or None
        if value is not None and len(value) > page_limits.PARAMETER_CHARS:
            raise LimitExceeded(f"characters of {name}", len(value), page_limits.PARAMETER_CHARS, "ask for less")
        return value

    def needed(self, name: str) -> str:
        """Return a parameter that the question can't do without. Raises `BadInput`."""
        value = self.text(name)
        if value is None:
            raise BadInput(f"the question needs the parameter {name}")
        return value

    def tasks(self, runs: list[str]) -> dict[str, str | None]:
        """Return the task of each run that began by the position."""
        from rbank_es.projections.paged_view import RowCondition

        return dict(self.view.pick("runs", ("run", "task"), [RowCondition(("run",), "among", tuple(runs))]))


def cut(text: str | None, most: int = page_limits.LIST_TEXT_CHARS) -> str | None:
    """Return the beginning of a text; None for None."""
    return None if text is None else text[:most]


def second(at: str) -> str:
    """Return a stored time cut to the second, as `2026-01-31T12:00:00Z`; empty for none."""
    return f"{at[:19]}Z" if at else ""
