"""Finding things by words: classes and properties by what the schema says of them, individuals by their labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es.ontology import rdf_names
from rbank_es.tools.lookup.resource_queries import LOOK_S
from rbank_es.tools.lookup.schema_tables import Tables
from rbank_es.tools.lookup.term_names import literal, words_of
from rbank_es.tools.runtime.row_pages import clip

if TYPE_CHECKING:
    from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo
    from rbank_es.sparql.source import Source

TEXT_CHARS = 200
"""Longer texts of individuals name nothing, and are not searched."""

LOOKED_THROUGH = 10
"""How many times the hits wanted are looked through to find the best."""

WORDS = 8
"""Words of a search that are used on individuals."""

LABEL_CHARS = 80
"""What is shown of a label."""

_FORMAL = (rdf_names.OWL, rdf_names.RDFS, rdf_names.RDF, rdf_names.SH)
"""Namespaces whose types belong to a schema, not to data."""


class Hit(NamedTuple):
    """Something that was found, and how well it fits, from 0 to 4."""

    score: float
    row: dict[str, Any]


def search(source: Source, tables: Tables, text: str, most: int) -> list[Hit]:
    """What has the words of a text, best first; of what fits alike, classes and properties before individuals."""
    found = [*_terms(tables, text), *_individuals(source, tables, text, most)]
    return sorted(found, key=lambda hit: -hit.score)


def _terms(tables: Tables, text: str) -> list[Hit]:
    """Classes and properties that have some of the words in name, label, comment or notes, the most telling first."""
    from rbank_es.ontology.prefixes import local_name

    wanted = words_of(text)
    kinds: tuple[tuple[str, Collection[ClassInfo | PropertyInfo]], ...] = (
        ("class", tables.classes.values()),
        ("property", tables.properties.values()),
    )
    hits: list[Hit] = []
    for kind, group in kinds:
        for each in group:
            score = _score(wanted, words_of(local_name(each.iri)), words_of(each.label), each.comment, each.notes)
            row = {"uri": tables.names.shorten(each.iri), "kind": kind, "label": clip(each.label, LABEL_CHARS)}
            hits += [Hit(score, row)] if score else []
    return hits


def _score(wanted: list[str], name: list[str], label: list[str], comment: str, notes: Sequence[str]) -> float:
    """How well a term fits: its name or label is the search, has all words, has some, or its comment or a note has."""
    if not wanted:
        return 0.0
    best = max(_fit(wanted, name), _fit(wanted, label)) or _fit(wanted, words_of(comment)) / 10
    # What only a note says comes after all else.
    return best or max((_fit(wanted, words_of(note)) for note in notes), default=0.0) / 1_000


def _fit(wanted: list[str], words: list[str]) -> float:
    if words == wanted:
        return 4.0
    hits = sum(1.0 if word in words else 0.5 * any(word in each for each in words) for word in wanted)
    # Of two that have the words, the one that says less besides is meant.
    return hits / len(wanted) * (2.0 + 1.0 / max(1, len(words))) if hits else 0.0


def _individuals(source: Source, tables: Tables, text: str, most: int) -> list[Hit]:
    """Things of the data of which one short text, or the local name, has all the words; `label` is that text."""
    from rbank_es.ontology.prefixes import local_name

    wanted = words_of(text)[:WORDS]
    if not wanted or not tables.schema.individuals:
        return []
    rows = most * LOOKED_THROUGH
    best: dict[str, tuple[float, str]] = {}
    for subject, said in source.query(_individuals_query(wanted, rows), rows=rows, timeout_s=LOOK_S)[1].rows:
        if subject is None or subject.value in tables.classes or subject.value in tables.properties:
            continue
        label = said.value if said is not None else ""
        fit = max(_fit(wanted, words_of(label)), _fit(wanted, words_of(local_name(subject.value))))
        best[subject.value] = max(best.get(subject.value, (0.0, "")), (fit, label))
    return [
        Hit(score, {"uri": tables.names.shorten(iri), "kind": "individual", "label": clip(label, LABEL_CHARS)})
        for iri, (score, label) in sorted(best.items(), key=lambda found: (len(found[0]), found[0]))
    ]


def _individuals_query(wanted: list[str], rows: int) -> str:
    """A query for things of the data and their short texts that have all the words."""
    formal = " || ".join(f"STRSTARTS(STR(?class), {literal(space)})" for space in _FORMAL)
    in_text, in_name = (
        " && ".join(f"CONTAINS(LCASE(STR({name})), {literal(word)})" for word in wanted) for name in ("?text", "?name")
    )
    return (
        f"SELECT DISTINCT ?s ?text WHERE {{ ?s a ?class FILTER(isIRI(?s) && !({formal})) "
        f"{{ ?s ?p ?text FILTER(isLiteral(?text) && STRLEN(STR(?text)) <= {TEXT_CHARS} && {in_text}) }} UNION "
        f'{{ ?s a ?any BIND(REPLACE(STR(?s), "^.*[/#]", "") AS ?name) FILTER({in_name}) }} }} '
        f"ORDER BY ?s ?text LIMIT {rows}"
    )
