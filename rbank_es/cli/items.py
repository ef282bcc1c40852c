"""`items`: the items of a bank, filtered and sorted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.near_items import rejected_near
from rbank_es.cli.shared.output import Cell
from rbank_es.cli.shared.row_list import Row, RowFilter, RowList, Rows, list_options, print_list
from rbank_es.cli.shared.stored_bank import bank_to_read
from rbank_es.events.items import Polarity, Source
from rbank_es.projections.paged_view import RowCondition
from rbank_es.state import ItemStatus
from rbank_es.state.proportion import percent, wilson

if TYPE_CHECKING:
    from rbank_es.projections.view import View

FIELDS = (
    "id", "title", "desc", "content", "src", "polarity", "role", "scope", "domain", "tags", "state", "support", "uses",
    "wins", "losses", "win_rate_low", "win_rate_high", "runs", "near_rejected", "born_seq", "ended_seq",
)  # fmt: skip
"""The fields of an item in JSON and CSV, in order; `runs` are those that it was drawn from, `near_rejected` the
rejected items because of which it waits.

The win rate is between `win_rate_low` and `win_rate_high` (Wilson, 95 %), None without a decided use.
"""

DERIVED = frozenset({"win_rate_low", "win_rate_high", "runs", "near_rejected", "tags"})
"""Fields that are no column of the read models, or not as they are shown."""


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
@click.option("--text", metavar="TEXT", help="With this text in title, description or content, in whatever case.")
@click.option("--run", metavar="ID", help="Drawn from this run, or supported by it.")
@click.option("--since", metavar="POINT", help="Added after this point.")
@click.option("--until", metavar="POINT", help="Added up to this point.")
@list_options
def items(bank: str, as_json: bool, as_csv: bool, sort: str | None, limit: int | None, **given: Any) -> None:
    """List the items of a bank in any state, the newest first; the words that suit a task are found by search.

    JSON and CSV have more fields than the table. In the place of BANK, a file that `replay --into` or `whatif --into`
    wrote.
    """
    with bank_to_read(bank) as (name, view, resolve):
        born = {end: resolve(given[end]) for end in ("since", "until") if given[end] is not None}
        listed = RowList(
            "items",
            view,
            _filters(view, given, born),
            partial(_made, view, with_runs=as_json or as_csv or (sort or "").endswith("runs")),
            FIELDS,
            DERIVED,
            lambda _: COLUMNS,
            ["title", "domain"],
            "-born_seq",
        )
        print_list(listed, name, sort=sort, limit=limit, as_json=as_json, as_csv=as_csv)


def _made(view: View, rows: Rows, *, with_runs: bool) -> Rows:
    # This reads the lineage of every item, so only where it is shown or sorted by.
    drawn = _source_runs(view) if with_runs else {}
    made = []
    for row in rows:
        tags = msgspec.json.decode(row["tags"]) if row["tags"] else []
        low, high = wilson(row["wins"], row["wins"] + row["losses"]) or (None, None)
        rates = {"win_rate_low": low and round(low, 4), "win_rate_high": high and round(high, 4)}
        near = [each.item for each in rejected_near(view, row)]
        whole = row | rates | {"tags": tags, "runs": drawn.get(row["id"], []), "near_rejected": near}
        made.append({name: whole[name] for name in FIELDS})
    return made


def _win_rate(row: Row) -> str | None:
    """Return the interval of an item's win rate; None without a decided use."""
    found = wilson(row["wins"], row["wins"] + row["losses"])
    return None if found is None else f"{percent(found[0]).removesuffix('%')}-{percent(found[1])}"


def _source_runs(view: View) -> dict[str, list[str]]:
    """Return the runs of the extractions that brought or support each item, in their order."""
    runs: defaultdict[str, list[str]] = defaultdict(list)
    for edge in view.rows("lineage_edges", relation="drawn_from"):
        runs[edge["target"]].append(edge["source"])
    drawn: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for relation in ("born_as", "supports"):
        for edge in view.rows("lineage_edges", relation=relation):
            extraction, _, _ = edge["source"].rpartition("#")
            drawn[edge["target"]] |= dict.fromkeys(runs[extraction])
    return {item: list(names) for item, names in drawn.items()}


COLUMNS: Mapping[str, Callable[[Row], Cell]] = {
    "item": lambda row: row["id"],
    "state": lambda row: f"{row['state']}, near {', '.join(near)}" if (near := row["near_rejected"]) else row["state"],
    "source": lambda row: row["src"],
    "domain": lambda row: row["domain"],
    "support": lambda row: row["support"],
    "uses": lambda row: row["uses"],
    "wins": lambda row: row["wins"],
    "win rate": _win_rate,
    "title": lambda row: row["title"] or "[erased]",
}
"""The columns of the table."""


def _filters(view: View, given: dict[str, Any], born: dict[str, int]) -> list[RowFilter]:
    filters = [
        *(
            each
            for name in ("state", "src", "polarity", "domain", "role")
            for each in RowFilter.equal(f"--{name}", name, given[name])
        ),
        *RowFilter.containing("--text", ["title", "desc", "content"], given["text"]),
    ]
    if (tag := given["tag"]) is not None:
        filters.append(RowFilter("--tag", tag, RowCondition(("tags",), "has", tag)))
    if given["run"] is not None:
        filters.append(_of_run(view, given["run"]))
    filters += RowFilter.bounded("--since", given["since"], "born_seq", "after", born.get("since"))
    return filters + RowFilter.bounded("--until", given["until"], "born_seq", "upto", born.get("until"))


def _of_run(view: View, given: str) -> RowFilter:
    """Return the filter for items that were drawn from a run, or are supported by it."""
    from rbank_es.bank.ids import whole_id

    run = whole_id(view, "run", given)
    drawn = tuple(item for item, runs in _source_runs(view).items() if run in runs)
    return RowFilter("--run", run, RowCondition(("id",), "among", drawn))
