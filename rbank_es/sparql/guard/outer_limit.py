"""The outer LIMIT of a query: found by reading, put in by place, never by searching for the word."""

from __future__ import annotations

from typing import NamedTuple

from rbank_es.sparql.guard.edits import Edit
from rbank_es.sparql.parser.tree import Query


class Limited(NamedTuple):
    """What becomes of the LIMIT. `edit` is None where the text stays as it is."""

    theirs: int | None
    applied: int | None
    edit: Edit | None = None


def limited(query: Query, text: str, rows: int) -> Limited:
    """The LIMIT for at most `rows` rows and one more, which tells whether there are more.

    A smaller one, an OFFSET and everything within subselects stay as they are; ASK has none.
    """
    token, most = query.body.limit, rows + 1
    theirs = int(token.text) if token else None
    if query.form == "ask" or (theirs is not None and theirs <= most):
        return Limited(theirs, theirs)
    if token:
        return Limited(theirs, most, Edit(token.offset, token.end, str(most)))
    if query.values_offset is not None:
        return Limited(None, most, Edit(query.values_offset, query.values_offset, f"LIMIT {most}\n"))
    end = len(text.rstrip())
    # On a line of its own: the last one may be a comment.
    return Limited(None, most, Edit(end, end, f"\nLIMIT {most}"))
