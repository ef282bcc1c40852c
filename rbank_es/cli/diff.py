"""`diff`: the differences between two points in time, or between two banks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at
from rbank_es.cli.shared.output import count, echo, echo_json, echo_section
from rbank_es.system.shown_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.bank.branches import CommonHistory
    from rbank_es.state.state_diff import Change, Diff, ItemDiff

COUNTS = ("state", "support", "uses", "wins")
TEXTS = ("title", "desc", "content")


@command(
    "diff",
    "rbank-es diff notes@120 notes@HEAD",
    "rbank-es diff notes@2026-01-31 ./copies/notes",
    "rbank-es diff notes trial",
)
@click.argument("before", metavar="BANK@A")
@click.argument("after", metavar="BANK@B")
def diff(before: str, after: str, as_json: bool) -> None:
    """Compare two points in time, of one bank or of two: items, their support, uses and wins; runs; policies.

    If one bank was forked from the other, or both from a third, also print up to which position their logs are the
    same, as their heads prove, and how many events each has beyond it.
    """
    from rbank_es.bank.branches import common_history
    from rbank_es.state.state_diff import diff_states

    (one, point), (other, other_point) = open_at(before), open_at(after)
    with one, other:
        found = diff_states(one.state(point), other.state(other_point))
        same_place = one.place == other.place
        shared = None if same_place else common_history(one.log, other.log, (found.before, found.after))
    before, after = shown_locator(before), shown_locator(after)
    if as_json:
        common = {"common": _common(shared)} if shared is not None else {}
        echo_json({"from": before, "to": after} | common | msgspec.to_builtins(found))
    else:
        echo(f"from {before} (position {found.before:,}) to {after} (position {found.after:,})")
        if shared is not None:
            print_common(before, after, shared)
        elif not same_place:
            echo("they share no history: neither was forked from the other, nor both from a third")
        print_diff(found)


def _common(shared: CommonHistory) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(shared)
    return facts | {"head": str(shared.head)}


def print_common(before: str, after: str, shared: CommonHistory) -> None:
    """Print the history that two banks share, and what each has beyond it."""
    echo(f"both are the same up to position {shared.head.seq:,}; head {shared.head.digest}")
    ours, theirs = shared.beyond
    echo(f"beyond it, {before} has {count(ours, 'event')}, {after} has {count(theirs, 'event')}")
    if shared.head.seq < shared.claimed:
        echo(f"by their ancestry they must be the same up to {shared.claimed:,}: one was altered, or went on as a copy")


def print_diff(found: Diff) -> None:
    """Print the differences, or that there are none."""
    if found.empty:
        echo("nothing differs")
    _print_whole("items added", found.added, "after")
    _print_whole("items no longer there", found.removed, "before")
    rows = [[item.id, item.title, _changes(item.changes)] for item in found.changed]
    echo_section(f"items changed: {len(rows):,}", ["item", "title", "change"], rows, flexible=["title"])
    rows = [[run.run, _changes(run.changes)] for run in found.runs]
    echo_section(f"runs: {len(rows):,}", ["run", "change"], rows, flexible=["change"])
    rows = [[change.what, _arrow(change)] for change in found.policies]
    echo_section(f"policies: {len(rows):,}", ["policy or setting", "change"], rows, flexible=["change"])


def _print_whole(title: str, items: tuple[ItemDiff, ...], side: str) -> None:
    rows: list[list[Any]] = []
    for item in items:
        facts = {change.what: getattr(change, side) for change in item.changes}
        rows.append([item.id, *(facts.get(name, 0) for name in COUNTS), item.title])
    echo_section(f"{title}: {len(rows):,}", ["item", *COUNTS, "title"], rows, flexible=["title"])


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
    return "none" if value is None else str(value)
