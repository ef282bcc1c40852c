"""Finding things by words: classes and properties by what the schema says of them, individuals by their labels."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rbank_es.ontology import names
from rbank_es.tools.looking import LOOK_S
from rbank_es.tools.naming import literal, reference, words_of
from rbank_es.tools.schema_answers import Tables
from rbank_es.tools.slicing import clip

if TYPE_CHECKING:
    from rbank_es.ontology.schema import ClassInfo, PropertyInfo
    from rbank_es.sparql.source import Source

LABEL_PROPERTIES = 5
"""Properties that name things of which individuals' labels are searched."""

WORDS = 8
"""Words of a search that are used on individuals."""

COMMENT_CHARS = 80
"""What is shown of a comment."""

_FORMAL = (names.OWL, names.RDFS, names.RDF, names.SH)
"""Namespaces whose types belong to a schema, not to data."""


def search_schema(tables: Tables, text: str) -> list[dict[str, Any]]:
    """Classes and properties that have the words in name, label or comment; best first, ties by rank in the data."""
    from rbank_es.ontology.prefixes import local_name

    wanted = words_of(text)
    if not wanted:
        return []
    scored: list[tuple[float, int, dict[str, Any]]] = []
    kinds: tuple[tuple[str, Collection[ClassInfo | PropertyInfo]], ...] = (
        ("class", tables.classes.values()),
        ("property", tables.properties.values()),
    )
    for kind, group in kinds:
        for place, each in enumerate(group):
            score = _score(wanted, words_of(local_name(each.iri)), words_of(each.label), each.comment)
            if score:
                row = {"uri": tables.names.shorten(each.iri), "kind": kind, "label": clip(each.label, COMMENT_CHARS)}
                scored.append((-score, place, row))
    return [row for _, _, row in sorted(scored, key=lambda found: (found[0], found[1], found[2]["uri"]))]


def _score(wanted: list[str], name: list[str], label: list[str], comment: str) -> float:
    """How well a term fits: its name or label is the search, has all words, has some, or its comment has."""
    best = max(_fit(wanted, name), _fit(wanted, label))
    return best if best else _fit(wanted, words_of(comment)) / 10


def _fit(wanted: list[str], words: list[str]) -> float:
    if words == wanted:
        return 4.0
    hits = sum(1.0 if word in words else 0.5 * any(word in each for each in words) for word in wanted)
    # Of two that have the words, the one that says less besides is meant.
    return hits / len(wanted) * (2.0 + 1.0 / max(1, len(words))) if hits else 0.0


def search_individuals(source: Source, tables: Tables, text: str, most: int) -> list[dict[str, Any]]:
    """Things of the data whose label or local name has all the words: rows of `uri`, `kind` and `label`."""
    wanted = words_of(text)[:WORDS]
    if not wanted or not tables.schema.individuals:
        return []
    labels = " ".join(reference(iri) for iri in [*tables.schema.label_properties][:LABEL_PROPERTIES])
    texts = 'LCASE(CONCAT(REPLACE(STR(?s), "^.*[/#]", ""), " ", STR(?l)))'
    label = f"OPTIONAL {{ VALUES ?p {{ {labels} }} ?s ?p ?label }}" if labels else ""
    tests = " && ".join(f"CONTAINS({texts}, {literal(word)})" for word in wanted)
    formal = " || ".join(f"STRSTARTS(STR(?class), {literal(space)})" for space in _FORMAL)
    answer = source.query(
        f"SELECT DISTINCT ?s ?label WHERE {{ ?s a ?class FILTER(isIRI(?s) && !({formal})) {label} "
        f'BIND(COALESCE(?label, "") AS ?l) FILTER({tests}) }} LIMIT {most}',
        rows=most,
        timeout_s=LOOK_S,
    )[1]
    found: dict[str, dict[str, Any]] = {}
    for subject, named in answer.rows:
        if subject is None or subject.value in tables.classes or subject.value in tables.properties:
            continue
        said = clip(named.value, COMMENT_CHARS) if named is not None else ""
        row = {"uri": tables.names.shorten(subject.value), "kind": "individual", "label": said}
        found.setdefault(subject.value, row)
    return sorted(found.values(), key=lambda row: (len(row["uri"]), row["uri"]))
