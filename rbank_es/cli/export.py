"""`export`: write a bank in a format that other tools read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es.cli.shared.arguments import open_at, outside, writable
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_json, format_size, say, write_bytes
from rbank_es.events.readable_text import count
from rbank_es.system.files import write_replacing

if TYPE_CHECKING:
    from rbank_es.bank import Bank

FORMS = ("items", "trajectories", "reasoningbank", "events", "prov", "otlp")


@command(
    "export",
    "rbank-es export notes --format items -o items.json",
    "rbank-es export notes@HEAD~50 --format events > events.jsonl",
    "rbank-es export notes --format trajectories -o trajectories/",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--format", "form", metavar="F", type=click.Choice(FORMS), required=True, help=", ".join(FORMS))
@click.option("-o", "output", metavar="FILE|DIR", default="-", help="Where to write; default: standard output.")
def export(bank: str, form: str, output: str, as_json: bool) -> None:
    """Write a bank as it was at a point in time, in a format that other tools read, and import too.

    items: the active items, as a JSON list. trajectories: JSON Lines, one file per run. reasoningbank: JSON Lines,
    one line per run. events: the whole log, as JSON Lines. prov: the origin of each item and the runs that used it, as
    W3C PROV-O in Turtle (it can't be imported). otlp: JSON Lines of OpenTelemetry's protocol, one trace per run, for
    tools that show traces. With --json, a report of the files written is printed.
    """
    from rbank_es.exchange.exporters import export as pieces_of

    opened, point = open_at(bank)
    with opened:
        # Count before writing, because the warning must come before a long output.
        left_out = _left_out(opened, point, form)
        if output == "-":
            if as_json:
                raise click.UsageError("--json reports on files that were written; name one with -o.")
            for piece in pieces_of(opened, point, form):
                write_bytes(piece)
            return
        written = [save(path, pieces) for path, pieces in _files(opened, point, form, output)]
    if as_json:
        echo_json({"bank": opened.name, "format": form, "files": written, "items_left_out": left_out})
    else:
        total = format_size(sum(file.size_bytes for file in written))
        where = written[0].path if len(written) == 1 else f"{count(len(written), 'file')} into {output}"
        echo(f"wrote {where} ({total})")


def _left_out(bank: Bank, point: str | None, form: str) -> int:
    """Return how many active items have no place in this format, after reporting them on standard error."""
    from rbank_es.exchange.reasoningbank_export import without_run

    items = without_run(bank, point) if form == "reasoningbank" else 0
    if items:
        say(f"left out {count(items, 'item')} that came from no run; --format items has all")
    return items


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that was written, with its size."""

    path: str
    size_bytes: int


def _files(bank: Bank, point: str | None, form: str, output: str) -> Iterator[tuple[Path, Iterator[bytes]]]:
    """Yield paths with their contents: one file, or all files of this format in a directory."""
    from rbank_es.exchange.exporters import export as pieces_of
    from rbank_es.exchange.exporters import export_files

    path = Path(output)
    if not (path.is_dir() or output.endswith("/") or form == "trajectories" and not path.suffix):
        yield outside(bank, writable(path)), pieces_of(bank, point, form)
        return
    outside(bank, path).mkdir(parents=True, exist_ok=True)
    for name, pieces in export_files(bank, point, form):
        yield path / name, pieces


def save(path: Path, pieces: Iterable[bytes]) -> WrittenFile:
    """Write a file whole, or leave the one that is there unchanged."""
    # A link is replaced: behind the link of a file asked for by name is already `path`; no other was meant.
    place, size_bytes = write_replacing(path, pieces)
    return WrittenFile(str(place), size_bytes)
