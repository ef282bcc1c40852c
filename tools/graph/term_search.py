"""A search of a source by words: among classes and properties by the schema, among individuals by a query."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es.limits import tool_limits
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import local_name
from rbank_es.system.text_cuts import cut
from rbank_es.text.spelled_words import composed, fold
from rbank_es.tools.graph.schema_tables import SchemaTables
from rbank_es.tools.graph.term_names import literal, reference

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source


class TermHit(NamedTuple):
    """A class, property or individual that a search found, and how well it fits, from 0 to 4."""

    score: float
    row: dict[str, Any]


def search(source: Source, tables: SchemaTables, text: str, most: int) -> list[TermHit]:
    """Return the things with the words of a text, best first; among equals, individuals last."""
    found = tables.words.fitting(text)
    terms = [_hit(tables, score, each.kind, each.term.iri, each.term.label) for score, each in found]
    return sorted([*terms, *_individuals(source, tables, text, most)], key=lambda hit: -hit.score)


def _hit(tables: SchemaTables, score: float, kind: str, iri: str, label: str) -> TermHit:
    shown = cut(label, tool_limits.SHOWN_LABEL_CHARS)
    return TermHit(score, {"uri": tables.names.shorten(iri), "kind": kind, "label": shown})


def _individuals(source: Source, tables: SchemaTables, text: str, most: int) -> list[TermHit]:
    """Return things of the data with all the words in one short text, which is their `label`, or in the local name."""
    words = tables.words
    wanted = words.stems(text)[: tool_limits.SEARCHED_WORDS]
    if not wanted or not tables.schema.individuals:
        return []
    # The query can't rank, so more rows are read than hits are wanted.
    rows = most * tool_limits.READ_FOR_A_HIT
    best: dict[str, tuple[float, str]] = {}
    query = _individuals_query(wanted, rows)
    for subject, text_cell in source.query(query, rows=rows, timeout_s=tool_limits.LOOK_TIME_S)[1].rows:
        if subject is None or subject.value in tables.classes or subject.value in tables.properties:
            continue
        label = text_cell.value if text_cell is not None else ""
        fit = max(words.fit(wanted, label), words.fit(wanted, local_name(subject.value)))
        best[subject.value] = max(best.get(subject.value, (0.0, "")), (fit, label))
    found = sorted(best.items(), key=lambda found: (len(found[0]), found[0]))
    return [_hit(tables, score, "individual", iri, label) for iri, (score, label) in found]


def _individuals_query(wanted: list[str], rows: int) -> str:
    """Return a query for things of the data and their short texts that have all the stems."""
    modelling = ", ".join(map(reference, sorted(rdf_names.MODELLING)))
    in_text, in_name = (
        " && ".join(f'REGEX(STR({name}), {literal(_pattern(stem))}, "i")' for stem in wanted)
        for name in ("?text", "?name")
    )
    most = tool_limits.SEARCHED_TEXT_CHARS
    return (
        f"SELECT DISTINCT ?s ?text WHERE {{ ?s a ?class FILTER(isIRI(?s) && ?class NOT IN ({modelling})) "
        f"{{ ?s ?p ?text FILTER(isLiteral(?text) && STRLEN(STR(?text)) <= {most} && {in_text}) }} "
        f'UNION {{ ?s a ?any BIND(REPLACE(STR(?s), "^.*[/#]", "") AS ?name) FILTER({in_name}) }} }} '
        f"ORDER BY ?s ?text LIMIT {rows}"
    )


def _pattern(stem: str) -> str:
    """Return the expression for words with a stem, whose letters may have accents or be full width.

    In English, the i of a stem may be a y (citi: city, cities).
    """
    return "".join(map(_letter, stem[:-1])) + ("[iy]" if stem[-1:] == "i" else _letter(stem[-1]))


def _letter(letter: str) -> str:
    """Return the expression for a letter in any of its forms; an accent may stand behind it."""
    forms = _forms().get(letter)
    return letter if forms is None else f"[{letter}{forms}][\u0300-\u036f]*"


@cache
def _forms() -> dict[str, str]:
    """Return the other characters that are read as a letter: with an accent, full width."""
    found: dict[str, str] = {}
    for char in map(chr, chain(range(0xC0, 0x250), range(0x370, 0x530), range(0x1E00, 0x2000), range(0xFF10, 0xFF5B))):
        read = fold(composed(char).lower())
        if read != char and len(read) == 1:
            found[read] = found.get(read, "") + char
    return found
