"""A difference between two states of a bank, for people, whatever made it: time, an act, a supposition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.cli.shared.output import Cell, echo, echo_heading, echo_section
from rbank_es.events.readable_text import count, format_names, safe_line

if TYPE_CHECKING:
    from msgspec import Struct

    from rbank_es.bank.bank_difference import Difference, ItemDifference, RunDifference
    from rbank_es.policies.policy_registry import PolicyDifference

NOT_JUDGED = "not judged"
VERDICTS = ("success", "failure", "undecided", NOT_JUDGED)


def print_difference(found: Difference) -> None:
    """Print what changed of items, runs and policies; nothing where nothing did."""
    others = [each for each in found.items if not (each.left or each.came)]
    for title, items in (("left the bank", found.left), ("came", found.came), ("changed otherwise", others)):
        _print_items(title, items)
    _print_runs(found.runs)
    rows = [[_policy(each), _arrow(each.before, each.after)] for each in found.policies]
    print_rows(f"policies: {len(rows):,}", ["policy or setting", "change"], rows, "change")


def print_rows(title: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]], *flexible: str) -> None:
    """Print a heading with the first rows of a table, and how many there are beyond; nothing where there are none."""
    echo_section(title, headers, rows[: limits.TABLE_ROWS], flexible=flexible)
    print_rest(len(rows))


def print_rest(total: int) -> None:
    """Print how many rows there are beyond those that a table shows."""
    if total > limits.TABLE_ROWS:
        echo(f"and {total - limits.TABLE_ROWS:,} more: --json lists all")


def _print_items(title: str, items: Sequence[ItemDifference]) -> None:
    rows = [[each.id, _changes(each.before, each.after), each.title or "[erased]"] for each in items]
    print_rows(f"{title}: {count(len(rows), 'item')}", ["item", "change", "title"], rows, "title", "change")


def _print_runs(runs: Sequence[RunDifference]) -> None:
    """Print the runs that began by their verdicts, because a first verdict changes none; the others by what changed."""
    began = [each for each in runs if each.before is None]
    if began:
        echo_heading(f"runs that began: {len(began):,}")
        echo(format_names([safe_line(each.run) for each in began], limits.IDS_NAMED))
        judged = Counter((each.after and each.after.verdict) or NOT_JUDGED for each in began)
        echo(", ".join(f"{judged[verdict]:,} {verdict}" for verdict in VERDICTS if judged[verdict]))
    rows = [[each.run, _changes(each.before, each.after)] for each in runs if each.before is not None]
    print_rows(f"runs changed: {len(rows):,}", ["run", "change"], rows, "change")


def _changes(before: Struct | None, after: Struct | None) -> str:
    """Return what changed on one line: each fact that differs, or what something new has."""
    if after is None:
        return "no longer there"
    if before is None:
        facts = ((name, getattr(after, name)) for name in after.__struct_fields__)
        return f"new: {', '.join(_named(name, _shown(value)) for name, value in facts if value)}"
    return ", ".join(_differing(before, after))


def _differing(before: Struct, after: Struct) -> Iterator[str]:
    for name in after.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield _named(name, _arrow(old, new))


def _named(name: str, text: str) -> str:
    # The states of items are words of their own.
    return text if name == "state" else f"{name} {text}"


def _arrow(before: Any, after: Any) -> str:
    return f"{_shown(before)} → {_shown(after)}"


def _policy(each: PolicyDifference) -> str:
    return each.kind if each.setting is None else f"{each.kind}.{each.setting}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
