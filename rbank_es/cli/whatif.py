"""`whatif`: what a bank would be under other policies, other verdicts, or without an item or a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.cli.shared.arguments import open_at, outside, read_policy_tables, writable
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Progress, echo, echo_json
from rbank_es.cli.shared.supposition_report import print_what_if, print_what_ifs
from rbank_es.errors import BadInput, BadPolicy

if TYPE_CHECKING:
    from rbank_es.bank.supposed_differences import WhatIf


@command(
    "whatif",
    "rbank-es whatif notes --policy strict.toml",
    "rbank-es whatif notes@HEAD~50 --policy consolidation=append --policy retrieval.k_success=2",
    "rbank-es whatif notes --verdict run-7=failure --into otherwise.sqlite",
    "rbank-es whatif notes --without 3f2a9c01b7de --until 2026-01-31",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option(
    "--policy", "files", metavar="FILE|KIND.SETTING=VALUE|KIND=NAME", multiple=True,
    help="Policies in the place of the recorded ones, as `policy --set` takes them; several are compared in one table.",
)  # fmt: skip
@click.option("--verdict", "verdicts", metavar="RUN=VERDICT", multiple=True, help="Another verdict on a run.")
@click.option("--without", metavar="ITEM|RUN", multiple=True, help="As if it had never been there.")
@click.option("--until", metavar="POINT", help="The last point to look at; default: the head.")
@click.option(
    "--into",
    metavar="FILE",
    help="Write the bank as it would be, for SQLite tools.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def whatif(
    bank: str,
    files: tuple[str, ...],
    verdicts: tuple[str, ...],
    without: tuple[str, ...],
    until: str | None,
    into: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show what would differ, had something been otherwise from POINT on; without POINT, from the beginning.

    Decisions are made again by the policies that would be in force, and so is what was forgotten; every recorded
    retrieval is repeated, and the procedures of every run are packed again. No model is called, and nothing is written
    to the log. It is first order: what agents, models and people did is taken as recorded, and what only a model could
    tell is counted.
    """
    columns = [_tables(given) for given in files]
    if not (columns or verdicts or without):
        raise click.UsageError("suppose something: --policy, --verdict or --without.")
    if into and len(columns) > 1:
        raise click.UsageError("--into writes one bank: give one --policy.")
    opened, point = open_at(bank)
    target = outside(opened, writable(Path(into))) if into else None
    given = {"verdicts": _verdicts(verdicts), "without": without, "until": until, "since": point or 0}
    with opened:
        # Without a file of policies there is one column, under the recorded ones.
        found = [_asked(opened, tables, target, force, given) for tables in columns or [{}]]
    if as_json:
        named = [{"policy": name} | msgspec.to_builtins(each) for name, each in zip(files, found, strict=False)]
        echo_json({"bank": opened.name, "columns": named} if len(files) > 1 else found[0])
    elif len(files) > 1:
        print_what_ifs(files, found)
    else:
        print_what_if(found[0])
        if target is not None:
            echo(f"\nwrote {target}: the bank as it would be, at position {found[0].supposed_seq:,}")


def _asked(bank: Bank, tables: Mapping[str, Any], into: Path | None, force: bool, given: dict[str, Any]) -> WhatIf:
    with Progress("supposing") as progress:
        return bank.whatif(policies=tables, into=into, force=force, progress=progress, **given)


def _tables(given: str) -> dict[str, Any]:
    from rbank_es.policies.policy_registry import parse_assignments

    tables = dict[str, Any](parse_assignments([given])) if "=" in given else read_policy_tables(given)
    if not tables:
        raise BadPolicy(f"{given} names no policy; write a table per kind, such as [consolidation]")
    return tables


def _verdicts(given: Sequence[str]) -> dict[str, str]:
    """Return verdicts by run. Raises `BadInput` for a text without `=`, and for two on one run."""
    found: dict[str, str] = {}
    for text in given:
        run, _, verdict = text.rpartition("=")
        if not run:
            raise BadInput(f"{text!r} is no verdict on a run: write RUN=failure")
        if found.setdefault(run, verdict) != verdict:
            raise BadInput(f"two verdicts on run {run!r}: {found[run]} and {verdict}; give one")
    return found
