"""`review`: the pending items of a bank, with what each came from, to be admitted or rejected; or the verdicts that a
person should check first."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from rbank_es import limits
from rbank_es.answers.doubts import RUN_TEXTS, DoubtRow, Doubts
from rbank_es.bank import Bank
from rbank_es.bank.correction import Correction
from rbank_es.bank.failed_runs import failed_runs
from rbank_es.bank.ids import exact_id
from rbank_es.bank.near_items import rejected_near
from rbank_es.cli.shared.answers import opened_reader, print_answer
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import NumberRange, open_whole, view_at
from rbank_es.cli.shared.correction_report import NEXT, act_options, print_correction
from rbank_es.cli.shared.failed_run_table import print_failed_runs
from rbank_es.cli.shared.output import (
    Progress,
    count,
    echo,
    echo_command,
    echo_fields,
    echo_heading,
    echo_json,
    format_names,
    safe_block,
    safe_line,
    truncate,
    warn,
)
from rbank_es.cli.shared.shown_items import print_near
from rbank_es.errors import BadInput
from rbank_es.events import MemoriesExtracted
from rbank_es.projections.view import View
from rbank_es.state import ItemState, State
from rbank_es.state.proportion import percent
from rbank_es.state.validity import witnesses_of


@command(
    "review",
    "rbank-es review notes",
    "rbank-es review notes --admit 3f2a9c01b7de --admit 77b0c2d4e6f1 --by ann",
    "rbank-es review notes --reject 3f2a9c01b7de --because 'It names a property that is deprecated.'",
    "rbank-es review notes --verdicts 3",
    "rbank-es review notes --verdicts 20 --minutes 15 --json",
)
@click.argument("bank")
@click.option("--admit", "admitted", metavar="ID", multiple=True, help="Admit this item; may be repeated.")
@click.option("--reject", "rejected", metavar="ID", multiple=True, help="Condemn its words; may be repeated.")
@click.option("--because", metavar="TEXT", default="", help="Why; needed to reject.")
@click.option(
    "--verdicts",
    metavar="N",
    type=click.IntRange(1, limits.REVIEW_VERDICTS),
    help="List instead the verdicts whose being wrong would cost most.",
)
@click.option(
    "--minutes",
    metavar="M",
    type=NumberRange(0, limits.REVIEW_MINUTES, min_open=True),
    help="With --verdicts: as many as a person can check in so many minutes.",
)
@act_options
def review(
    bank: str,
    admitted: tuple[str, ...],
    rejected: tuple[str, ...],
    because: str,
    verdicts: int | None,
    minutes: float | None,
    by: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List the errors that ended runs, and the items that wait for a person, with what each came from; admit or
    reject these.

    What agents propose in their own words waits until an extractor draws the same, or a person admits it; under the
    policy reviewed, everything that is learned waits.

    With --verdicts, list the N verdicts to check first: by the probability that they are wrong, times the items that
    rest on them alone, the uses of these, and the runs that were given them. Without any model; nothing is recorded.
    """
    if verdicts is not None and (admitted or rejected):
        raise click.UsageError("--verdicts only lists; leave out --admit and --reject.")
    if minutes is not None and verdicts is None:
        raise click.UsageError("--minutes goes with --verdicts N.")
    if verdicts is not None:
        list_doubtful(bank, verdicts, minutes, as_json=as_json)
        return
    with open_whole(bank) as opened:
        if not (admitted or rejected):
            _list(opened, as_json)
            return
        if rejected and not because.strip():
            raise BadInput("say why these are rejected, with --because")
        # Tried first, so that a misspelt id changes nothing.
        made = _decide(opened, admitted, rejected, because, by, dry_run=True)
        if not dry_run:
            made = _decide(opened, admitted, rejected, because, by, dry_run=False)
    if as_json:
        done = [{"item": id} | msgspec.to_builtins(each) for id, each in made.items()]
        echo_json({"bank": opened.name, "dry_run": dry_run, "corrections": done})
        return
    for id, each in made.items():
        echo_heading(f"{'admitted' if id in admitted else 'rejected'} {id}")
        print_correction(bank, each, unchanged="decided already: nothing was recorded")


def _decide(
    bank: Bank, admitted: tuple[str, ...], rejected: tuple[str, ...], because: str, by: str | None, *, dry_run: bool
) -> dict[str, Correction]:
    """Admit and reject items, in this order, each in its own correction. Raises `BadInput` for one that is both."""
    with view_at(bank) as view:
        for id in (*admitted, *rejected):
            exact_id(view, "item", id)
    both = set(admitted) & set(rejected)
    if both:
        raise BadInput(f"{', '.join(sorted(both))}: both admitted and rejected; say one")
    made = {id: bank.admit(id, because=because, by=by, dry_run=dry_run) for id in admitted}
    return made | {id: bank.reject(id, because=because, by=by, dry_run=dry_run) for id in rejected}


# ---------------------------------------------------------------- the list


