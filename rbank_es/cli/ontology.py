"""`ontology`: the contents of an ontology, and the sense card that agents get of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rbank_es import limits
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.ontology_options import read_ontology, skip_option, skips_unreadable
from rbank_es.cli.shared.output import (
    Cell,
    echo,
    echo_fields,
    echo_heading,
    echo_json,
    echo_table,
    format_size,
    safe_block,
    styled,
)
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count, safe_line
from rbank_es.ontology.count_queries import count_queries, sizes

if TYPE_CHECKING:
    from rbank_es.ontology.loader import Ontology
    from rbank_es.ontology.schema_model import Schema
    from rbank_es.policies.packed_text import Packed

SOURCES = {
    "rdfs": "rdfs:domain, rdfs:range",
    "owl": "OWL restrictions, unions",
    "includes": "domainIncludes, rangeIncludes",
    "shacl": "SHACL shapes",
    "void": "VoID partitions",
}
"""Sources of constraints, in words."""


class OntologyFacts(NamedTuple):
    """An ontology with its sense card, or a VoID description, which has no files of its own."""

    id: str
    schema: Schema
    card: Packed
    ontology: Ontology | None = None


@command("ontology", "rbank-es ontology lights", "rbank-es ontology model.ttl data/ --json")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--id", "id", metavar="ID", help="The ontology's name; default: of its first file.")
@skip_option
@click.option("--void", "is_void", is_flag=True, help="PATH is a VoID description of an endpoint.")
@click.option("--queries", is_flag=True, help="List every number known of the ontology, with the SPARQL that gives it.")
@click.option(
    "--card-budget", "budget_chars", metavar="N", type=int, default=limits.CONTEXT_L0_CHARS, show_default=True,
    help="Characters of the sense card.",
)  # fmt: skip
def ontology(
    paths: tuple[str, ...], id: str | None, is_void: bool, queries: bool, budget_chars: int, as_json: bool
) -> None:
    """Show the contents of an ontology: size, classes, properties, namespaces, constraints, and its sense card.

    PATH is a file in Turtle, TriG, RDF/XML, N-Triples, N-Quads or JSON-LD, or a directory of these; several are one
    dataset. The word 'lights' is the small ontology that comes with rbank-es, unless a file has that name. Parsed
    graphs are cached.
    """
    if queries and is_void:
        raise BadInput("the numbers of a VoID description are as published: give --queries with an ontology's files")
    found = _described(paths, id, budget_chars) if is_void else _loaded(paths, id, budget_chars)
    if queries:
        _print_queries(found.schema, as_json=as_json)
    elif as_json:
        echo_json(_as_json(found))
    else:
        _print(found)


def _loaded(paths: tuple[str, ...], id: str | None, budget_chars: int) -> OntologyFacts:
    from rbank_es.context.ontology_card import sense_card

    found = read_ontology(paths, id)
    card = sense_card(found.schema, found.prefixes, budget_chars, name=found.id)
    return OntologyFacts(found.id, found.schema, card, found)


def _described(paths: tuple[str, ...], id: str | None, budget_chars: int) -> OntologyFacts:
    from rbank_es.context.ontology_card import sense_card
    from rbank_es.ontology.prefixes import Prefixes
    from rbank_es.ontology.void import load_void

    if len(paths) != 1:
        raise BadInput(f"an endpoint has one VoID description, and {count(len(paths), 'path')} were given")
    if skips_unreadable():
        raise BadInput("a VoID description is read whole: leave out --skip-unreadable")
    schema = load_void(paths[0])
    name = id or Path(paths[0]).stem
    return OntologyFacts(name, schema, sense_card(schema, Prefixes(schema.prefixes), budget_chars, name=name))


# ---------------------------------------------------------------- figures


def constraints_by_source(schema: Schema) -> dict[str, dict[str, int]]:
    """Return the counts of domains, ranges and cardinalities by source; sources without any are left out."""
    kinds = {
        "domains": Counter[str](bound.source for info in schema.properties for bound in info.domains),
        "ranges": Counter[str](bound.source for info in schema.properties for bound in info.ranges),
        "cardinalities": Counter[str](found.source for found in schema.cardinalities),
    }
    found = {source: {kind: counts[source] for kind, counts in kinds.items()} for source in SOURCES}
    return {source: numbers for source, numbers in found.items() if any(numbers.values())}


def axioms(schema: Schema) -> dict[str, int]:
    """Return the counts of axioms that matter for queries, by kind."""
    infos = schema.properties
    pairs = {tuple(sorted((info.iri, other))) for info in infos for other in info.inverses}
    return {
        "subclass statements": sum(len(info.parents) for info in schema.classes),
        "disjoint pairs": len(schema.disjoint),
        "inverse pairs": len(pairs),
        "functional": sum(info.functional for info in infos),
        "transitive": sum(info.transitive for info in infos),
        "symmetric": sum(info.symmetric for info in infos),
        "deprecated": sum(info.deprecated for info in schema.classes) + sum(info.deprecated for info in infos),
    }


def _as_json(found: OntologyFacts) -> dict[str, Any]:
    files, left_out = (found.ontology.files, found.ontology.left_out) if found.ontology else ((), ())
    listed = [
        {"path": str(file.path), "format": file.format, "size_bytes": file.size_bytes, "sha256": file.sha256}
        for file in files
    ]
    return {
        "id": found.id,
        "title": found.schema.title,
        "digest": found.ontology.digest if found.ontology else None,
        "cached": found.ontology.cached if found.ontology else False,
        "files": listed,
        "left_out": [
            {"path": each.path, "line": each.line, "reason": each.reason, "hint": each.hint} for each in left_out
        ],
        **{name.replace(" ", "_"): number for name, number in sizes(found.schema).items()},
        "formalisms": found.schema.formalisms,
        "namespaces": found.schema.prefixes,
        "constraints": constraints_by_source(found.schema),
        "axioms": {name.replace(" ", "_"): number for name, number in axioms(found.schema).items()},
        "card": found.card,
    }


# ---------------------------------------------------------------- printing


def _print(found: OntologyFacts) -> None:
    schema = found.schema
    echo(styled(safe_block(schema.title or found.id), "bold"))
    numbers = {name: number for name, number in sizes(schema).items() if number}
    parsed = None if found.ontology is None else "earlier, from the cache" if found.ontology.cached else "just now"
    echo_fields({"id": found.id, **numbers, "formalisms": ", ".join(schema.formalisms), "parsed": parsed})
    if found.ontology is not None:
        echo_heading("files")
        _files(found.ontology)
    echo_heading("namespaces")
    echo_table(
        ["prefix", "namespace"], [[prefix, iri] for prefix, iri in schema.prefixes.items()], flexible=["namespace"]
    )
    echo_heading("constraints")
    _constraints(schema)
    card = found.card
    echo_heading(f"sense card ({len(card.text):,} of {card.budget_chars:,} characters)")
    echo(safe_block(card.text))
    if card.cut:
        echo(styled(f"\nleft out: {safe_line(card.cut)}", "dim"))


def _print_queries(schema: Schema, *, as_json: bool) -> None:
    found = list(count_queries(schema))
    if as_json:
        echo_json([each._asdict() for each in found])
        return
    for each in found:
        echo(f"{styled(safe_line(each.name), 'bold')}: {each.number:,}")
        echo(safe_line(each.query))


def _files(found: Ontology) -> None:
    rows: list[list[Cell]] = [[file.path.name, file.format, format_size(file.size_bytes)] for file in found.files]
    echo_table(["file", "format", "size"], rows, flexible=["file"])


def _constraints(schema: Schema) -> None:
    rows: list[list[Cell]] = [
        [SOURCES[source], *numbers.values()] for source, numbers in constraints_by_source(schema).items()
    ]
    headers = ["found in", "domains", "ranges", "cardinalities"]
    echo_table(headers, rows, flexible=["found in"], none="no domains, ranges or cardinalities")
    echo()
    echo_fields({name: number for name, number in axioms(schema).items() if number})
