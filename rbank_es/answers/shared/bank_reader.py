"""The sources of an answer: the read models as of a position, and the log behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from rbank_es.answers.shared.conditions import conditions_of, is_list, sort_of, where_texts
from rbank_es.answers.shared.faces import Bounds
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, ListQuestion, Page, question_kind
from rbank_es.answers.shared.text_bounds import bounded, least
from rbank_es.errors import BadInput, LimitExceeded
from rbank_es.system.progress import OnProgress
from rbank_es.system.registry import checked_result

if TYPE_CHECKING:
    from rbank_es.bank.bank_access import OpenBank
    from rbank_es.projections.paged_view import RowCondition, RowPage
    from rbank_es.projections.view import View

A = TypeVar("A", bound=BankAnswer)
R = TypeVar("R", bound=Struct)


class _AtPosition(Protocol):
    @property
    def seq(self) -> int: ...


At = TypeVar("At", bound=_AtPosition)


class BankReader:
    """The sources of an answer: `view`, the read models as of the position, and the log behind them.

    `progress` is told how far a long answer is.
    """

    progress: OnProgress | None = None

    def __init__(
        self,
        view: View | Callable[[], View],
        name: str,
        *,
        bank: OpenBank,
        bounds: Bounds | None = None,
        position: int | Callable[[], int] | None = None,
    ) -> None:
        """Read from a view, or from one that is opened when it is first needed, as its position may be found then."""
        self._view, self._position = view, position
        self.name, self.bounds, self.bank = name, bounds or Bounds(), bank
        if self.bounds.answer_s is not None:
            self.progress = _deadline(self.bounds.answer_s)

    @cached_property
    def view(self) -> View:
        """The read models as of the position."""
        view = self._view() if callable(self._view) else self._view
        view.statement_s = self.bounds.statement_s
        return view

    @cached_property
    def position(self) -> int:
        """The position that the answer is as of."""
        told = self.view.position if self._position is None else self._position
        return told() if callable(told) else told

    @property
    def command(self) -> str:
        """The bank as commands name it."""
        return self.bounds.command or self.name

    def ask(self, name: str, /, **given: Any) -> Any:
        """Return the answer to a question by its name, with its parameters. Raises `BadInput`, and as the question."""
        kind = question_kind(name)
        if "where" in given:
            given["where"] = where_texts(given["where"])
        question = kind.parse(name, given)
        found = self.bounded(name, question, checked_result(kind.find(self, question), BankAnswer, name, kind.find))
        if isinstance(found, Page):
            found.goes_on(lambda after, **more: self.ask(name, **{**given, **more, "after": after}))
        return found

    def bounded(self, name: str, question: BankQuestion, found: A) -> A:
        """Return an answer with its texts as long as the question asks for, and no longer than this face allows."""
        kind = question_kind(name)
        asked, most = question.chars, self.bounds.text_chars if kind.is_single else self.bounds.chars
        return bounded(found, name, least(asked, most), dict.fromkeys(kind.whole, asked))

    def require_files(self, *names: str) -> None:
        """Raise `BadInput` for names of files or of other banks, unless they may be named."""
        if names and not self.bounds.files:
            raise BadInput(f"a page opens no file and no other bank: ask rbank-es itself about {names[0]!r}")

    def tasks(self, runs: Sequence[str]) -> dict[str, str | None]:
        """Return the task of each run that began by the position."""
        from rbank_es.projections.paged_view import RowCondition

        return dict(self.view.pick("runs", ("run", "task"), [RowCondition(("run",), "among", tuple(runs))]))

    def page(
        self,
        view: str,
        row: type[Struct],
        question: ListQuestion,
        *,
        sort: str,
        conditions: Sequence[RowCondition] = (),
    ) -> RowPage:
        """Return the page of a view that a question for a list asks for; `sort` is the order unless asked otherwise.

        Raises `BadInput` for a field that rows can't be filtered or sorted by, a value of another type, and a key to go
        on behind that isn't there.
        """
        from rbank_es.projections.projection import paged_views

        columns = paged_views()[view].fields
        known = [name for name in row.__struct_fields__ if name in columns]
        wanted = [*conditions, *conditions_of(question.where, row, known)]
        ordered = sort_of(question.sort or sort, known)
        return self.view.page(view, wanted, sort=ordered, after=question.after, limit=self.limit(question.limit))

    def limit(self, asked: int) -> int:
        """Return the rows of a page: as asked, and no more than this face allows."""
        return min(asked, self.bounds.rows_most or asked)

    def fitting(self, rows: Iterable[At], asked: int) -> tuple[tuple[At, ...], int | None]:
        """Return the first rows of many, and the position behind which to go on (None: no more); one row at least.

        They are as many as asked, and no more than this face allows, in number and in bytes of JSON.
        """
        limit, most, size = self.limit(asked), self.bounds.events_bytes, 0
        found: list[At] = []
        for row in rows:
            size += 0 if most is None else len(msgspec.json.encode(row))
            if found and (len(found) == limit or (most is not None and size > most)):
                return tuple(found), found[-1].seq
            found.append(row)
        return tuple(found), None

    def text_chars(self, asked: int | None) -> int | None:
        """Return the characters of each block of a text: as asked, and no more than this face allows."""
        return least(asked, self.bounds.text_chars)


def _deadline(seconds: int) -> OnProgress:
    """Return what ends an answer that takes longer. It raises `LimitExceeded`."""
    began = monotonic()

    def check(done: int, total: int) -> None:
        took_s = monotonic() - began
        if took_s > seconds:
            raise LimitExceeded("seconds of this answer", ceil(took_s), seconds, "ask for less, or ask rbank-es itself")

    return check


# Once for a type: its annotations are evaluated, which took nine tenths of a list of 10,000 rows.
_fields = cache(msgspec.structs.fields)


def struct_of(kind: type[R], row: Mapping[str, Any], **facts: Any) -> R:
    """Return a row of a view as a struct: 0 and 1 as booleans, JSON lists as lists.

    `facts` are the fields that the view doesn't have, or has otherwise.
    """
    values = {name: facts[name] if name in facts else row[name] for name in kind.__struct_fields__}
    for field in _fields(kind):
        value = values[field.name]
        if isinstance(value, str) and field.name not in facts and is_list(field.type):
            values[field.name] = msgspec.json.decode(value) if value else ()
    return msgspec.convert(values, kind, strict=False)
