"""`replay`: the bank at a point in time, folded from the log alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from rbank_es.cli.shared.arguments import open_at, outside, writable
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import (
    Progress,
    echo,
    echo_fields,
    echo_heading,
    echo_json,
    echo_table,
    format_size,
    format_time,
)
from rbank_es.events.items import Source
from rbank_es.law import ItemStatus, usage

if TYPE_CHECKING:
    from rbank_es.bank import Bank, Replayed
    from rbank_es.law import State

STATES = get_args(ItemStatus)


@command("replay", "rbank-es replay notes@2026-01-31T12:00", "rbank-es replay notes@120 --into then.sqlite")
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--into", metavar="FILE", help="Also write the read models of that point, as a SQLite file.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def replay(bank: str, into: str | None, force: bool, as_json: bool) -> None:
    """Fold the log up to a point in time and print the bank as it was then: items, runs, uses, wins, and digests.

    The state digests hold no positions and no times, so two banks, or two replays, with the same content have the same
    digests. No model is called and nothing is written but the file of --into, which opens in any SQLite tool.
    """
    opened, point = open_at(bank)
    target = outside(opened, writable(Path(into))) if into else None
    with opened, Progress("replaying") as progress:
        replayed = opened.replay(point, into=target, force=force, progress=progress)
        facts = _facts(opened, replayed, target)
    if as_json:
        echo_json(facts)
    else:
        _print(facts, replayed.state)


def _facts(bank: Bank, replayed: Replayed, into: Path | None) -> dict[str, Any]:
    state = replayed.state
    used = usage(state)
    entries = state.items.values()
    return {
        "bank": bank.name,
        "id": bank.id,
        "position": replayed.position,
        "last": bank.position,
        "at": replayed.at or None,
        "items": {
            "total": len(state.items),
            "by_state": _counted(STATES, (entry.state for entry in entries)),
            "by_source": _counted(get_args(Source), (entry.item.src for entry in entries)),
        },
        "runs": {"total": len(state.runs)} | _outcomes(state),
        "uses": sum(uses for uses, _ in used.values()),
        "wins": sum(wins for _, wins in used.values()),
        "digests": msgspec.to_builtins(replayed.digests),
        "into": {"path": str(into), "bytes": into.stat().st_size} if into else None,
    }


def _counted(names: tuple[str, ...], found: Any) -> dict[str, int]:
    counts = Counter(found)
    return {name: counts[name] for name in names}


def _outcomes(state: State) -> dict[str, int]:
    names = ("submitted", "forced_at_limit", "failed", "open")
    return _counted(names, (run.outcome or "open" for run in state.runs.values()))


def _print(facts: dict[str, Any], state: State) -> None:
    when = f", {format_time(facts['at'])} UTC" if facts["at"] else ""
    echo(f"bank {facts['bank']} at position {facts['position']:,} of {facts['last']:,}{when}")
    echo_heading("items by source and state")
    _print_items(state)
    echo_heading("runs")
    echo_fields({name.replace("_", " "): number for name, number in facts["runs"].items()})
    echo_heading("use of items in runs")
    echo_fields({"uses": facts["uses"], "wins": facts["wins"]})
    echo_heading("state digests (SHA-256)")
    echo_fields(facts["digests"])
    if into := facts["into"]:
        echo(f"\nwrote {into['path']} ({format_size(into['bytes'])})")


def _print_items(state: State) -> None:
    """Print the number of items of a bank's state, by source and by standing."""
    counts = Counter((entry.item.src, entry.state) for entry in state.items.values())
    sources = [src for src in get_args(Source) if any(counts[src, standing] for standing in STATES)]
    rows: list[list[Any]] = [[src, *(counts[src, standing] for standing in STATES)] for src in sources]
    if len(rows) > 1:
        rows.append(["all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True))])
    echo_table(["source", *STATES, "total"], [[*row, sum(row[1:])] for row in rows], none="no items yet")
