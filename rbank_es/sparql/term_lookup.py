"""The look-up of terms in the data of a source, by one query for many."""

from __future__ import annotations

from collections.abc import Sequence

from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.query_engine import Caps
from rbank_es.sparql.parser.tokens import is_iri_text
from rbank_es.sparql.source import Source


def is_valid_iri(text: str) -> bool:
    """Return whether a text is a valid absolute IRI; no other text can be a term of any data."""
    from pyoxigraph import NamedNode

    try:
        NamedNode(text)
    except ValueError:
        return False
    return is_iri_text(text)


def terms_in_data(iris: Sequence[str], source: Source) -> frozenset[str] | None:
    """Return the valid IRIs, of some, that occur anywhere in the data; None if the data can't be queried."""
    if not iris:
        return frozenset()
    # Bypass the guard: valid IRIs can't break out of the query's text, and an endpoint's profile would refuse the
    # unbound patterns, although VALUES binds them.
    query = f"""SELECT DISTINCT ?term WHERE {{
    VALUES ?term {{ {" ".join(f"<{iri}>" for iri in iris)} }}
    FILTER (EXISTS {{ ?term ?p ?o }} || EXISTS {{ ?s ?term ?o }} || EXISTS {{ ?s ?q ?term }})
}}"""
    caps = Caps(rows=len(iris), timeout_s=source.profile.timeout_s)
    try:
        answer = source.engine.run(query, "select", caps)
    except QueryFailed:
        return None
    return frozenset(cell.value for row in answer.rows for cell in row if cell is not None)