def _list(bank: Bank, as_json: bool) -> None:
    state = bank.state()
    pending = sorted((each for each in state.items.values() if each.state == "pending"), key=lambda each: each.rank)
    with view_at(bank, state.position) as view:
        found = [_facts(bank, view, state, entry) for entry in pending]
        failed = failed_runs(view)
    if as_json:
        echo_json({"bank": bank.name, "position": state.position, "pending": found, "failed_runs": failed})
        return
    print_failed_runs(failed)
    for each in found:
        _print(each)
    if found:
        echo(f"\n{count(len(found), 'item')} pending; admit with --admit ID, reject with --reject ID --because TEXT")
    else:
        warn("no item is pending")


def _facts(bank: Bank, view: View, state: State, entry: ItemState) -> dict[str, Any]:
    """Return a pending item's words, with each extraction that brought it: its kind, extractor and source runs."""
    names = ("id", "title", "desc", "content", "src", "polarity", "domain")
    counting = (pair for pair in state.records[entry.item.id].pairs if witnesses_of(pair, state))
    drawn = dict.fromkeys(state.extractions[extraction].seq for extraction, _ in counting)
    told = {name: getattr(entry.item, name) for name in names}
    near = rejected_near(view, told | {"state": entry.state})
    return told | {"near": near, "from": [_origin(bank, view, seq) for seq in drawn]}


def _origin(bank: Bank, view: View, seq: int) -> dict[str, Any]:
    event = bank.event_at(seq)
    assert isinstance(event, MemoriesExtracted)
    known = {run: view.run(run) or {} for run in event.runs}
    runs = [{"run": run, "task": row.get("task"), "verdict": row.get("verdict")} for run, row in known.items()]
    return {"seq": seq, "kind": event.kind, "extractor": event.extractor, "runs": runs}


def _print(item: dict[str, Any]) -> None:
    echo_heading(f"{item['id']}  {safe_line(item['title'] or '[erased]')}")
    if item["content"]:
        lines = safe_block(item["content"]).split("\n")
        echo(
            "\n".join(
                [*lines[: limits.REVIEW_CONTENT_LINES], *(["…"] if len(lines) > limits.REVIEW_CONTENT_LINES else [])]
            )
        )
    for near in item["near"]:
        print_near(near)
    for origin in item["from"]:
        by = f"{origin['kind']}, by {origin['extractor'] or 'hand'}, at position {origin['seq']:,}"
        echo_fields({"drawn as": by})
        for run in origin["runs"]:
            echo_fields({"from run": f"{run['run']} ({run['verdict'] or 'not judged'}): {run['task'] or '[no task]'}"})


KINDS = {"lm": "a model", "check": "a check", "gold": "the right answer"}


def list_doubtful(given: str, most: int, minutes: float | None, *, as_json: bool) -> None:
    """Print the first `most` doubtful verdicts of a bank, or those that fit into so many minutes."""
    with opened_reader(given) as reader, Progress("verdicts") as progress:
        reader.progress = progress
        found: Doubts = reader.ask("doubts", limit=most, minutes=minutes)
    print_answer(found, "doubts", lambda: _print_doubts(found, minutes), as_json)


def _print_doubts(found: Doubts, minutes: float | None) -> None:
    for number, each in enumerate(found.rows, 1):
        _print_doubt(number, each)
    if not found.total:
        warn("no item rests on a single verdict that a person hasn't given; there is nothing to check")
    elif not found.rows:
        warn(f"no verdict can be checked in {minutes:g} minutes; give more")
    else:
        spent = sum(each.minutes for each in found.rows)
        verdicts = count(found.total, "verdict")
        echo(f"\n{len(found.rows):,} of {verdicts} on which items rest alone, about {spent:.0f} min")
        echo("overrule --dry-run shows all that would follow, and records nothing")


def _print_doubt(number: int, each: DoubtRow) -> None:
    by = f"{each.judge} ({KINDS.get(each.kind, each.kind)})"
    said = f"{each.verdict}, says {safe_line(by)} at position {each.judged_seq:,}"
    echo_heading(f"{number}. {safe_line(each.run)}: {said}")
    texts = (*RUN_TEXTS, "reason")
    shown = {name: truncate(safe_line(getattr(each, name) or ""), limits.REVIEW_TEXT_CHARS) for name in texts}
    echo_fields(
        {
            **shown,
            "doubt": f"{percent(each.probability)} likely to be wrong: {safe_line('; '.join(each.because))}",
            "takes out": each.takes_out,
            "items": _items(each),
            "given to": format_names([safe_line(name) for name in each.stake_runs], limits.IDS_NAMED),
            "to check": f"about {each.minutes:g} min",
        }
    )
    echo("right? confirm it; wrong? overrule it:")
    for command_line in (each.confirm, each.overrule):
        echo_command(command_line.removeprefix("rbank-es "), NEXT)


def _items(each: DoubtRow) -> str:
    """Return the first items, one a line, each with its title."""
    lines = [f"{safe_line(item.id)}  {safe_line(item.title or '[erased]')}" for item in each.stake]
    more = each.stake_total - len(each.stake)
    return "\n".join([*lines, *([f"and {more:,} more"] if more else [])])
