"""Which terms successful runs asked with: a ranking that comes from experience instead of from the schema.

Off by default. It tells the agent what earlier agents found out, so a sense card that uses it is no longer the
schema's alone, and an experiment that switches layers on and off would measure two things at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rbank_es.errors import QueryRefused

if TYPE_CHECKING:
    from rbank_es.bank import Bank


def observed_terms(
    bank: Bank, ontology: str, prefixes: Mapping[str, str] | None = None, point: str | int | None = None
) -> tuple[str, ...]:
    """IRIs of the classes and properties in the SPARQL that successful runs submitted, up to a point.

    A run counts if its standing learning judgment is success; how it was scored is never looked at. Those in most
    runs come first, then by IRI. A query that can't be read counts for nothing.

    Args:
        bank: the bank; only read.
        ontology: id of the ontology, or of the endpoint, that the runs were about.
        prefixes: prefixes that queries may use undeclared, beside the well-known ones.
        point: a point in time; None means the head.

    Raises `BadPoint`.
    """
    counts: Counter[str] = Counter()
    with bank.as_of(point) as view:
        for run in view.rows("runs", success=1):
            if run["sparql"] and ontology in (run["ontology"], run["endpoint"]):
                counts.update(_terms(run["sparql"], prefixes or {}))
    return tuple(sorted(counts, key=lambda iri: (-counts[iri], iri)))


def _terms(query: str, prefixes: Mapping[str, str]) -> set[str]:
    from rbank_es.ontology import rdf_names
    from rbank_es.sparql.guard.names import uses
    from rbank_es.sparql.parser.query import parse_query

    try:
        parsed = parse_query(query, prefixes)
    except QueryRefused:
        return set()
    return {use.iri for use in uses(parsed.tree, whole=True)} - {rdf_names.TYPE}
