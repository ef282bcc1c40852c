"""`project`: bring the read models up to date, once or continuously."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.cli.shared.arguments import open_whole, outside, split_names, writable
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_json, echo_table, flush, styled, write_json
from rbank_es.events import type_of
from rbank_es.events.readable_text import count
from rbank_es.system.files import is_temporary

if TYPE_CHECKING:
    from rbank_es.projections.read_models import Applied


def _names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else split_names(value)


@command(
    "project",
    "rbank-es project notes --watch",
    "rbank-es project notes --into notes.sqlite",
    "rbank-es project notes --only usage,leakage --rebuild",
)
@click.argument("bank")
@click.option("--only", metavar="A,B", callback=_names, help="Only these read models.")
@click.option("--rebuild", is_flag=True, help="Rebuild them from the whole log.")
@click.option("--watch", is_flag=True, help="Follow the log as any process appends, until Ctrl-C.")
@click.option("--list", "only_list", is_flag=True, help="List them, and how far each is behind the log.")
@click.option("--into", metavar="FILE", help="Also write an SQLite database for people: Datasette, sqlite-utils.")
@click.option("--force", is_flag=True, help="With --into: replace a file that holds something else.")
def project(
    bank: str,
    only: list[str] | None,
    rebuild: bool,
    watch: bool,
    only_list: bool,
    into: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Bring the read models (search index, usage, leakage, runs, lineage, health) up to the end of the log.

    They are one SQLite file in your cache, computed from the log alone, so it can be deleted at any time; its place is
    printed. People and other programs should read the database that --into writes: it is whole and current, and has
    keys, full-text search, and the table `columns`, which says what each column means. With --watch and --json, one
    line of JSON is printed each time events were applied.
    """
    if only_list and (rebuild or watch or into):
        raise click.UsageError("--list only looks; leave out --rebuild, --watch and --into.")
    if into and (watch or only):
        raise click.UsageError("--into writes all read models once; leave out --watch and --only.")
    with open_whole(bank) as opened:
        if only_list:
            _list(opened, only, as_json)
            return
        with suppress(KeyboardInterrupt) if watch else nullcontext():
            applied = _apply(opened, only, rebuild)
            written = _write(opened, into, force) if into else None
            _report(opened, applied, as_json, line=watch, written=written)
            if watch:
                _follow(opened, only, applied.position, as_json)


def _apply(bank: Bank, only: list[str] | None, rebuild: bool) -> Applied:
    with Progress("projecting") as progress:
        return bank.project(only=only, rebuild=rebuild, progress=progress)


def _write(bank: Bank, into: str, force: bool) -> Path:
    from rbank_es.exchange.people_database import write_people_database

    place = outside(bank, writable(Path(into)))
    write_people_database(bank, place, force=force)
    return place


def _facts(bank: Bank, applied: Applied) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(applied)
    return {"bank": bank.name, "last": bank.position, "file": _lasting_file(bank)} | facts


def _lasting_file(bank: Bank) -> str | None:
    """Return the path of the read models; None where no cache can be used, and they end with this command."""
    path = bank.read_models().path
    return None if is_temporary(path) else str(path)


def _report(
    bank: Bank, applied: Applied, as_json: bool, *, line: bool, events: str = "", written: Path | None = None
) -> None:
    """Print the result: as one line of JSON if `line`; with `events` in place of their number, if given."""
    if as_json:
        facts = _facts(bank, applied) | ({"into": str(written)} if written else {})
        write_json(msgspec.json.encode(facts)) if line else echo_json(facts)
        return
    done = f"{count(applied.events, 'event')} applied" if applied.events else "nothing to apply"
    echo(f"{bank.name}: {events or done}; read models at position {applied.position:,}")
    for reason in dict.fromkeys(applied.rebuilt.values()):
        names = [name for name, given in applied.rebuilt.items() if given == reason]
        echo(f"  rebuilt ({reason}): {', '.join(names)}")
    if not events:
        echo(f"  in {_lasting_file(bank) or 'a temporary file, which ends with this command'}")
    if written:
        echo(f"  wrote {written}")


def _follow(bank: Bank, only: list[str] | None, position: int, as_json: bool) -> None:
    if not as_json:
        echo(styled("watching the log; Ctrl-C ends it", "dim"))
    flush()
    while True:
        bank.log.wait(position, limits.POLL_S)
        # A wait also ends without new events.
        if bank.position == position:
            continue
        applied = _apply(bank, only, False)
        events = "" if as_json else _types(bank, position, applied.position)
        _report(bank, applied, as_json, line=True, events=events)
        flush()
        position = applied.position


def _types(bank: Bank, after: int, upto: int) -> str:
    types = Counter(map(type_of, bank.events(after=after, point=upto)))
    return (
        f"{count(types.total(), 'event')} ({', '.join(f'{number:,} {name}' for name, number in types.most_common())})"
    )


def _list(bank: Bank, only: list[str] | None, as_json: bool) -> None:
    from rbank_es.projections import chosen_projections

    checkpoints, last = bank.read_models().checkpoints(), bank.position
    rows: list[dict[str, Cell]] = []
    for projection in chosen_projections(only):
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
        echo_json({"bank": bank.name, "last": last, "projections": rows})
        return
    echo(f"{bank.name}: log at position {last:,}")
    shown = ("name", "version", "position", "behind", "about")
    echo_table(shown, [[row[name] for name in shown] for row in rows], flexible=["about"])
