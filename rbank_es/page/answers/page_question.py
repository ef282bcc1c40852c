"""A question of a page: the bank, its view as of the position that is asked for, and the parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LimitExceeded
from rbank_es.limits import page_limits
from rbank_es.system.whole_number import whole_number

if TYPE_CHECKING:
    from rbank_es.projections.paged_view import RowCondition, RowPage
    from rbank_es.projections.view import View

NONE = "none"
"""The value of a filter that asks for rows without a value."""


class PageQuestion:
    """One question: `view` is of the position, `given` are its parameters as text, `argument` names the bank in
    commands, `head` is the position behind which nothing is told (None: the newest)."""

    def __init__(
        self,
        bank: Bank,
        view: View,
        given: Mapping[str, str],
        *,
        prompts: bool = True,
        argument: str = "",
        head: int | None = None,
    ) -> None:
        self.bank, self.view, self.prompts, self.head = bank, view, prompts, head
        self.argument = argument or bank.name
        self._given = given

    @classmethod
    @contextmanager
    def opened(
        cls,
        bank: Bank,
        given: Mapping[str, str],
        *,
        prompts: bool = True,
        argument: str = "",
        head: int | None = None,
        statement_s: float | None = None,
    ) -> Iterator[PageQuestion]:
        """Open the view of the point `at`, and close it after the answer. Raises `BadPoint`, `ProjectionError`."""
        # First brings the read models up to the head: without that, each view of new events would be a copy in memory.
        bank.live().close()
        with bank.as_of(given.get("at") or None) as view:
            view.statement_s = statement_s
            yield cls(bank, view, given, prompts=prompts, argument=argument, head=head)

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

    def number(self, name: str, usual: int, least: int, most: int) -> int:
        """Return a whole number; the usual one where none is given. Raises `BadInput` for any other text."""
        value = self.text(name)
        if value is None:
            return usual
        number = whole_number(value) if value.isascii() else None
        if number is None or not least <= number <= most:
            raise BadInput(
                f"{name} is {value[: limits.GIVEN_WORD_CHARS]!r}: give a whole number from {least:,} to {most:,}"
            )
        return number

    def one_of(self, name: str, values: Collection[str]) -> str | None:
        """Return a parameter that is one of some values; None where it is missing. Raises `BadInput`."""
        value = self.text(name)
        if value is not None and value not in values:
            raise BadInput(f"{name} is {value[: limits.GIVEN_WORD_CHARS]!r}: give one of {', '.join(values)}")
        return value

    def words(self, *columns: str) -> list[RowCondition]:
        """Return the condition that each word of `q` occurs in one of these columns, in whatever case; none without."""
        from rbank_es.projections.paged_view import RowCondition

        wanted = tuple((self.text("q") or "").split())
        return [RowCondition(columns, "contains", wanted)] if wanted else []

    def tasks(self, runs: list[str]) -> dict[str, str | None]:
        """Return the task of each run that began by the position."""
        from rbank_es.projections.paged_view import RowCondition

        return dict(self.view.pick("runs", ("run", "task"), [RowCondition(("run",), "among", tuple(runs))]))

    def page(self, view: str, conditions: list[RowCondition], sorts: Mapping[str, str], usual: str) -> RowPage:
        """Return the page that `sort`, `after` and `limit` ask for. `sorts` are the columns by their names here.

        Raises `BadInput`.
        """
        sort = self.text("sort") or usual
        name = sort.removeprefix("-")
        if name not in sorts:
            raise BadInput(f"can't sort by {name[: limits.GIVEN_WORD_CHARS]!r}: there are {', '.join(sorts)}")
        sign = "-" if sort.startswith("-") else ""
        limit = self.number("limit", page_limits.LIST_ROWS, 1, page_limits.LIST_ROWS_MOST)
        return self.view.page(view, conditions, sort=sign + sorts[name], after=self.text("after"), limit=limit)


def cut(text: str | None, most: int = page_limits.LIST_TEXT_CHARS) -> str | None:
    """Return the beginning of a text; None for None."""
    return None if text is None else text[:most]


def listed(page: RowPage, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer with one page of a list."""
    return {"total": page.total, "next": page.next, "rows": rows}


def second(at: str) -> str:
    """Return a stored time cut to the second, as `2026-01-31T12:00:00Z`; empty for none."""
    return f"{at[:19]}Z" if at else ""
