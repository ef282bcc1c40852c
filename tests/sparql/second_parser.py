"""rdflib's reading of a query, as the independent judge of ours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rdflib.plugins.sparql.parser import parseQuery

from rbank_es.sparql.parser.parsed_query import ParsedQuery
from rbank_es.sparql.parser.tokens import Edit, plain_edits, rewritten


def form_and_limit_by_rdflib(parsed: ParsedQuery) -> tuple[str, int | None] | None:
    """The form and the outer LIMIT of a query; None where rdflib can't read it, or gives up on its depth."""
    text = rewritten(parsed.text, [*plain_edits(parsed.tokens), *_edits_for_rdflib(parsed)])
    try:
        tree = parseQuery(text)[1]
    except Exception:  # Whatever a parser of this size may raise.
        return None
    # Attributes, never `get`: that returns the key's own name where the key is missing.
    part = tree.limitoffset
    limit = None if part is None or part.limit is None else int(part.limit)
    return str(tree.name).removesuffix("Query").lower(), limit


def _edits_for_rdflib(parsed: ParsedQuery) -> Iterator[Edit]:
    """Edits that change no meaning, where rdflib (7.6) reads less than SPARQL 1.1 has.

    A negative decimal is a TypeError to it; between a path and its `*`, or a string and its language or datatype, it
    wants nothing to stand.
    """
    for left, right in pairwise(parsed.tokens):
        if left.is_symbol("-") and right.kind == "number" and not right.between:
            yield Edit(left.offset, left.end, "+")
        ends_path = left.kind in ("iri", "name") or left.text in (")", "a")
        of_string = right.kind == "language" or right.is_symbol("^^") or left.is_symbol("^^")
        if right.between and (of_string or (ends_path and right.is_symbol("*", "+", "?"))):
            yield Edit(right.offset - len(right.between), right.offset, "")
