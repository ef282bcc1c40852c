"""`drift`: what a bank learned about an ontology that has changed since, and what could be retracted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import NEXT
from rbank_es.cli.shared.ontology_options import ONTOLOGY_HELP, ontology_options, skips_unreadable
from rbank_es.cli.shared.output import Cell, echo, echo_command, echo_heading, echo_table, warn
from rbank_es.events.readable_text import count

if TYPE_CHECKING:
    from rbank_es.answers.drift import Drift, DriftedText
    from rbank_es.ontology.schema_changes import TermChange


@command(
    "drift",
    "rbank-es drift notes --ont model-2.ttl --old model-1.ttl",
    "rbank-es drift notes@HEAD~100 --ont model-2.ttl --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@ontology_options(f"The new ontology. {ONTOLOGY_HELP}", required=True)
@click.option("--old", "old_paths", metavar="PATH", multiple=True, help="The ontology as it was before.")
def drift(bank: str, paths: tuple[str, ...], old_paths: tuple[str, ...], as_json: bool) -> None:
    """List the items, query patterns and guides that name terms which an ontology doesn't have as it had them.

    A term is gone, renamed (another one has its name in another namespace, its label, or its use in the data), or has
    another domain or range. With --old, terms are also found by bare names, as in "the property hasColour". Without it,
    only terms in the ontology's own namespaces that don't exist are found.
    Nothing is retracted and nothing is recorded: the commands to do it are printed.
    """
    with opened_reader(bank) as reader:
        found: Drift = reader.ask("drift", ont=paths, old=old_paths, skip_unreadable=skips_unreadable())
    print_answer(found, "drift", lambda: _print(found), as_json)
    if found.erased:
        warn(f"of {count(found.erased, 'text')} the words were erased, so nobody can tell which terms they name")


def _print(found: Drift) -> None:
    from rbank_es.ontology.prefixes import Prefixes

    shorten = Prefixes(found.prefixes).shorten
    for title, broken in (("name terms that are gone or renamed", True), ("name terms that changed", False)):
        listed = [each for each in found.rows if each.broken is broken]
        if not listed:
            continue
        echo_heading(f"{title}: {count(len(listed), 'text')}")
        rows = [row for each in listed for row in _rows(each, shorten)]
        headers = ["text", "kind", "state", "uses", "wins", "term", "change", "title"]
        echo_table(headers, rows, flexible=["title", "change"])
        echo("to end those that don't hold any more:" if broken else "to end one, should it not hold any more:")
        for each in listed:
            echo_command(each.command.removeprefix("rbank-es "), NEXT)
    echo(f"\ntexts that name changed terms: {len(found.rows):,} of {found.texts_total:,}; nothing was recorded")


def _rows(each: DriftedText, shorten: Callable[[str], str]) -> Iterator[list[Cell]]:
    """Yield a line for each change of a term; the facts of the text stand in the first one only."""
    facts: list[Cell] = [each.id, each.kind, each.state, each.uses, each.wins]
    title = each.title or "[erased]"
    for term in each.terms:
        for change in term.changes:
            yield [*facts, term.written, _sentence(change, shorten), title]
            facts, title = ["", "", "", None, None], ""


def _sentence(change: TermChange, shorten: Callable[[str], str]) -> str:
    """Return a change in words, with prefixed names."""
    now, before, after = (", ".join(map(shorten, names)) for names in (change.now, change.before, change.after))
    if change.change == "renamed":
        return f"now {now} (same {change.how})"
    if change.change == "gone":
        return f"gone; near: {now}" if now else "gone"
    return f"{change.change} was {before or 'open'}, is {after or 'open'}"
