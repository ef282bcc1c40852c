"""`dashboard`: one self-contained page about a bank, with its lists and counts at earlier positions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.bank.locator import split_point
from rbank_es.cli.shared.arguments import begun_run, open_at, outside, writable
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Progress, echo, echo_command, echo_heading, echo_json, format_size
from rbank_es.system.redacted_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.page import WrittenPage


@command(
    "dashboard",
    "rbank-es dashboard notes -o notes.html",
    "rbank-es dashboard notes@HEAD~100 -o then.html",
    "rbank-es dashboard notes -o notes.html --runs lights-08-7d2405bc-1 --no-prompts",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("-o", "output", metavar="FILE.html", required=True, help="The file to write.")
@click.option("--runs", "runs", metavar="RUN", multiple=True, help="Put this run in whole; may be repeated.")
@click.option("--no-prompts", is_flag=True, help="Leave out what models were sent and answered, and contexts.")
def dashboard(bank: str, output: str, runs: tuple[str, ...], no_prompts: bool, as_json: bool) -> None:
    """Write one HTML page about a bank: which runs failed and why, what they were told, where each item came from and
    went, and what has leaked into prompts; a slider shows its lists and counts at up to 20 earlier positions.

    The page is one file: it opens from disk, works offline, and makes no network requests. It holds the answers of
    `serve` as of the newest position: the newest 300 runs with their events, half of them kept for failures, and those
    named with --runs; lists of up to 2,000 rows; the newest and the most used 500 items. `serve` shows every position.
    """
    opened, point = open_at(bank)
    with opened:
        named = tuple(begun_run(opened, run) for run in runs)
        place = outside(opened, writable(Path(output)))
        named_so = shown_locator(split_point(bank)[0])
        written = write_dashboard(opened, point, place, runs=named, prompts=not no_prompts, argument=named_so)
    if as_json:
        echo_json(msgspec.to_builtins(written))
    else:
        some = f"; the events of {written.whole_runs:,} of {written.runs:,} runs are in it"
        left_out = written.whole_runs < written.runs
        echo(f"wrote {written.path} ({format_size(written.size_bytes)}{some if left_out else ''})")


def write_dashboard(
    bank: Bank,
    point: str | int | None,
    path: Path,
    *,
    runs: tuple[str, ...] = (),
    prompts: bool = True,
    argument: str = "",
) -> WrittenPage:
    """Write the page of a bank at a point; its commands name the bank by `argument`.

    Raises as `write_page` does, and `BadPoint`.
    """
    from rbank_es.page import ExportOptions, write_page

    options = ExportOptions(runs=runs, prompts=prompts, argument=argument)
    with bank.live(point) as view, Progress("writing the page") as progress:
        return write_page(bank, view, path, options, progress)


def print_page(bank: Bank, name: str, path: Path) -> None:
    """Write the page of a bank, and print the command that does so."""
    echo_heading("A page about the whole bank")
    echo_command(f"dashboard {name} -o {path}")
    written = write_dashboard(bank, None, path, argument=name)
    echo(f"wrote {written.path} ({format_size(written.size_bytes)})")
    echo("Open it in a browser: why runs failed, what they were told, and the bank at any moment. It needs no network.")
