"""The forms of questions and answers: parameters with their bounds, answers with their position, pages of rows.

Every module of `rbank_es.answers` is a question, under its own name; plugins add others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events.notebook_repr import Shown, escaped, printed_lines, short
from rbank_es.limits import answer_limits
from rbank_es.system.nearest_name import hint
from rbank_es.system.registry import Registry, checked_result
from rbank_es.system.validation_messages import reason_of

if TYPE_CHECKING:
    import pandas
    import polars

Row = TypeVar("Row", bound=Struct)


class BankQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a question; one without others is this class itself."""

    chars: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Characters of each text at most, not of names, ids and commands; null: whole."),
    ] = None


class ListQuestion(BankQuestion, frozen=True, kw_only=True):
    """The parameters of every question for a list: which rows, in which order, how many, behind which one."""

    where: Annotated[
        tuple[str, ...],
        Meta(
            description="Conditions on fields of a row that must all hold: FIELD=VALUE, !=, <, <=, >, >=; or "
            "FIELD~TEXT: a text has TEXT in it, in whatever case, or a list has it; the value none is for none.",
            max_length=answer_limits.ANSWER_CONDITIONS,
        ),
    ] = ()
    sort: Annotated[
        str | None,
        Meta(description="The field to sort by; -FIELD puts the largest first. Rows without a value are last."),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=answer_limits.ANSWER_ROWS_MOST, description="Rows of one page at most.")] = (
        answer_limits.ANSWER_ROWS
    )
    after: Annotated[str | None, Meta(description="The key of the row behind which the page begins.")] = None


class BankAnswer(Shown, Struct, frozen=True, kw_only=True):
    """An answer: the name of the bank, and the position that it is as of."""

    bank: str
    position: int

    def __str__(self) -> str:
        return "\n".join(printed_lines(self))

    def json(self) -> bytes:
        """Return the answer as JSON, as every face gives it."""
        return msgspec.json.encode(self)

    def to_pandas(self, name: str | None = None) -> pandas.DataFrame:
        """Return a list of the answer, by default its first, as a pandas frame; of a page, the rows of all that follow.

        Raises `BadInput` for a name that no list has, `MissingExtra` without pandas.
        """
        from rbank_es.answers.shared.frames import pandas_frame

        return pandas_frame(*self._listed(name))

    def to_polars(self, name: str | None = None) -> polars.DataFrame:
        """Return a list of the answer as a polars frame, as `to_pandas` does. Raises as that does."""
        from rbank_es.answers.shared.frames import polars_frame

        return polars_frame(*self._listed(name))

    def _listed(self, name: str | None) -> tuple[type[Struct], Sequence[Struct]]:
        """Return the type of the rows of a list, and its rows."""
        known = lists_of(type(self))
        if not known:
            raise BadInput(f"{type(self).__name__} has no list that could be a frame: use its fields, or its JSON")
        if (name := name or next(iter(known))) not in known:
            raise BadInput(f"no list is called {name[: limits.GIVEN_WORD_CHARS]!r}; there are: {', '.join(known)}")
        rows: Sequence[Struct] = getattr(self, name)
        return known[name], rows


def lists_of(answer: type[BankAnswer]) -> dict[str, type[Struct]]:
    """Return the type of the rows of each list of an answer, by its field."""
    kinds = {field: get_args(kind) for field, kind in get_type_hints(answer).items()}
    rows = {field: args[0] for field, args in kinds.items() if args[1:] == (...,)}
    return {field: row for field, row in rows.items() if isinstance(row, type) and issubclass(row, Struct)}


