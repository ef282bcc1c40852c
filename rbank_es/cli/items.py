"""`items`: the items of a bank, filtered and sorted."""

from __future__ import annotations

from typing import Any, get_args

import click

from rbank_es.answers.items import ItemRow
from rbank_es.cli.shared.answer_output import (
    Columns,
    ListOptions,
    OptionFilter,
    list_options,
    opened_reader,
    print_list,
)
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell
from rbank_es.events.items import Polarity, Source
from rbank_es.law import ItemStatus
from rbank_es.system.proportion import percent

CONDITIONS = {
    **{name: f"{name}={{}}" for name in ("state", "src", "polarity", "role")},
    **{"domain": "domains~{}", "tag": "tags~{}", "run": "runs~{}"},
}
"""The condition that each option stands for."""


@command(
    "items",
    "rbank-es items notes --state active --sort -uses --limit 20",
    "rbank-es items notes@HEAD~100 --domain lights --polarity failure",
    "rbank-es items notes --run lights-L1-1 --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--state", type=click.Choice(get_args(ItemStatus)), help="In this state.")
@click.option("--src", type=click.Choice(get_args(Source)), help="From this source.")
@click.option("--polarity", type=click.Choice(get_args(Polarity)), help="Strategies (success), guardrails (failure).")
@click.option("--domain", metavar="ID", help="About this ontology.")
@click.option("--role", metavar="NAME", help="For this role.")
@click.option("--tag", metavar="TAG", help="With this tag.")
@click.option("--q", metavar="WORDS", help="With each of these words in id, title, description or content.")
@click.option("--run", metavar="ID", help="Drawn from this run, or supported by it.")
@click.option("--since", metavar="POINT", help="Added after this point.")
@click.option("--until", metavar="POINT", help="Added up to this point.")
@list_options
def items(
    bank: str,
    as_json: bool,
    as_csv: bool,
    where: tuple[str, ...],
    sort: str | None,
    limit: int | None,
    q: str | None,
    **given: Any,
) -> None:
    """List the items of a bank in any state, the newest first; the words that suit a task are found by search.

    JSON and CSV have more fields than the table.
    """
    from rbank_es.bank.id_lookup import whole_id

    options = ListOptions(where, sort, limit, as_csv, as_json)
    with opened_reader(bank) as reader:
        if given["run"] is not None:
            given["run"] = whole_id(reader.view, "run", given["run"])
        filters = []
        for option, condition in CONDITIONS.items():
            filters += OptionFilter.of(f"--{option}", given[option], condition)
        for end, test in (("since", ">"), ("until", "<=")):
            if given[end] is not None:
                born = reader.bank.resolve(given[end])
                filters.append(OptionFilter(f"--{end}", given[end], f"born_seq{test}{born}"))
        flexible = ("title", "domain")
        print_list(reader, "items", options, lambda _: COLUMNS, filters=filters, flexible=flexible, q=q)


def _state(row: ItemRow) -> str:
    return f"{row.state}, near {', '.join(row.near_rejected)}" if row.near_rejected else row.state


def _win_rate(row: ItemRow) -> str | None:
    """Return the interval of an item's win rate; None without a decided use."""
    if row.win_rate_low is None or row.win_rate_high is None:
        return None
    return f"{percent(row.win_rate_low).removesuffix('%')}-{percent(row.win_rate_high)}"


def _title(row: ItemRow) -> Cell:
    return row.title or "[erased]"


COLUMNS: Columns = {
    "item": lambda row: row.id,
    "state": _state,
    "source": lambda row: row.src,
    "domain": lambda row: row.domain,
    "support": lambda row: row.support,
    "uses": lambda row: row.uses,
    "wins": lambda row: row.wins,
    "win rate": _win_rate,
    "title": _title,
}
"""The columns of the table."""
