"""Ties at a LIMIT or an OFFSET: the pairs of queries that show whether ORDER BY alone decides which rows are kept.

Further sort keys are added behind those of the query: every column, once upwards and once downwards. Where rows at the
cut have equal keys and differ, the two queries keep different ones; where ORDER BY decides, they have the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.sparql.parser.query import ParsedQuery
from rbank_es.sparql.parser.tokens import Edit, rewritten
from rbank_es.sparql.parser.tree import Selection, projected, selections


def broken_ties(query: ParsedQuery) -> Iterator[tuple[str, str]]:
    """Yield a pair of queries for each SELECT with a LIMIT or an OFFSET, subselects too.

    Where the answers of a pair differ, the query's own answer depends on the engine.
    """
    for at, selection in _cuts(query):
        columns = projected(selection)
        if columns:
            begin = " " if selection.ordered else " ORDER BY "
            upwards, downwards = (
                begin + " ".join(f"{order}(?{name})" for name in columns) + " " for order in ("ASC", "DESC")
            )
            yield rewritten(query.text, [Edit(at, at, upwards)]), rewritten(query.text, [Edit(at, at, downwards)])


def _cuts(query: ParsedQuery) -> Iterator[tuple[int, Selection]]:
    """Yield the offset at which each slice begins, with the SELECT whose rows it cuts."""
    by_offset = {selection.offset: selection for selection in selections(query.tree)}
    depth, current, seen = 0, dict[int, Selection](), set[int]()
    for token in query.tokens:
        depth += token.is_symbol("{", "(", "[") - token.is_symbol("}", ")", "]")
        if token.offset in by_offset:
            current[depth] = by_offset[token.offset]
        # A slice is one cut, though it may have both words.
        if token.keyword in ("LIMIT", "OFFSET") and depth in current and current[depth].offset not in seen:
            seen.add(current[depth].offset)
            yield token.offset, current[depth]
