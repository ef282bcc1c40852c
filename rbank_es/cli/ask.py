"""`ask`: any question that a bank can be asked, those of plugins too, printed as its answer is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from rbank_es.answers import QUESTIONS, BankAnswer, question_kind
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, echo_fields, echo_heading, echo_json, echo_table
from rbank_es.errors import BadInput


@command(
    "ask",
    "rbank-es ask notes",
    "rbank-es ask notes@HEAD~100 runs where=verdict=failure sort=-cost_usd --csv",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("question", required=False)
@click.argument("parameters", metavar="[NAME=VALUE ...]", nargs=-1)
@click.option("--csv", "as_csv", is_flag=True, help="Print the rows of a list as CSV.")
def ask(bank: str, question: str | None, parameters: tuple[str, ...], as_json: bool, as_csv: bool) -> None:
    """Ask a bank any QUESTION, with its parameters as NAME=VALUE; without QUESTION, list the questions.

    Python asks the same by `bank.ask("runs", sort="-cost_usd")`, and `rbank-es serve` answers it at /api/v1/. `where`
    may be given several times. `rbank-es schema --answers QUESTION` says what an answer's fields are.
    """
    with opened_reader(bank) as reader:
        if question is None:
            about = {name: question_kind(name).about for name in QUESTIONS.names()}
            if as_json:
                echo_json(about)
            else:
                echo_table(["question", "about"], [list(each) for each in about.items()], flexible=["about"])
            return
        found = reader.ask(question, **_parameters(parameters))
        print_answer(found, question, lambda: _print(found, question_kind(question).rows_name), as_json, as_csv)


def _parameters(given: Sequence[str]) -> dict[str, Any]:
    """Return parameters by name; `where` has a list. Raises `BadInput` for a text without `=`, and one given twice."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"{text!r} is no parameter: write NAME=VALUE, such as limit=10")
        if name == "where":
            found.setdefault(name, []).append(value)
        elif found.setdefault(name, value) is not value:
            raise BadInput(f"the parameter {name} is given twice")
    return found


def _print(found: BankAnswer, rows: str | None) -> None:
    """Print an answer in the form of its types: its own fields, then each of its lists as a table."""
    facts: dict[str, Any] = msgspec.to_builtins(found)
    lists = {name: value for name, value in facts.items() if _is_table(value) or name == rows}
    echo_fields({name: _cell(value) for name, value in facts.items() if name not in lists})
    for name, value in lists.items():
        if name != rows:
            echo_heading(name)
        names = list(value[0]) if value else []
        used = [each for each in names if any(row[each] is not None for row in value)]
        echo_table(used, [[_cell(row[each]) for each in used] for row in value], flexible=used[1:])


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, dict) for each in value)


def _cell(value: Any) -> Cell:
    if isinstance(value, list | tuple | dict):
        return msgspec.json.encode(value).decode() if value else None
    cell: Cell = value
    return cell
