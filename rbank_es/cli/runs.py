"""`runs`: the runs of a bank, filtered and sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from rbank_es.bank.failed_runs import failure_reason
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.output import Cell, format_cost, format_time
from rbank_es.cli.shared.row_list import Row, RowFilter, RowList, Rows, list_options, print_list
from rbank_es.cli.shared.stored_bank import bank_to_read
from rbank_es.events.run_events import Outcome
from rbank_es.projections.paged_view import RowCondition

FIELDS = (
    "run", "task", "task_id", "level", "family", "suite", "ontology", "endpoint", "executor", "model", "mode",
    "scripted", "simulated", "started_at", "finished_at", "imported_at", "outcome", "verdict", "score", "judge",
    "iterations", "lm_calls", "tool_calls", "tokens_in", "tokens_out", "cost_usd", "duration_s", "items_injected",
    "error_code", "error", "rollout_group", "rollout_index", "started_seq", "finished_seq",
)  # fmt: skip
"""The fields of a run in JSON and CSV, in order."""

NOT_JUDGED, RUNNING = "none", "running"


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
@click.option("--outcome", type=click.Choice([*get_args(Outcome), RUNNING]), help="That ended so.")
@click.option(
    "--verdict", "given", type=click.Choice(["success", "failure", "undecided", NOT_JUDGED]), help="With this verdict."
)
@click.option("--item", metavar="ID", help="That were given this item, or read it in full.")
@click.option("--since", callback=_moment, metavar="TIME", help="That began at this time (UTC) or later.")
@click.option("--until", callback=_moment, metavar="TIME", help="That began before this time (UTC).")
@list_options
def runs(bank: str, as_json: bool, as_csv: bool, sort: str | None, limit: int | None, **given: Any) -> None:
    """List the runs of a bank, the one that began last first.

    Times are those at which things happened: of imported runs, as their recording has them. JSON and CSV have more
    fields than the table. In the place of BANK, a file that `replay --into` or `whatif --into` wrote.
    """
    from rbank_es.bank.ids import whole_id

    with bank_to_read(bank) as (name, view, _):
        filters = _filters(given)
        if (item := given["item"]) is not None:
            id = whole_id(view, "item", item)
            users = tuple({row["run"] for row in view.rows("item_exposures", item=id)})
            filters.append(RowFilter("--item", id, RowCondition(("run",), "among", users)))
        listed = RowList(
            "runs",
            view,
            filters,
            _made,
            FIELDS,
            frozenset({"outcome"}),
            _columns,
            ["task", "error", "run"],
            "-started_at",
        )
        print_list(listed, name, sort=sort, limit=limit, as_json=as_json, as_csv=as_csv)


def _made(rows: Rows) -> Rows:
    return [{name: _field(row, name) for name in FIELDS} for row in rows]


def _field(row: Row, name: str) -> Any:
    if name in ("scripted", "simulated"):
        return bool(row[name])
    return row[name] or RUNNING if name == "outcome" else row[name]


def _filters(given: dict[str, Any]) -> list[RowFilter]:
    outcome, verdict, since, until = (given[name] for name in ("outcome", "given", "since", "until"))
    return [
        *RowFilter.containing("--task", ["task"], given["task"]),
        *RowFilter.equal("--domain", "ontology", given["domain"]),
        *RowFilter.equal("--executor", "executor", given["executor"]),
        *RowFilter.containing("--model", ["model"], given["model"]),
        *_valued("--outcome", "outcome", outcome, none=RUNNING),
        *_valued("--verdict", "verdict", verdict, none=NOT_JUDGED),
        *RowFilter.bounded("--since", format_time(since), "started_at", "from", since),
        *RowFilter.bounded("--until", format_time(until), "started_at", "before", until),
    ]


def _valued(option: str, column: str, value: str | None, *, none: str) -> list[RowFilter]:
    """Return the filter for a value; `none` is the word for rows without one."""
    if value == none:
        return [RowFilter(option, none, RowCondition((column,), "is", None))]
    return RowFilter.equal(option, column, value)


def _error(row: Row) -> Cell:
    return failure_reason(row["error_code"], row["error"]) if row["outcome"] == "failed" else None


def _columns(rows: Rows) -> dict[str, Callable[[Row], Cell]]:
    """Return the columns of the table: errors, times of import and costs only where a run has one."""
    columns: dict[str, Callable[[Row], Cell]] = {
        "run": lambda row: row["run"],
        "began (UTC)": lambda row: format_time(row["started_at"])[:16],
    }
    if any(row["imported_at"] for row in rows):
        columns["imported on"] = lambda row: format_time(row["imported_at"])[:10]
    return columns | {
        "outcome": lambda row: row["outcome"].replace("_", " "),
        "verdict": lambda row: row["verdict"] or "not judged",
        **({"error": _error} if any(row["outcome"] == "failed" for row in rows) else {}),
        "steps": lambda row: row["iterations"],
        **({"cost": lambda row: format_cost(row["cost_usd"])} if any(row["cost_usd"] for row in rows) else {}),
        "task": lambda row: row["task"],
    }
