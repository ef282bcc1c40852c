"""`diff`: the differences between two points in time, or between two banks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at
from rbank_es.cli.shared.output import echo, echo_heading, echo_json, echo_table

if TYPE_CHECKING:
    from rbank_es.state import State
    from rbank_es.state.state_diff import Change, Diff, ItemDiff

COUNTS = ("state", "support", "uses", "wins")
TEXTS = ("title", "desc", "content")


@command("diff", "rbank-es diff notes@120 notes@HEAD", "rbank-es diff notes@2026-01-31 ./copies/notes")
@click.argument("before", metavar="BANK@A")
@click.argument("after", metavar="BANK@B")
def diff(before: str, after: str, as_json: bool) -> None:
    """Compare two points in time, of one bank or of two: items, their support, uses and wins; runs; policies."""
    from rbank_es.state.state_diff import diff_states

    found = diff_states(_state(before), _state(after))
    if as_json:
        echo_json({"from": before, "to": after} | msgspec.to_builtins(found))
    else:
        echo(f"from {before} (position {found.before:,}) to {after} (position {found.after:,})")
        print_diff(found)


def _state(text: str) -> State:
    bank, point = open_at(text)
    with bank:
        return bank.state(point)


def print_diff(found: Diff) -> None:
    """Print the differences, or that there are none."""
    if found.empty:
        echo("nothing differs")
    _print_whole("items added", found.added, "after")
    _print_whole("items no longer there", found.removed, "before")
    if found.changed:
        echo_heading(f"items changed: {len(found.changed):,}")
        rows = [[item.id, item.title, _changes(item.changes)] for item in found.changed]
        echo_table(["item", "title", "change"], rows, flexible=["title"])
    if found.runs:
        echo_heading(f"runs: {len(found.runs):,}")
        echo_table(["run", "change"], [[run.run, _changes(run.changes)] for run in found.runs], flexible=["change"])
    if found.policies:
        echo_heading(f"policies: {len(found.policies):,}")
        echo_table(
            ["policy", "change"], [[change.what, _arrow(change)] for change in found.policies], flexible=["change"]
        )


def _print_whole(title: str, items: tuple[ItemDiff, ...], side: str) -> None:
    if not items:
        return
    echo_heading(f"{title}: {len(items):,}")
    rows: list[list[Any]] = []
    for item in items:
        facts = {change.what: getattr(change, side) for change in item.changes}
        rows.append([item.id, *(facts.get(name, 0) for name in COUNTS), item.title])
    echo_table(["item", *COUNTS, "title"], rows, flexible=["title"])


def _changes(changes: tuple[Change, ...]) -> str:
    """Return all changes of one thing on one line; for a new or removed thing, its values alone."""
    for word, side, other in (("new", "after", "before"), ("gone", "before", "after")):
        if all(getattr(change, other) is None for change in changes):
            return f"{word}: {', '.join(f'{change.what} {_shown(getattr(change, side))}' for change in changes)}"
    return ", ".join(_changed(change) for change in changes)


def _changed(change: Change) -> str:
    return f"{change.what} changed" if change.what in TEXTS else f"{change.what} {_arrow(change)}"


def _arrow(change: Change) -> str:
    return f"{_shown(change.before)} → {_shown(change.after)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value).removesuffix("()")
