"""`health`: how a bank does at a point, and over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rbank_es.bank.failed_runs import failed_runs
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at, view_at
from rbank_es.cli.shared.failed_run_table import print_failed_runs
from rbank_es.cli.shared.output import Cell, Progress, count, echo, echo_heading, echo_json, echo_table, format_time
from rbank_es.state.proportion import percent, points

if TYPE_CHECKING:
    from rbank_es.bank.health_report import HealthReport, Measured

COURSE = ("novelty", "duplicates", "wins_last", "never_used", "overruled", "undecided", "disagreement", "one_verdict")
"""The shares in the table over time."""


@command(
    "health",
    "rbank-es health notes",
    "rbank-es health notes@HEAD~200 --points 10",
    "rbank-es health notes --every 500 --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--every", type=click.IntRange(min=1), metavar="N", help="Also the health after every N events.")
@click.option("--points", type=click.IntRange(min=1), metavar="N", help="Also the health at N points, evenly apart.")
def health(bank: str, every: int | None, points: int | None, as_json: bool) -> None:
    """Show how a bank does: its size, what is new and what repeats, wins and their drift, uses, firmness of verdicts.

    Shares are shown with their counts. Win rates and the disagreement of judges have the interval (Wilson, 95 %) in
    which the rate may be, seen from so few cases. Uses are counted as the attribution policy in force says. A win rate
    says how runs ended that were given items, not that the items made them end so. Each line of the series is of what
    was known at its position, so verdicts that were overruled later still count there.
    """
    from rbank_es.bank.health_report import health_of, health_series, series_positions

    if every is not None and points is not None:
        raise click.UsageError("--every and --points both choose the points: give one of them.")
    opened, point = open_at(bank)
    with opened, Progress("looking back") as progress:
        with view_at(opened, point) as view:
            position, now, failed = view.position, health_of(view), failed_runs(view)
            due = [row["id"] for row in view.rows("due") if row["kind"] == "cause"]
        positions = series_positions(position, every=every, points=points)
        course = list(health_series(opened, positions, progress))
        times = {at: opened.time_at(at) for at in (position, *positions)}
    if as_json:
        series = [{"position": at, "at": times[at] or None} | report.as_dict() for at, report in course]
        facts = {"bank": opened.name, "position": position, "at": times[position] or None}
        facts |= now.as_dict() | {"failed_runs": failed, "due": due}
        echo_json(facts | ({"series": series} if positions else {}))
        return
    _print(now)
    print_failed_runs(failed)
    if due:
        echo(f"no correction has looked at {count(len(due), 'verdict or act')} yet: rbank-es verify says what is due")
    if positions:
        _print_course(course, times)


def _print(now: HealthReport) -> None:
    from rbank_es.bank.health_report import measures_of

    states = list(dict.fromkeys(state for counts in now.stock.values() for state in counts))
    rows: list[list[Cell]] = [
        [source, *(counts.get(state, 0) for state in states)] for source, counts in sorted(now.stock.items())
    ]
    rows.append(["all", *(sum(counts.get(state, 0) for counts in now.stock.values()) for state in states)])
    echo_heading("items by source")
    echo_table(["source", *states], rows if states else [], none="no item so far")
    echo_heading("health")
    measures: list[list[Cell]] = [
        [each.words, _percent(each.share.rate), f"{each.share.part:,} of {each.share.whole:,}", _interval(each)]
        for each in measures_of(now)
    ]
    echo_table(["measure", "share", "count", "95 % interval"], measures)
    echo()
    echo(f"win-rate drift: {_drift(now)}")


def _print_course(course: list[tuple[int, HealthReport]], times: dict[int, str]) -> None:
    echo_heading("over time")
    rows: list[list[Cell]] = [
        [at, format_time(times[at]), report.size, *(_percent(getattr(report, name).rate) for name in COURSE)]
        for at, report in course
    ]
    headers = ["new", "repeated", "won", "unused", "overruled", "undecided", "disputed", "on one"]
    echo_table(["position", "time (UTC)", "active", *headers], rows)


def _percent(rate: float | None) -> str | None:
    return None if rate is None else percent(rate)


def _interval(measured: Measured) -> str | None:
    found = measured.interval
    return None if found is None else " to ".join(map(percent, found))


def _drift(now: HealthReport) -> str:
    if now.drift is not None:
        return f"{points(now.drift)} points, the last 20 uses against the 20 before"
    return f"not known yet: it needs decided uses among the last 20 and the 20 before, of {now.uses:,} so far"
