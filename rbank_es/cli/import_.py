"""`import`: add the files of other tools, and of other banks, to a bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click
import msgspec

from rbank_es import limits
from rbank_es.cli.shared.arguments import lasting, open_or_create, open_to_fill, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.hook_spool import take_spool_in
from rbank_es.cli.shared.ontology_options import skip_option, skips_unreadable
from rbank_es.cli.shared.output import (
    Cell,
    Progress,
    echo,
    echo_json,
    echo_section,
    echo_table,
    flush,
    warn,
    write_json,
)
from rbank_es.errors import BadInput, BankNotFound
from rbank_es.events.readable_text import count, safe_line

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.exchange import FileImport, ImportReport, RecordChange


@command(
    "import",
    "rbank-es import notes items.json trajectories/ --create",
    "rbank-es import notes runs/ --dry-run",
    "rbank-es import notes ~/.claude/projects --create --watch",
)
@click.argument("bank")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--create", is_flag=True, help="Create the bank if there is none.")
@click.option("--dry-run", is_flag=True, help="Only report what would be imported.")
@click.option("--watch", is_flag=True, help="Go on as the files grow and others come, until Ctrl-C.")
@skip_option
def import_(bank: str, paths: tuple[str, ...], create: bool, dry_run: bool, watch: bool, as_json: bool) -> None:
    """Import files, whose form is recognised by their content; of a directory, all .json and .jsonl files in it.

    Forms: items; trajectories, one run a file; ReasoningBank memory, one run a line; events as written by export. Each
    as JSON Lines or as a JSON array. Transcripts of coding agents: sessions of Claude Code, rollouts of Codex, sessions
    of the Gemini CLI, ATIF trajectories with the outcome of their trial, lists of chat messages; a run is a turn of the
    user, and the tests that ran in it, or the reward of its trial, give its verdict. Traces of OpenTelemetry (OTLP,
    JSON or protobuf): a run is a trace. Times in a file become
    occurred_at; those without a zone are read as UTC.

    A record that is known adds only what is new of it: a file may grow, move, be saved again or come back from an
    export. What can't be known is said before anything is written.

    What hooks of coding agents spooled for the bank is taken in before; see `rbank-es hook`.
    """
    from rbank_es.exchange import ImportReport, import_paths
    from rbank_es.exchange.followed_files import states_of

    if watch and dry_run:
        raise click.UsageError("--dry-run only looks; leave out --watch.")
    named = [Path(path) for path in paths]
    seen = dict(states_of(named)) if watch else {}
    # A folder may be followed before an agent writes its first session.
    waits = watch and not seen and all(path.is_dir() for path in named)
    with _opened(bank, () if waits else paths, create, dry_run) as (into, created):
        if not dry_run:
            take_spool_in(into)
        with Progress("importing") as progress:
            report = (
                ImportReport((), ())
                if waits
                else import_paths(
                    into,
                    paths,
                    progress,
                    dry_run=dry_run,
                    skip_unreadable=skips_unreadable(),
                    on_notes=None if as_json else _print_notes,
                )
            )
        facts = {
            "bank": into.name,
            "created": created,
            "dry_run": dry_run,
            "appended": report.appended,
            "head": str(into.head()),
        }
        if not dry_run:
            # A hook gives nothing while they are behind.
            into.project()
        if watch and as_json:
            write_json(facts | msgspec.to_builtins(report))
        elif as_json:
            echo_json(facts | msgspec.to_builtins(report))
        else:
            _print_report(facts, report)
            _print_refusals(report)
        if watch:
            _follow(into, paths, seen, as_json)
    if not report.is_whole and not watch:
        raise click.exceptions.Exit(BadInput.exit_code)


def _follow(bank: Bank, paths: tuple[str, ...], seen: dict[Path, tuple[int, int]], as_json: bool) -> None:
    """Import what changes, and print a line each time something was new, until Ctrl-C."""
    from rbank_es.exchange.followed_files import follow_paths

    def show(report: ImportReport) -> None:
        if report.appended:
            take_spool_in(bank)
            bank.project()
        if as_json and report.appended:
            write_json({"bank": bank.name, "appended": report.appended} | msgspec.to_builtins(report))
        elif report.appended:
            runs = sum(file.runs for file in report.files)
            names = ", ".join(file.path for file in report.files)
            echo(f"{names}: {count(runs, 'new run')}, {count(report.appended, 'event')}")
        flush()

    if not as_json:
        echo("\nfollowing the files; stop with Ctrl-C")
    flush()
    with suppress(KeyboardInterrupt):
        follow_paths(bank, [Path(path) for path in paths], show, lambda failure: warn(str(failure)), seen)


def _print_refusals(report: ImportReport) -> None:
    """Print the lines and the files that can't be read, on standard error."""
    for file in report.files:
        for each in file.refusals[: limits.TABLE_ROWS]:
            warn(f"{file.path}, line {each.line}: {each.reason}; the line was left out")
        if file.lines_refused > limits.TABLE_ROWS:
            warn(f"{file.path}: {file.lines_refused - limits.TABLE_ROWS:,} more lines can't be read")
    for refusal in report.refused:
        place = f"{refusal.path}, line {refusal.line}" if refusal.line else refusal.path
        warn(f"{place}: {refusal.reason}; nothing of it was imported")


