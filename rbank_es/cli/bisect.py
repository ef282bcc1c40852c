"""`bisect`: find the event since which runs were given something else by the bank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at, run_id, view_at
from rbank_es.cli.shared.output import (
    Cell,
    Progress,
    echo,
    echo_fields,
    echo_heading,
    echo_json,
    echo_table,
    format_time,
    styled,
)
from rbank_es.errors import CheckFailed
from rbank_es.events.event_sentences import summary
from rbank_es.events.readable_text import count, safe_line

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.projections.view import View
    from rbank_es.rerun.bisection import Bisection, GivenChange, RunBisection, SharedChange
    from rbank_es.rerun.recorded_prompt import RecordedAnswer

METRICS = ("success", "score")
RECORDED = "recorded with that prompt"


@command(
    "bisect",
    "rbank-es bisect notes --bad run-8 --bad run-9 --good run-5",
    "rbank-es bisect notes@HEAD~100 --metric success --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--bad", metavar="RUN", multiple=True, help="A run that went wrong; give several to see what they share.")
@click.option("--good", metavar="RUN", multiple=True, help="A run that went well, and began before.")
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    help="Instead of runs: every task that succeeded and then failed, by verdict (success) or right answer (score).",
)
def bisect(bank: str, bad: tuple[str, ...], good: tuple[str, ...], metric: Any, as_json: bool) -> None:
    """Find the event since which bad runs were given something else by the bank, without a model.

    What each bad run searched for is searched again as of earlier positions, back to the time when the latest good run
    before it began. A binary search over the positions at which memory or the retrieval policy changed finds the
    event of each item that it gained or lost. Every check is shown, with recorded runs that had the very prompt which
    the bad run would have had then, and their verdicts. Where none had one from before, only a model could tell more.

    First order: how an agent would have gone on with other items is unknown. That memory changed before runs failed
    does not prove that they failed because of it. Exit code 1: a run can't be decided about, and the reason is printed.
    """
    opened, point = open_at(bank)
    with opened, Progress("searching the past") as progress:
        from rbank_es.rerun.bisection import bisect_runs

        failed, passed = ([run_id(opened, each, point) for each in runs] for runs in (bad, good))
        found = bisect_runs(opened, failed, passed, metric=metric, point=point, progress=progress)
        with view_at(opened, found.position) as view:
            if as_json:
                echo_json({"bank": opened.name, "ok": found.answered} | _facts(opened, view, found))
            else:
                _print(opened, view, found)
    click.get_current_context().exit(0 if found.answered else CheckFailed.exit_code)


def _facts(bank: Bank, view: View, found: Bisection) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(found)
    sources = _sources(view) if found.changes else {}
    for shown, change in zip(facts["changes"], found.changes, strict=True):
        shown |= {"summary": summary(bank.event_at(change.position)), "items": _items(view, change, sources)}
    return facts | {"needs_model": found.needs_model}


def _sources(view: View) -> dict[str, list[str]]:
    """Return the runs that each extraction was drawn from: read once, because the view scans all edges."""
    found: dict[str, list[str]] = {}
    for edge in view.rows("lineage_edges", relation="drawn_from"):
        found.setdefault(edge["target"], []).append(edge["source"])
    return found


def _items(view: View, change: SharedChange, sources: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Return the items that runs gained or lost, each with the runs that it was drawn from."""
    rows: list[dict[str, Any]] = []
    for side, ids in (("given", change.gained), ("given no more", change.lost)):
        for id in ids:
            item = view.item(id) or {"title": "", "extraction": ""}
            drawn_from = sources.get(item["extraction"], [])
            rows.append({"item": id, "since": side, "title": item["title"], "drawn_from": drawn_from})
    return rows


def _print(bank: Bank, view: View, found: Bisection) -> None:
    if not found.runs:
        echo(f"no task of {bank.name} succeeded and then failed (metric: {found.metric})")
        return
    sources = _sources(view) if found.changes else {}
    for change in found.changes:
        items = _items(view, change, sources)
        _print_change(change, summary(bank.event_at(change.position)), items, len(found.runs))
    for each in found.runs:
        _print_run(each)


def _print_change(change: SharedChange, sentence: str, items: list[dict[str, Any]], runs: int) -> None:
    echo_heading(f"since position {change.position:,}, {format_time(change.at)}: {change.type}")
    echo(sentence)
    share = f"{len(change.runs)} of {count(runs, 'bad run')}"
    before, since = change.before, change.since
    echo_fields(
        {
            "given otherwise": f"{share}: {', '.join(map(safe_line, change.runs))}",
            "the same tasks": f"before, {before.successes} of {before.decided} succeeded; "
            f"since, {since.successes} of {since.decided}",
        }
    )
    rows: list[list[Cell]] = [
        [each["item"], each["since"], each["title"] or "[erased]", ", ".join(each["drawn_from"])] for each in items
    ]
    if rows:
        echo_table(["item", "since then", "title", "drawn from"], rows, flexible=["title", "drawn from"])


def _print_run(found: RunBisection) -> None:
    against = f"{safe_line(found.good)} ({found.good_verdict or 'not judged'})"
    echo_heading(f"{safe_line(found.run)} ({found.verdict or 'not judged'}), compared with {against}")
    echo(styled(safe_line(_conclusion(found)), "yellow" if found.outcome == "unknown" else "bold"))
    if found.checks:
        where = f"after position {found.after:,}, up to {found.upto:,}"
        echo(f"memory changed at {count(found.places, 'position')} {where}; {count(len(found.checks), 'check')}:")
        rows: list[list[Cell]] = [
            [check.position, check.same, ", ".join(check.items) or "nothing", ", ".join(map(_told, check.answers))]
            for check in found.checks
        ]
        headers = ["as of position", "as it had it", "it is given", RECORDED]
        echo_table(headers, rows, flexible=["it is given", RECORDED])
    if found.needs_model:
        echo("no recorded run had a prompt that it would have had before: how that goes, only a model can tell")
    for note in found.notes:
        echo_fields({"note": note})


def _told(answer: RecordedAnswer) -> str:
    return f"{answer.run} ({answer.verdict or 'not judged'})"


def _conclusion(found: RunBisection) -> str:
    if found.outcome == "unknown":
        return f"nobody can tell: {found.reason}"
    if found.outcome == "nothing":
        why = f": {found.reason}" if found.reason else ""
        return f"memory had no part in it: the run was given nothing of the bank{why}"
    if found.outcome == "same":
        return "memory had no part in it: at the time of the good run, it would have been given the same"
    return f"it was given otherwise since {'; '.join(map(_since, found.changes))}"


def _since(change: GivenChange) -> str:
    parts = [
        f"{count(len(change.gained), 'item')} more" if change.gained else "",
        f"{count(len(change.lost), 'item')} less" if change.lost else "",
        "another guide" if change.guide else "",
        "the same items in another order or other words" if change.words else "",
    ]
    return f"position {change.position:,} ({', '.join(filter(None, parts))})"
