"""Answers on the command line: as JSON, as CSV, or as a table whose columns a command declares.

A list is filtered by options of the command and by `--where`; where nothing passes, it says which filter is why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.answers import BankAnswer, BankReader, Bounds, Page, question_kind
from rbank_es.bank.locator import split_point
from rbank_es.cli.shared.arguments import open_at
from rbank_es.cli.shared.command_registry import decorated
from rbank_es.cli.shared.output import Cell, echo, echo_json, echo_table, warn, write_bytes
from rbank_es.errors import BadInput
from rbank_es.limits import answer_limits

if TYPE_CHECKING:
    pass

A = TypeVar("A", bound=BankAnswer)
Columns = Mapping[str, Callable[[Any], Cell]]
"""The columns of a table by their titles, each with the function from a row to its cell."""


class OptionFilter(Struct, frozen=True):
    """A condition on rows that an option set: the option, its value, the condition as `--where` has it."""

    option: str
    value: str
    condition: str

    @classmethod
    def of(cls, option: str, value: str | None, condition: str) -> list[OptionFilter]:
        """Return the filter of an option; none where it is not given. `{}` in the condition stands for its value."""
        return [] if value is None else [cls(option, value, condition.format(value))]


list_options = decorated(
    click.option(
        "--where",
        multiple=True,
        metavar="CONDITION",
        help="Only rows with FIELD=VALUE (also !=, <, <=, >, >=, and ~ for a text in it), by fields of the JSON.",
    ),
    click.option("--sort", metavar="FIELD", help="Sort by a field of the JSON; -FIELD: the largest first."),
    click.option("--limit", metavar="N", type=click.IntRange(1), help="Only the first N."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
)
"""The options that every list has, beside --json."""


@contextmanager
def opened_reader(text: str) -> Iterator[BankReader]:
    """Open what an argument BANK[@POINT] names, to ask it. Raises as `open_at`."""
    opened, point = open_at(text)
    with opened, ExitStack() as stack:
        bounds = Bounds(command=split_point(text)[0])
        # Found and opened when they are needed: to some questions the log alone answers, and a check of it comes first.
        position = cache(partial(opened.resolve, point))
        yield BankReader(
            lambda: stack.enter_context(opened.live(position())),
            opened.name,
            bank=opened,
            bounds=bounds,
            position=position,
        )


class ListOptions(Struct, frozen=True):
    """The values of `list_options`, and of --json."""

    where: tuple[str, ...]
    sort: str | None
    limit: int | None
    as_csv: bool
    as_json: bool


def print_list(
    reader: BankReader,
    name: str,
    options: ListOptions,
    columns: Callable[[Sequence[Any]], Columns],
    *,
    filters: Sequence[OptionFilter] = (),
    flexible: Sequence[str] = (),
    **narrower: Any,
) -> None:
    """Ask for a list and print it; where it is empty, say why on standard error. Raises `BadInput`.

    `columns` returns the columns of the table for the rows that are shown, `flexible` names those that shrink first.
    """
    given = [*filters, *(OptionFilter("--where", each, each) for each in options.where)]
    where = tuple(each.condition for each in given)
    found: Page[Any] = reader.ask(
        name, where=where, sort=options.sort, limit=options.limit or answer_limits.ANSWER_ROWS_MOST, **narrower
    )
    if options.limit is None:
        found = found.whole()
    print_answer(found, name, lambda: _print_table(found, name, columns, flexible), options.as_json, options.as_csv)
    if not found.total:
        warn(_why_none(reader, name, given, narrower))


def print_answer(found: BankAnswer, name: str, table: Callable[[], None], as_json: bool, as_csv: bool = False) -> None:
    """Print an answer as JSON or CSV if asked for, else as the table. Raises `UsageError` for both."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.")
    if as_json:
        echo_json(found)
    elif as_csv:
        write_bytes(answer_csv(found, name).encode())
    else:
        table()


def answer_csv(found: BankAnswer, name: str) -> str:
    """Return the rows of an answer as CSV. Raises `BadInput` for an answer that has none."""
    from rbank_es.exchange.csv_text import csv_of

    kind = question_kind(name)
    if kind.rows is None:
        raise BadInput(f"{name} is no list, so it has no CSV: use --json")
    rows = getattr(found, kind.rows)
    return csv_of(kind.row_fields, [msgspec.to_builtins(row) for row in rows])


def _print_table(
    found: Page[Any], name: str, columns: Callable[[Sequence[Any]], Columns], flexible: Sequence[str]
) -> None:
    if not found.rows:
        return
    shown = columns(found.rows)
    cells = [[cell(row) for cell in shown.values()] for row in found.rows]
    echo_table(list(shown), cells, flexible=[each for each in flexible if each in shown])
    if len(found.rows) < found.total:
        echo(f"\n{len(found.rows):,} of {found.total:,} {name}; without --limit, all are shown")


def _why_none(reader: BankReader, name: str, given: Sequence[OptionFilter], narrower: Mapping[str, Any]) -> str:
    """Return why a list is empty: there is nothing, or which filter leaves nothing, with the values that there are."""
    every: Page[Any] = reader.ask(name, limit=answer_limits.ANSWER_ROWS_MOST)
    if not every.total:
        return f"there are no {name} yet"
    counts = [(each, _total(reader, name, where=(each.condition,))) for each in given]
    counts += [
        (OptionFilter(f"--{key}", str(value), ""), _total(reader, name, **{key: value}))
        for key, value in narrower.items()
        if value is not None
    ]
    alone = [each for each, number in counts if not number]
    if not alone:
        said = ", ".join(f"{each.option} {each.value}: {number:,}" for each, number in counts)
        return f"none of the {every.total:,} {name} passes all filters at once ({said})"
    values = sorted({str(value) for row in every.rows for value in _values(row, alone[0].condition)})
    there = (
        f"; there are: {', '.join(values[: limits.CHOICES_NAMED])}{', …' if len(values) > limits.CHOICES_NAMED else ''}"
    )
    return f"none of the {every.total:,} {name} has {alone[0].option} {alone[0].value}{there if values else ''}"


def _values(row: Any, condition: str) -> Sequence[Any]:
    """Return the values of a row in the field that a condition of equality, or on a list, is about."""
    found = re.match(r"(\w+)([=~])", condition)
    value = getattr(row, found[1], None) if found is not None else None
    if isinstance(value, tuple):
        return value
    return () if value is None or (found is not None and found[2] == "~") else (value,)


def _total(reader: BankReader, name: str, **given: Any) -> int:
    total: int = reader.ask(name, limit=1, **given).total
    return total
