"""`project`: read models brought up to date, once or as long as it runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.banks import open_whole
from rbank_es.cli.shared.output import Cell, flush, say, say_json, styled, table, write
from rbank_es.cli.shared.progress import Progress
from rbank_es.cli.shared.terminal_text import count
from rbank_es.events import type_of

if TYPE_CHECKING:
    from rbank_es.projections.read_models import Applied


def _names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    if value is None:
        return None
    names = [name.strip() for name in value.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("no names given; separate several by commas.", context, parameter)
    return names


@command("project", "rbank-es project notes --watch", "rbank-es project notes --only usage,leakage --rebuild")
@click.argument("bank")
@click.option("--only", metavar="A,B", callback=_names, help="Only these read models.")
@click.option("--rebuild", is_flag=True, help="Make them anew from the whole log.")
@click.option("--watch", is_flag=True, help="Go on as events are appended, by any process, until Ctrl-C.")
@click.option("--list", "only_list", is_flag=True, help="List them, and how far behind the log each one is.")
def project(bank: str, only: list[str] | None, rebuild: bool, watch: bool, only_list: bool, as_json: bool) -> None:
    """Bring the read models (search index, usage, leakage, runs, lineage, health) up to the end of the log.

    They are one SQLite file, made from the log alone: delete it whenever you like. With --watch and --json, one JSON
    document is printed each time something was applied.
    """
    if only_list and (rebuild or watch):
        raise click.UsageError("--list only looks; leave out --rebuild and --watch.")
    with open_whole(bank) as opened:
        if only_list:
            _list(opened, only, as_json)
            return
        applied = _apply(opened, only, rebuild)
        _report(opened, applied, as_json, line=watch)
        if watch:
            _follow(opened, only, applied.position, as_json)


def _apply(bank: Bank, only: list[str] | None, rebuild: bool) -> Applied:
    with Progress("projecting") as progress:
        return bank.project(only=only, rebuild=rebuild, progress=progress)


def _facts(bank: Bank, applied: Applied) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(applied)
    return {"bank": bank.name, "last": bank.position} | facts


def _report(bank: Bank, applied: Applied, as_json: bool, *, line: bool, what: str = "") -> None:
    """Say what was applied. `line`: as one line of JSON, for it is one of several; `what`: the events instead."""
    if as_json:
        facts = _facts(bank, applied)
        write(msgspec.json.encode(facts) + b"\n") if line else say_json(facts)
        return
    done = f"{count(applied.events, 'event')} applied" if applied.events else "nothing to apply"
    say(f"{bank.name}: {what or done}; read models at position {applied.position:,}")
    for reason in dict.fromkeys(applied.rebuilt.values()):
        names = [name for name, given in applied.rebuilt.items() if given == reason]
        say(f"  made anew ({reason}): {', '.join(names)}")


def _follow(bank: Bank, only: list[str] | None, position: int, as_json: bool) -> None:
    if not as_json:
        say(styled("watching the log; Ctrl-C ends it", "dim"))
    flush()
    try:
        while True:
            bank.log.wait(position, limits.POLL_S)
            if bank.position == position:
                continue
            applied = _apply(bank, only, False)
            what = "" if as_json else _types(bank, position, applied.position)
            _report(bank, applied, as_json, line=True, what=what)
            flush()
            position = applied.position
    except KeyboardInterrupt:
        return


def _types(bank: Bank, after: int, upto: int) -> str:
    types = Counter(map(type_of, bank.events(after=after, point=upto)))
    return (
        f"{count(types.total(), 'event')} ({', '.join(f'{number:,} {name}' for name, number in types.most_common())})"
    )


def _list(bank: Bank, only: list[str] | None, as_json: bool) -> None:
    from rbank_es.projections import ALL, named

    checkpoints, last = bank.read_models().checkpoints(), bank.position
    rows: list[dict[str, Cell]] = []
    for projection in [named(name) for name in only] if only else ALL:
        built = checkpoints.get(projection.name)
        position = built.position if built else 0
        rows.append(
            {
                "name": projection.name,
                "version": projection.version,
                "built_by_version": built.version if built else None,
                "position": position,
                "behind": last - position,
                "about": projection.title,
            }
        )
    if as_json:
        say_json({"bank": bank.name, "last": last, "projections": rows})
        return
    say(f"{bank.name}: log at position {last:,}")
    shown = ("name", "version", "position", "behind", "about")
    table(shown, [[row[name] for name in shown] for row in rows], flexible=["about"])
