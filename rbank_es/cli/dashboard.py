"""`dashboard`: one self-contained page about a bank at a point in time."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at, outside, view_at, writable
from rbank_es.cli.shared.output import echo, echo_command, echo_heading, echo_json, format_size
from rbank_es.errors import MissingExtra
from rbank_es.events import BankCreated

if TYPE_CHECKING:
    from rbank_es.dashboard import WrittenPage


@command("dashboard", "rbank-es dashboard notes -o notes.html", "rbank-es dashboard notes@HEAD~100 -o then.html")
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("-o", "output", metavar="FILE.html", required=True, help="The file to write.")
def dashboard(bank: str, output: str, as_json: bool) -> None:
    """Write one HTML page with charts: leakage into prompts by run and by tool, red flags, size, uses and wins.

    The page is one file: it opens from disk, works offline, and makes no network requests.
    """
    opened, point = open_at(bank)
    with opened:
        written = write_dashboard(opened, point, outside(opened, writable(Path(output))))
    if as_json:
        echo_json(msgspec.to_builtins(written))
    else:
        echo(f"wrote {written.path} ({format_size(written.size_bytes)})")


def write_dashboard(bank: Bank, point: str | int | None, path: Path) -> WrittenPage:
    """Write the page of a bank at a point. Raises as `write_page` does, and `BadPoint`."""
    from rbank_es.dashboard import PageFacts, write_page

    with view_at(bank, point) as view:
        facts = PageFacts(
            name=bank.name,
            position=view.position,
            head=str(bank.head(view.position)),
            at=bank.time_at(view.position) or None,
            point=None if point is None else str(point),
            purpose=purpose_of(bank),
            forked_from=forked_from(bank, view.position),
        )
        return write_page(view, path, facts)


def print_page(bank: Bank, name: str, path: Path) -> None:
    """Write the page of a bank, and print the command that does so."""
    echo_heading("A page about the whole bank")
    echo_command(f"dashboard {name} -o {path}")
    try:
        written = write_dashboard(bank, None, path)
    except MissingExtra as missing:
        echo(f"not written: {missing}")
        return
    echo(f"wrote {written.path} ({format_size(written.size_bytes)})")
    echo("Open it in a browser: leakage into prompts by run and by tool, with red flags. It needs no network.")


def page_if_possible(bank: Bank, path: Path) -> str | None:
    """Write the page of a bank and return its path; None where charts can't be drawn here."""
    with suppress(MissingExtra):
        return write_dashboard(bank, None, path).path
    return None


def forked_from(bank: Bank, position: int) -> str:
    """Return which bank a bank was forked from, and where, as of a position; empty where it was not yet forked."""
    parents = [each for each in bank.log.ancestors() if each.upto < position]
    return f"{parents[-1].bank} at position {parents[-1].upto:,}" if parents else ""


def purpose_of(bank: Bank) -> str:
    """Return the purpose recorded in a bank's first event; empty where there is none."""
    first = next(bank.events(point=min(1, bank.position)), None)
    return (bank.text(first.purpose) or "") if isinstance(first, BankCreated) else ""
