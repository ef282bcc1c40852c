"""`overrule`: give a person's verdict on runs, and correct what was learned from them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from rbank_es import limits
from rbank_es.cli.shared.arguments import read_text_file
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import act_options, report
from rbank_es.cli.shared.hook_spool import opened_to_correct
from rbank_es.errors import BadInput, LimitExceeded
from rbank_es.events.run_events import VerdictValue
from rbank_es.system.nearest_name import hint
from rbank_es.system.toml_input import parse_toml

if TYPE_CHECKING:
    from rbank_es.bank.verdict_acts import Ruling


@command(
    "overrule",
    "rbank-es overrule notes run-7 --failure --reason 'It measured the wrong height.' --by ann",
    "rbank-es overrule notes run-7 --failure --reason 'The wrong height.' --influence --dry-run",
    "rbank-es overrule notes --from verdicts.csv --influence --by ann",
)
@click.argument("bank")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--success", "verdict", flag_value="success", help="The run is a success.")
@click.option("--failure", "verdict", flag_value="failure", help="The run is a failure.")
@click.option("--undecided", "verdict", flag_value="undecided", help="Nobody can tell; nothing is learned from it.")
@click.option("--reason", metavar="TEXT", help="Why, recorded for those who read the log later.")
@click.option("--influence", is_flag=True, help="Set aside what was drawn from runs that had been given what leaves.")
@click.option("--from", "path", metavar="FILE", help="Many verdicts: CSV, JSON Lines or TOML; see docs/corrections.md.")
@act_options
def overrule(
    bank: str,
    run_id: str | None,
    verdict: VerdictValue | None,
    reason: str | None,
    influence: bool,
    path: str | None,
    by: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give a verdict on a run that no judge outranks, and correct what was learned from it, without any model.

    What rests on the verdict before leaves the bank, what stands under the new one comes back, decisions that it
    changes are made again, and wins are counted again, in one atomic group. Reported are also the runs that had been
    given what left, and what was drawn from those: what hooks of coding agents spooled for the bank is taken in before.
    Searches as of an earlier point are unchanged.
    """
    if (path is None) == (run_id is None):
        raise click.UsageError("name a RUN with its verdict, or a file of verdicts with --from.")
    if path is not None:
        if verdict is not None:
            raise BadInput(f"--from takes the verdicts from the file: leave out --{verdict}")
        rulings = read_rulings(path, reason=reason, by=by)
        with opened_to_correct(bank, dry_run=dry_run) as opened:
            made = opened.overrule_many(rulings, influence=influence, dry_run=dry_run)
    else:
        if verdict is None:
            raise click.UsageError("say which verdict: --success, --failure or --undecided.")
        if reason is None:
            raise click.UsageError("say why, with --reason.")
        with opened_to_correct(bank, dry_run=dry_run) as opened:
            made = opened.overrule(run_id or "", verdict, reason=reason, by=by, influence=influence, dry_run=dry_run)
    report(bank, made, as_json=as_json, unchanged="a person said so before: nothing was recorded")


FIELDS = ("run", "verdict", "reason", "by")
TABLE = "ruling"
"""The name of each table in TOML: `[[ruling]]`."""


def read_rulings(path: str, *, reason: str | None = None, by: str | None = None) -> list[Ruling]:
    """Return the verdicts in a file; `-` is JSON Lines on standard input.

    The ending of the name says the form: .csv or .tsv (with a line of headers), .jsonl, .json, .toml. `reason` and `by`
    are for rows that have none. Raises `BadInput`, which names the row, and `LimitExceeded`.
    """
    from rbank_es.bank.verdict_acts import Ruling

    made = []
    for where, row in _rows(path, read_text_file(path)):
        values = _checked(where, row)
        why = values.get("reason") or reason
        if not why:
            raise BadInput(f"{where}: no reason; add one, or give --reason for all")
        made.append(Ruling(values["run"], _verdict(where, values["verdict"]), why, values.get("by") or by))
        if len(made) > limits.RULINGS:
            raise LimitExceeded("verdicts in one file", len(made), limits.RULINGS, "split it")
    if not made:
        raise BadInput(f"{path} holds no verdicts")
    return made


def _rows(path: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield each row with its place in the file."""
    form = ".jsonl" if path == "-" else PurePath(path).suffix.lower()
    reader = _READERS.get(form)
    if reader is None:
        raise BadInput(f"{path}: the name must end in .csv, .tsv, .jsonl, .json or .toml, so that its form is known")
    try:
        for where, row in reader(text):
            yield f"{path}, {where}", row
    except (BadInput, msgspec.DecodeError, ValueError, csv.Error, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None


def _csv(text: str) -> Iterator[tuple[str, Any]]:
    from rbank_es.exchange.csv_text import csv_rows

    return ((f"line {line}", row) for line, row in csv_rows(text, FIELDS))


def _json_lines(text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield f"line {number}", msgspec.json.decode(line)


def _json(text: str) -> Iterator[tuple[str, Any]]:
    rows = msgspec.json.decode(text)
    yield from _numbered(rows if isinstance(rows, list) else [rows])


def _toml(text: str) -> Iterator[tuple[str, Any]]:
    given = parse_toml(text)
    unknown = [name for name in given if name != TABLE]
    if unknown or not isinstance(given.get(TABLE, []), list):
        raise BadInput(f"{unknown[0] if unknown else TABLE!r} is no list of verdicts; begin each with [[{TABLE}]]")
    yield from _numbered(given.get(TABLE, []))


def _numbered(rows: list[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"entry {number}", row) for number, row in enumerate(rows, 1))


_READERS = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".toml": _toml,
}


def _checked(where: str, row: Any) -> Mapping[str, str]:
    """Return a row's texts by field. Raises `BadInput`."""
    if not isinstance(row, dict):
        raise BadInput(f"{where}: not an object with the fields {', '.join(FIELDS)}")
    for name, value in row.items():
        if name not in FIELDS:
            raise BadInput(f"{where}: no field is called {name!r}{hint(str(name), FIELDS)}")
        if value is not None and not isinstance(value, str):
            raise BadInput(f"{where}: {name} is not a text")
    missing = [name for name in ("run", "verdict") if not (row.get(name) or "").strip()]
    if missing:
        raise BadInput(f"{where}: {missing[0]} is missing")
    long = [name for name in ("run", "by") if len(row.get(name) or "") > limits.NAME_CHARS]
    if long:
        raise BadInput(f"{where}: {long[0]} is longer than {limits.NAME_CHARS} characters")
    return {name: value.strip() for name, value in row.items() if value is not None}


def _verdict(where: str, given: str) -> VerdictValue:
    known: tuple[VerdictValue, ...] = get_args(VerdictValue)
    for each in known:
        if given.lower() == each:
            return each
    raise BadInput(f"{where}: {given!r} is no verdict{hint(given, known)}")
