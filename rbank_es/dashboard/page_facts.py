"""Facts of the page as plain data, read once from the bank's views, ordered and bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from rbank_es import limits
from rbank_es.bank.health_report import Measured, measures_of, report_of
from rbank_es.dashboard.page_text import count, plural, shorten

Row = Mapping[str, Any]
"""One row of a view, by column."""

STATES = ("active", "pending", "superseded", "merged", "forgotten", "unsupported", "withdrawn", "rejected")
TURNS = ("ended", "restored", "admitted")
"""Relations of lineage by which an event changes what is active."""

SOURCES = ("success", "failure", "seed", "contrastive", "pattern", "principle", "episode")


class Rows(Protocol):
    """A bank at a point in time, as the page reads it: rows by a view's name."""

    def rows(self, name: str, /, **equal: str) -> Sequence[Row]:
        """Return the rows of a view, in which these columns have these values."""
        ...


class PageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that no view holds: the bank and the point in time.

    `position` and `head` (as `POSITION:DIGEST`) are those of the point, `at` is its ISO time in UTC (None in an empty
    bank), `point` is the one asked for, such as `HEAD~5` (None: the newest position), `purpose` is the bank's own,
    `forked_from` the bank of which it is a fork, and the position there (empty: it is none).
    """

    name: str
    position: int
    head: str
    at: str | None = None
    point: str | None = None
    purpose: str = ""
    forked_from: str = ""


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of leakage over the runs."""

    column: str
    title: str
    about: str
    unit: str = "characters"
    threshold: int | None = None


MEASURES = (
    Measure(
        column="total_chars_returned", title="Returned by tools", about="All tool returns of a run, in characters."
    ),
    Measure(
        column="max_single_return",
        title="Largest single return",
        about="The longest return of one tool call, in characters. A handle is short; a payload is not.",
        threshold=limits.FLAG_RETURN_CHARS,
    ),
    Measure(
        column="context_size",
        title="Context size",
        about="Characters of context at the start of a run: instructions, ontology, memories.",
        threshold=limits.FLAG_CONTEXT_CHARS,
    ),
    Measure(
        column="memory_items_injected",
        title="Memory items injected",
        about="Items put into the prompt before the run began.",
        unit="items",
        threshold=limits.FLAG_ITEMS_INJECTED,
    ),
    Measure(column="prompt_chars_max", title="Longest prompt", about="The longest prompt of a run, in characters."),
    Measure(
        column="stdout_chars",
        title="Printed output",
        about="Characters printed by the agent's code, all of which the agent reads.",
    ),
    Measure(
        column="variables_chars",
        title="Held in variables",
        about="Characters kept in variables of the sandbox, out of the prompt.",
    ),
    Measure(column="iterations", title="Iterations", about="Steps of a run.", unit="steps"),
)


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of red flag in plain words, with the column of a run's leakage that raises it."""

    name: str
    about: str
    column: str


FLAGS = {
    "single_return": Flag(
        name="Large single return",
        about=f"One tool call returned more than {limits.FLAG_RETURN_CHARS:,} characters. All of them stay in the "
        "prompt from then on; a handle with a preview would have been enough.",
        column="max_single_return",
    ),
    "items_injected": Flag(
        name="Many memory items injected",
        about=f"More than {limits.FLAG_ITEMS_INJECTED} memory items were put into the prompt. Each costs attention; "
        "the best few help more.",
        column="memory_items_injected",
    ),
    "context_size": Flag(
        name="Large context",
        about=f"A run began with more than {limits.FLAG_CONTEXT_CHARS:,} characters of context: part of it is payload "
        "that belongs behind a handle.",
        column="context_size",
    ),
}


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of the page.

    `runs` are in order of the time at which they began, joined with their leakage; `flags` have the worst first; `used`
    are the items with uses, most first; `items` counts items by (source, state); `turns` are the moments at which items
    ended, came back or were admitted, the latest first, each with the `ids` and `titles` of its items. `measures` are
    the shares by which the bank's health is told.
    """

    facts: PageFacts
    runs: list[Row]
    tools: list[Row]
    flags: list[Row]
    used: list[Row]
    items: Counter[tuple[str, str]]
    health: list[Row]
    measures: tuple[Measured, ...]
    turns: list[Row]

    @property
    def active(self) -> int:
        """The number of active items."""
        return sum(n for (_, state), n in self.items.items() if state == "active")

    def flagged(self, kind: str) -> int | None:
        """Return how often a kind of flag was raised; None where no run recorded its column."""
        raised = sum(row["flag"] == kind for row in self.flags)
        watched = any(row.get(FLAGS[kind].column) is not None for row in self.runs)
        return raised if raised or watched else None

    @property
    def watched(self) -> bool:
        """Whether any run recorded a column that can raise a flag."""
        return any(self.flagged(kind) is not None for kind in FLAGS) or bool(self.flags)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show: no runs, no items, no tool calls."""
        return not (self.runs or self.items or self.tools or self.flags or self.health)