@contextmanager
def _opened(bank: str, paths: tuple[str, ...], create: bool, dry_run: bool) -> Iterator[tuple[Bank, bool]]:
    """Provide the bank, and whether it was made; for a dry run one in memory where there is none."""
    from rbank_es.bank import Bank

    if dry_run and create:
        try:
            opened = Bank.open(lasting(whole_bank(bank)))
        except BankNotFound:
            opened = Bank.create(f"memory:{uuid4().hex}")
        with opened:
            yield opened, False
        return
    into, created = _bank_for(bank, paths) if create else (open_to_fill(bank), False)
    with into:
        yield into, created


def _bank_for(bank: str, paths: tuple[str, ...]) -> tuple[Bank, bool]:
    """Open or create the bank, after reading all files, because a broken one must not leave an empty bank."""
    from rbank_es.exchange.file_import import find_imports

    place = lasting(whole_bank(bank))
    found = find_imports(paths)
    found.usable(skip_unreadable=skips_unreadable())
    found.check_transcripts()
    return open_or_create(place)


def _print_notes(path: str, notes: Sequence[str]) -> None:
    for note in notes:
        warn(f"{path}: {note}")


def _print_report(facts: dict[str, Any], report: ImportReport) -> None:
    columns = ("form", "runs", "items_added", "items_skipped", "appended", "left_out")
    headers = ["file", "form", "runs", "items added", "items skipped", "events", "left out", ""]
    rows: list[list[Cell]] = []
    for file in report.files:
        known = "was there already" if file.groups and file.groups_known == file.groups else None
        rows.append([file.path, *(getattr(file, name) for name in columns), known])
    echo_table(headers, rows, flexible=["file"], optional=[""])
    for file in report.files:
        _print_changes(file)
    if unset := [file for file in report.files if file.times_unset]:
        of = f"of {count(len(unset), 'file')} "
        echo(f"\ntimes {of}have no zone and would be in the future as UTC: left unset, and kept in extra as written")
    if facts["dry_run"]:
        echo(f"\n{count(facts['appended'], 'event')} would be appended; nothing was recorded")
        return
    made = "made and " if facts["created"] else ""
    echo(f"\n{made}appended to {facts['bank']}: {count(facts['appended'], 'event')}")
    echo(f"head {facts['head']}")


def _print_changes(file: FileImport) -> None:
    """Print the known records that a file has otherwise than the bank."""
    if not file.changes:
        return
    shown = file.changes[: limits.TABLE_ROWS]
    rows: list[list[Cell]] = [[each.record, each.run or None, _added(each), _differing(each)] for each in shown]
    echo_section(
        f"{safe_line(file.path)}: {count(file.changed, 'known record')} that changed",
        ["record", "run", "added", "differs, left out"],
        rows,
    )
    if file.changed > len(shown):
        echo(f"… and {file.changed - len(shown):,} more")


def _added(change: RecordChange) -> str | None:
    return ", ".join(f"{number:,} {name}" for name, number in change.added.items()) or None


def _differing(change: RecordChange) -> str | None:
    return ", ".join(change.differing) or None