class Page(BankAnswer, Generic[Row], frozen=True, kw_only=True, dict=True):
    """One page of a list: `rows`, how many rows there are on all pages, and the key of the last one here, behind which
    the next page begins; null on the last page.

    Iterating goes on to the following pages, all as of the same position.
    """

    total: int
    next: str | None
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        page: Page[Row] | None = self
        while page is not None:
            yield from page.rows
            page = page.following()

    def __len__(self) -> int:
        return self.total

    def goes_on(self, ask: Callable[..., Page[Row]]) -> None:
        """Let the page go on: `ask` returns the one behind a key, with further parameters by name."""
        # Beside the fields, so that JSON and comparisons don't have it.
        vars(self)["ask"] = ask

    def following(self, **more: Any) -> Page[Row] | None:
        """Return the next page, `more` parameters being others; None behind the last.

        Raises `BadInput` for a page that was read from JSON.
        """
        if self.next is None:
            return None
        ask: Callable[..., Page[Row]] | None = vars(self).get("ask")
        if ask is None:
            raise BadInput(f"this page was read from a file: ask the bank for the rows behind {self.next!r}")
        return ask(self.next, **more)

    def whole(self) -> Page[Row]:
        """Return this page with the rows of all that follow."""
        rows, page = list(self.rows), self.following(limit=answer_limits.ANSWER_ROWS_MOST)
        while page is not None:
            rows += page.rows
            # In the largest pages: each is a question of its own.
            page = page.following(limit=answer_limits.ANSWER_ROWS_MOST)
        return msgspec.structs.replace(self, rows=tuple(rows), next=None)

    def _listed(self, name: str | None) -> tuple[type[Struct], Sequence[Struct]]:
        return super(Page, self.whole())._listed(name)

    def _repr_html_(self) -> str:
        names = self.rows[0].__struct_fields__ if self.rows else ()
        head = "".join(f"<th>{escaped(name)}</th>" for name in names)
        shown = self.rows[: limits.REPR_ROWS]
        body = "".join(f"<tr>{''.join(_cell(getattr(row, name)) for name in names)}</tr>" for row in shown)
        caption = f"{len(shown):,} of {self.total:,} rows, as of position {self.position:,}"
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    return f"<td>{'' if value is None else escaped(short(value))}</td>"


Q = TypeVar("Q", bound=BankQuestion)
A = TypeVar("A", bound=BankAnswer)


class QuestionKind(Struct, Generic[Q, A], frozen=True, kw_only=True):
    """One question that a bank can be asked.

    about     one sentence for people
    question  the type of its parameters
    answer    the type of its answer
    find      the function that answers it, from a `BankReader`
    rows      the field of the answer that CSV has; None: the answer is no list
    is_single whether its texts are those of one run or event, which faces bound by `text_chars` instead of `chars`
    whole     fields of the answer whose texts faces don't bound, only the `chars` of a question
    version   of the names and meanings of the answer's fields
    """

    about: str
    question: type[Q]
    answer: type[A]
    find: Callable[[Any, Q], A]
    rows: str | None = None
    is_single: bool = False
    whole: tuple[str, ...] = ()
    version: int = 1

    @property
    def rows_name(self) -> str | None:
        """The name that the rows have in JSON; None where the answer is no list."""
        return next(
            (field.encode_name for field in msgspec.structs.fields(self.answer) if field.name == self.rows), None
        )

    @property
    def row_fields(self) -> tuple[str, ...]:
        """The fields of a row of the answer, in order; none where it is no list."""
        # As hints, because a field's type may have a description around it.
        row = get_args(get_type_hints(self.answer)[self.rows])[0] if self.rows is not None else None
        fields: tuple[str, ...] = getattr(row, "__struct_fields__", ())
        return fields

    def parse(self, name: str, given: Mapping[str, Any]) -> Q:
        """Return the question of some parameters, which may all be texts: lists and objects as JSON.

        Raises `BadInput` for any that can't be.
        """
        known = self.question.__struct_fields__
        for each in sorted(given):  # so that each face names the same one
            if each not in known:
                raise BadInput(f"{name} has no parameter {each[: limits.GIVEN_WORD_CHARS]!r}{hint(each, known)}")
        try:
            kinds = {field.name: field.type for field in msgspec.structs.fields(self.question)}
            read = {each: _from_text(name, each, value, kinds[each]) for each, value in given.items()}
            return msgspec.convert(read, self.question, strict=False)
        except msgspec.ValidationError as error:
            raise BadInput(f"the question {name}: {reason_of(error, self.question)}") from None


def _from_text(question: str, name: str, value: Any, kind: Any) -> Any:
    """Return the value of a parameter; of a list or an object that is given as a text, what its JSON is."""
    kind = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    if not isinstance(value, str) or getattr(kind, "__origin__", None) not in (dict, tuple):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        given = value[: limits.GIVEN_WORD_CHARS]
        raise BadInput(f"the question {question}: {name} is written as JSON, not as {given!r}") from None


PACKAGE = "rbank_es.answers"

_NAMES = sorted(path.stem for path in Path(__file__).parents[1].glob("*.py") if not path.stem.startswith("_"))

QUESTIONS: Registry[QuestionKind[Any, Any]] = Registry(
    "question",
    # What needs more than this floor has its home there.
    {name: f"{PACKAGE}.{name}:QUESTION" for name in _NAMES} | {"bisect": "rbank_es.rerun.bisection:QUESTION"},
)
"""The questions by name: `QUESTION` of each module."""


def question_kind(name: str) -> QuestionKind[Any, Any]:
    """Return a question by its name. Raises `BadInput` if there is none, `BadPlugin` for what a plugin added that is
    none."""
    found = QUESTIONS.get(name)
    return checked_result(found, QuestionKind, name, found)
