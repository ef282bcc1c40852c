"""`health`: how a bank does at a point, and over time."""

from __future__ import annotations

from collections.abc import Sequence

import click

from rbank_es.answers.health import Health, HealthPoint, Measure
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.failed_run_table import print_failed_runs
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_heading, echo_table, format_time
from rbank_es.events.readable_text import count
from rbank_es.system.proportion import percent, points

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
    if every is not None and points is not None:
        raise click.UsageError("--every and --points both choose the points: give one of them.")
    with opened_reader(bank) as reader, Progress("looking back") as progress:
        reader.progress = progress
        found: Health = reader.ask("health", every=every, points=points)
    print_answer(found, "health", lambda: _print(found), as_json)


def _print(now: Health) -> None:
    states = list(dict.fromkeys(each.state for each in now.stock))
    counts = {(each.src, each.state): each.items for each in now.stock}
    sources = sorted({each.src for each in now.stock})
    rows: list[list[Cell]] = [[src, *(counts.get((src, state), 0) for state in states)] for src in sources]
    rows.append(["all", *(sum(counts.get((src, state), 0) for src in sources) for state in states)])
    echo_heading("items by source")
    echo_table(["source", *states], rows if states else [], none="no item so far")
    echo_heading("health")
    measures: list[list[Cell]] = [
        [each.meaning, _percent(each.rate), f"{each.part:,} of {each.whole:,}", _interval(each)]
        for each in now.measures
    ]
    echo_table(["measure", "share", "count", "95 % interval"], measures)
    echo()
    echo(f"win-rate drift: {_drift(now)}")
    print_failed_runs(now.failed_runs)
    if now.due:
        acts = count(len(now.due), "verdict or act")
        echo(f"no correction has looked at {acts} yet: rbank-es verify says what is due")
    if now.series:
        _print_series(now.series)


def _print_series(series: Sequence[HealthPoint]) -> None:
    echo_heading("over time")
    rows: list[list[Cell]] = []
    for each in series:
        rates = {measure.name: measure.rate for measure in each.measures}
        rows.append([each.position, format_time(each.last_at), each.size, *(_percent(rates[name]) for name in COURSE)])
    headers = ["new", "repeated", "won", "unused", "overruled", "undecided", "disputed", "on one"]
    echo_table(["position", "time (UTC)", "active", *headers], rows)


def _percent(rate: float | None) -> str | None:
    return None if rate is None else percent(rate)


def _interval(measure: Measure) -> str | None:
    return None if measure.low is None or measure.high is None else f"{percent(measure.low)} to {percent(measure.high)}"


def _drift(now: Health) -> str:
    if now.win_rate_drift is not None:
        return f"{points(now.win_rate_drift)} points, the last 20 uses against the 20 before"
    return f"not known yet: it needs decided uses among the last 20 and the 20 before, of {now.uses:,} so far"
