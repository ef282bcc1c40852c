"""The second opinion: rdflib's parser reads a query anew, and says what form and what outer LIMIT it has.

The limit is put into the text by our own reading of it. A mistake there would be a query without a limit, so that
nothing goes out which another parser doesn't read in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from threading import Lock, Thread
from typing import Any, NamedTuple

from rbank_es.sparql.parser.tokens import Edit, Token

KEPT = 256
"""Judgements that are kept: an agent often sends the same query again."""

_SHORTER = (
    "a group may have some 80 statements: write ';' between those of one subject, list values in VALUES, "
    "or put braces around parts of the group"
)
_lock = Lock()


def edits_for_judge(tokens: tuple[Token, ...]) -> Iterator[Edit]:
    """What has to change for rdflib alone, where it (7.6) reads less than SPARQL 1.1 has.

    A negative decimal is a TypeError to it; and between a path and its `*`, or a string and its language or datatype,
    it wants nothing to stand.
    """
    for left, right in pairwise(tokens):
        if left.is_symbol("-") and right.kind == "number" and not right.between:
            yield Edit(left.offset, left.end, "+")
        ends_path = left.kind in ("iri", "name") or left.text in (")", "a")
        of_string = right.kind == "language" or right.is_symbol("^^") or left.is_symbol("^^")
        if right.between and (of_string or (ends_path and right.is_symbol("*", "+", "?"))):
            yield Edit(right.offset - len(right.between), right.offset, "")


class Judgement(NamedTuple):
    """What the second parser made of a text: its form and LIMIT, or where and why it couldn't be read."""

    form: str = ""
    limit: int | None = None
    error: str = ""
    hint: str = "write it more plainly: one statement per line, fewer brackets, IRIs in <…> or as prefixed names"
    offset: int = 0


@lru_cache(maxsize=KEPT)
def judge(query: str) -> Judgement:
    """What rdflib reads in a query; never raises.

    It runs in a thread of its own: the parser recurses deeply, and how much a query may nest must not depend on how
    deep its caller's stack is.
    """
    found: list[Judgement] = []
    thread = Thread(target=lambda: found.append(_judge(query)), name="rbank-judge", daemon=True)
    thread.start()
    thread.join()
    return found[0] if found else Judgement(error="the second parser stopped")


def _judge(query: str) -> Judgement:
    """The same, in this thread."""
    from pyparsing import ParseBaseException
    from rdflib.plugins.sparql.parser import Query

    try:
        # pyparsing widens tabs, which would shift every place; and its first use of a grammar is not thread-safe.
        with _lock:
            read = Query.parse_string(query.replace("\t", " "), parse_all=True)
    except ParseBaseException as error:
        return Judgement(error=_reason(error), offset=error.loc)
    except RecursionError:
        return Judgement(error="too deep or too long", hint=_SHORTER)
    # Whatever else a parser of this size may raise: what it can't read is not sent.
    except Exception as error:
        return Judgement(error=type(error).__name__)
    return Judgement(form=_form(read[1]), limit=_limit(read[1]))


def _reason(error: Any) -> str:
    """What the parser says, in one line."""
    return re.sub(r"\s+", " ", str(error.msg))[:200]


def _form(query: Any) -> str:
    """`select` of a SelectQuery, and so on."""
    return str(query.name).removesuffix("Query").lower()


def _limit(query: Any) -> int | None:
    """The outer LIMIT. Attributes, never `get`: that gives the key's own name where the key is missing."""
    modifiers = query.limitoffset
    return None if modifiers is None or modifiers.limit is None else int(modifiers.limit)