def read(view: Rows, facts: PageFacts) -> Picture:
    """Read all views of the page."""
    items = view.rows("items")
    known = {row["id"]: row for row in items}
    used = (row for row in view.rows("item_usage") if row["uses"])
    return Picture(
        facts=facts,
        runs=_runs(view.rows("runs"), view.rows("leakage_by_run")),
        tools=sorted(view.rows("leakage_by_tool"), key=lambda row: (-(row["total_chars_returned"] or 0), row["tool"])),
        flags=sorted(view.rows("red_flags"), key=lambda row: (-_excess(row), row["seq"] or 0, row["flag"])),
        used=sorted((_named(row, known) for row in used), key=_usage_order),
        items=Counter((row["src"] or "unknown", row["state"]) for row in items),
        health=sorted(view.rows("health_over_time"), key=lambda row: row["seq"]),
        measures=tuple(each for row in view.rows("bank_health") for each in measures_of(report_of(row))),
        turns=_turns((edge for name in TURNS for edge in view.rows("lineage_edges", relation=name)), known),
    )


def _turns(edges: Iterable[Row], known: Mapping[str, Row]) -> list[Row]:
    """Return one row for each event and effect, with the items on which it had that effect, the latest first."""
    made: dict[tuple[int, str], dict[str, Any]] = {}
    for edge in edges:
        facts = {"seq": edge["seq"], "kind": edge["source_kind"], "effect": edge["relation"]}
        row = made.setdefault((edge["seq"], edge["relation"]), {**facts, "ids": [], "titles": []})
        row["ids"].append(edge["target"])
        row["titles"].append(known.get(edge["target"], {}).get("title") or "(text erased)")
    return [made[key] for key in sorted(made, reverse=True)]


def _runs(runs: Iterable[Row], leakage: Iterable[Row]) -> list[Row]:
    # A run whose start was not recorded has leakage, and no row of its own.
    joined: dict[str, dict[str, Any]] = {row["run"]: dict(row) for row in runs}
    for row in leakage:
        joined.setdefault(row["run"], {}).update(
            {name: value for name, value in row.items() if value is not None or name not in joined[row["run"]]}
        )
    return sorted(joined.values(), key=_start_order)


def _start_order(row: Row) -> tuple[bool, str, int]:
    # By the time of the run itself: imported runs are recorded later, and in any order.
    return row.get("started_at") is None, row.get("started_at") or "", row.get("started_seq") or 0


def _excess(row: Row) -> float:
    return (row["value"] or 0) / (row["threshold"] or 1)


def _usage_order(row: Row) -> tuple[int, int, str]:
    return -row["uses"], -(row["wins"] or 0), row["item"]


def _named(row: Row, known: Mapping[str, Row]) -> Row:
    """Return the row with source, state and a title; the title of an erased or unknown item says so."""
    item = known.get(row["item"])
    missing = "(not in this bank)" if item is None else "(text erased)" if item.get("erased") else "(no title)"
    title = row.get("title") or (item or {}).get("title") or missing
    return {**row, "title": title, "src": (item or {}).get("src"), "state": (item or {}).get("state")}


def states(items: Iterable[tuple[str, str]]) -> list[str]:
    """Return the states in (source, state) pairs, in their usual order; unknown ones last."""
    found = {state for _, state in items}
    return [state for state in STATES if state in found] + sorted(found - {*STATES})


def sources(items: Iterable[tuple[str, str]]) -> list[str]:
    """Return the sources in (source, state) pairs, in their usual order; unknown ones last."""
    found = {source for source, _ in items}
    return [source for source in SOURCES if source in found] + sorted(found - {*SOURCES})


def values(rows: Iterable[Row], column: str) -> list[Any]:
    """Return a column of rows, with None for rows that lack it."""
    return [row.get(column) for row in rows]


def peaks(series: Sequence[float | None], at_most: int = limits.DASHBOARD_POINTS) -> list[int]:
    """Return the indexes of at most `at_most` points, the largest of each group of neighbours, so that no peak is lost.

    A group without recorded values is represented by its first point.
    """
    return _thin(len(series), at_most, lambda group: max(group, key=lambda i: (_height(series[i]), -i)))


def latest(n: int, at_most: int = limits.DASHBOARD_POINTS) -> list[int]:
    """Return the indexes of at most `at_most` of `n` points, the last of each group of neighbours."""
    return _thin(n, at_most, lambda group: group[-1])


def _height(value: float | None) -> float:
    return float("-inf") if value is None else value


def _thin(n: int, at_most: int, choose: Callable[[range], int]) -> list[int]:
    groups = min(n, at_most)
    return [choose(range(i * n // groups, (i + 1) * n // groups)) for i in range(groups)]


def reading(measure: Measure, runs: Sequence[Row]) -> str:
    """Return the reading of a measure's chart in one sentence, for screen readers and for people in a hurry."""
    recorded = [(row[measure.column], row) for row in runs if row.get(measure.column) is not None]
    if not recorded:
        return f"Not recorded in {'the only run' if len(runs) == 1 else f'any of {len(runs):,} runs'}."
    top, run = max(recorded, key=lambda pair: pair[0])
    parts = ["None in any run"]
    if top:
        parts = [f"Most {count(top)} in {shorten(run['run'], 40)}", f"latest {count(recorded[-1][0])}"]
    if measure.threshold is not None:
        over = sum(value > measure.threshold for value, _ in recorded)
        often = f"over {measure.threshold:,} in {over:,} of {plural(len(recorded), 'run')}"
        parts.append(often if over else f"never over {measure.threshold:,}")
    if len(recorded) < len(runs):
        parts.append(f"not recorded in {plural(len(runs) - len(recorded), 'run')}")
    return "; ".join(parts) + "."
