"""`runs`: the runs of a bank, filtered and sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import click

from rbank_es.answers.runs import RunRow
from rbank_es.cli.shared.answer_output import (
    Columns,
    ListOptions,
    OptionFilter,
    list_options,
    opened_reader,
    print_list,
)
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, format_time
from rbank_es.events.readable_text import format_cost
from rbank_es.events.run_events import Outcome

NOT_JUDGED, OPEN = "none", "open"


def _moment(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return a UTC time as the log writes it, so that it can be compared with stored ones."""
    if value is None:
        return None
    from rbank_es.system.utc_times import utc_time

    try:
        return utc_time(value)
    except ValueError as error:
        raise click.BadParameter(f"{error} (UTC).", context, parameter) from None


@command(
    "runs",
    "rbank-es runs notes --verdict failure --since 2026-01-31",
    "rbank-es runs notes@HEAD~100 --model gpt-4.1-mini --sort -cost_usd --limit 10",
    "rbank-es runs notes --csv > runs.csv",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--task", metavar="TEXT", help="Whose task has this text, in whatever case.")
@click.option("--domain", metavar="ID", help="Over this ontology.")
@click.option("--executor", metavar="NAME", help="By this executor.")
@click.option("--model", metavar="NAME", help="By a model with this in its name.")
@click.option(
    "--outcome", type=click.Choice([*get_args(Outcome), OPEN]), help="That ended so, or are open: no end is recorded."
)
@click.option(
    "--verdict", "given", type=click.Choice(["success", "failure", "undecided", NOT_JUDGED]), help="With this verdict."
)
@click.option("--item", metavar="ID", help="That were given this item, or read it in full.")
@click.option("--since", callback=_moment, metavar="TIME", help="That began at this time (UTC) or later.")
@click.option("--until", callback=_moment, metavar="TIME", help="That began before this time (UTC).")
@list_options
def runs(
    bank: str,
    as_json: bool,
    as_csv: bool,
    where: tuple[str, ...],
    sort: str | None,
    limit: int | None,
    **given: Any,
) -> None:
    """List the runs of a bank, the one that began last first.

    Times are those at which things happened: of imported runs, as their recording has them. JSON and CSV have more
    fields than the table.
    """

    options = ListOptions(where, sort, limit, as_csv, as_json)
    with opened_reader(bank) as reader:
        flexible = ("task", "error", "run")
        print_list(reader, "runs", options, _columns, filters=_filters(given), flexible=flexible, item=given["item"])


def _filters(given: dict[str, Any]) -> list[OptionFilter]:
    outcome = "none" if given["outcome"] == OPEN else given["outcome"]
    return [
        *OptionFilter.of("--task", given["task"], "task~{}"),
        *OptionFilter.of("--domain", given["domain"], "ontology={}"),
        *OptionFilter.of("--executor", given["executor"], "executor={}"),
        *OptionFilter.of("--model", given["model"], "model~{}"),
        *OptionFilter.of("--outcome", outcome, "outcome={}"),
        *OptionFilter.of("--verdict", given["given"], "verdict={}"),
        *OptionFilter.of("--since", given["since"], "started_at>={}"),
        *OptionFilter.of("--until", given["until"], "started_at<{}"),
    ]


def _error(row: RunRow) -> Cell:
    return row.end_reason if row.outcome == "failed" else None


def _columns(rows: Sequence[RunRow]) -> Columns:
    """Return the columns of the table: errors, times of import and costs only where a run has one."""
    columns: dict[str, Callable[[RunRow], Cell]] = {
        "run": lambda row: row.run,
        "began (UTC)": lambda row: format_time(row.started_at)[:16],
    }
    if any(row.imported_at for row in rows):
        columns["imported on"] = lambda row: format_time(row.imported_at)[:10]
    return columns | {
        "outcome": lambda row: (row.outcome or OPEN).replace("_", " "),
        "verdict": lambda row: row.verdict or "not judged",
        **({"error": _error} if any(row.outcome == "failed" for row in rows) else {}),
        "steps": lambda row: row.iterations,
        **({"cost": lambda row: format_cost(row.cost_usd)} if any(row.cost_usd for row in rows) else {}),
        "task": lambda row: row.task,
    }
