"""`drift`: what a bank learned about an ontology that has changed since, and what could be retracted."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es import limits
from rbank_es.bank.locator import split_point
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at
from rbank_es.cli.shared.correction_report import NEXT
from rbank_es.cli.shared.ontology_options import ONTOLOGY_HELP, ontology_options, open_named, read_ontology
from rbank_es.cli.shared.output import Cell, echo, echo_command, echo_heading, echo_json, echo_table, truncate, warn
from rbank_es.errors import QueryFailed
from rbank_es.events.readable_text import count
from rbank_es.system.command_lines import command_on
from rbank_es.system.shown_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.bank.drifted_texts import DriftedText
    from rbank_es.ontology.schema_changes import TermChange
    from rbank_es.ontology.written_terms import BareNames
    from rbank_es.sparql.source import Source

Changes = Mapping[str, "tuple[TermChange, ...]"]


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
    from rbank_es.bank.drifted_texts import drifted, named_terms, texts_at

    opened, point = open_at(bank)
    with opened, ExitStack() as stack:
        new = open_named(read_ontology(paths), stack)
        old = open_named(read_ontology(old_paths), stack) if old_paths else None
        position = opened.resolve(point)
        texts = texts_at(opened, position)
        known = {**new.surroundings.prefixes, **(old.surroundings.prefixes if old is not None else {})}
        named = named_terms(texts, known, _bare_names(old, new))
        changes = _changes([iri for each in named for iri in each], new, old)
    found, erased = drifted(texts, named, changes), sum(each.erased for each in texts)
    if as_json:
        facts = {"bank": opened.name, "position": position, "looked_at": len(texts), "erased": erased}
        listed = [
            msgspec.to_builtins(each) | {"broken": each.broken, "proposal": _proposal(bank, each)} for each in found
        ]
        echo_json(facts | {"drifted": listed})
        return
    _print(bank, found, len(texts), known)
    if erased:
        warn(f"of {count(erased, 'text')} the words were erased, so nobody can tell which terms they name")


# ---------------------------------------------------------------- changes


def _bare_names(old: Source | None, new: Source) -> BareNames | None:
    from rbank_es.ontology.written_terms import BareNames

    if old is None or old.schema is None or new.schema is None:
        return None
    return BareNames.of_changes(old.schema, new.schema)


def _changes(iris: list[str], new: Source, old: Source | None) -> Changes:
    """Return the changes of the terms of both schemas, and of the named individuals that only the old data have."""
    from rbank_es.ontology.schema_changes import TermChange, gone_from, schema_changes

    assert new.schema is not None  # an ontology from files has one
    if old is None:
        suspected = gone_from(new.schema, iris)
        there = _in_data(suspected, new)
        return {iri: changes for iri, changes in suspected.items() if iri not in there}
    assert old.schema is not None
    changes = schema_changes(old.schema, new.schema, frozenset(iris))
    terms = {each.iri for schema in (old.schema, new.schema) for each in schema.classes}
    terms |= {each.iri for schema in (old.schema, new.schema) for each in schema.properties}
    before = _in_data([iri for iri in iris if iri not in terms], old)
    gone = before - _in_data(before, new)
    return changes | {iri: (TermChange(iri=iri, kind=None, change="gone"),) for iri in gone}


def _in_data(iris: Iterable[str], source: Source) -> frozenset[str]:
    """Return the IRIs that occur in the data of a source. Raises `QueryFailed` where these can't be queried."""
    from rbank_es.sparql.source import is_valid_iri, terms_in_data

    # No data hold an invalid IRI.
    asked = [iri for iri in dict.fromkeys(iris) if is_valid_iri(iri)]
    found: set[str] = set()
    for start in range(0, len(asked), limits.JUDGE_TERMS):
        there = terms_in_data(asked[start : start + limits.JUDGE_TERMS], source)
        if there is None:
            hint = "try again on a machine that is less busy, or with fewer files"
            raise QueryFailed("timeout", f"the data of {source.id} could not be searched for the terms", hint)
        found |= there
    return frozenset(found)


# ---------------------------------------------------------------- the report


def _proposal(bank: str, each: DriftedText) -> str:
    """Return the command that a person could type: it ends an item, or writes another guide."""
    place = shown_locator(split_point(bank)[0])
    if each.kind == "guide":
        return command_on("guide", [place], "--ont NEW --lm MODEL --again")
    names = ", ".join(term.written for term in each.terms)
    why = shlex.quote(truncate(f"It names what the ontology changed: {names}", limits.DRIFT_REASON_CHARS))
    return command_on("retract", [place, each.id], f"--because {why}")


def _print(bank: str, found: tuple[DriftedText, ...], looked_at: int, prefixes: Mapping[str, str]) -> None:
    from rbank_es.ontology.prefixes import Prefixes

    shorten = Prefixes(prefixes).shorten
    for title, broken in (("name terms that are gone or renamed", True), ("name terms that changed", False)):
        listed = [each for each in found if each.broken is broken]
        if not listed:
            continue
        echo_heading(f"{title}: {count(len(listed), 'text')}")
        rows = [row for each in listed for row in _rows(each, shorten)]
        headers = ["text", "kind", "state", "uses", "wins", "term", "change", "title"]
        echo_table(headers, rows, flexible=["title", "change"])
        echo("to end those that don't hold any more:" if broken else "to end one, should it not hold any more:")
        for each in listed:
            echo_command(_proposal(bank, each), NEXT)
    echo(f"\ntexts that name changed terms: {len(found):,} of {looked_at:,}; nothing was recorded")


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
