"""`diff`: the differences between two points in time, or between two banks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es import limits
from rbank_es.bank.locator import split_point
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at
from rbank_es.cli.shared.output import count, echo, echo_heading, echo_json, echo_section, format_names, safe_line
from rbank_es.system.shown_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.bank.branches import CommonHistory
    from rbank_es.state.state_diff import Change, Diff, ItemDiff, RunDiff

NOT_JUDGED = "not judged"
VERDICTS = ("success", "failure", "undecided", NOT_JUDGED)
COUNTS = ("state", "support", "uses", "wins")
TEXTS = ("title", "desc", "content")


@command(
    "diff",
    "rbank-es diff notes@2026-01-26",
    "rbank-es diff notes@120 notes@HEAD~5",
    "rbank-es diff notes@2026-01-31 ./copies/notes",
    "rbank-es diff notes trial",
)
@click.argument("before", metavar="BANK@A")
@click.argument("after", metavar="[BANK@B]", required=False)
def diff(before: str, after: str | None, as_json: bool) -> None:
    """Compare two points in time, of one bank or of two: items, their support, uses and wins; runs; policies.

    A and B are points: a position, an ISO time, HEAD~n or the id of a run. By default B is the same bank at its newest.
    Runs that began between the two are counted by their verdicts; those before are listed where they changed.

    If one bank was forked from the other, or both from a third, also print up to which position their logs are the
    same, as their heads prove, and how many events each has beyond it.
    """
    from rbank_es.bank.branches import common_history
    from rbank_es.state.state_diff import diff_states

    if after is None and split_point(before)[1] is None:
        raise click.UsageError(f"compare with what? Give a point, as {before}@HEAD~50, or a second bank.")
    after = split_point(before)[0] if after is None else after
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
    _print_runs(found.runs)
    rows = [[change.what, _arrow(change)] for change in found.policies]
    echo_section(f"policies: {len(rows):,}", ["policy or setting", "change"], rows, flexible=["change"])


def _print_runs(runs: tuple[RunDiff, ...]) -> None:
    began = {run.run: run for run in runs if all(change.before is None for change in run.changes)}
    if began:
        echo_heading(f"runs that began: {len(began):,}")
        echo(format_names([safe_line(run) for run in began], limits.IDS_NAMED))
        judged = Counter(_verdict(run) for run in began.values())
        echo(", ".join(f"{judged[verdict]:,} {verdict}" for verdict in VERDICTS if judged[verdict]))
    rows = [[run.run, _changes(run.changes)] for run in runs if run.run not in began]
    echo_section(f"runs changed: {len(rows):,}", ["run", "change"], rows, flexible=["change"])


def _verdict(run: RunDiff) -> str:
    return next((change.after for change in run.changes if change.what == "learning"), NOT_JUDGED)


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
