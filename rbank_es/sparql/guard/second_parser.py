"""The second parser: the form and the outer LIMIT that rdflib reads in a query.

The LIMIT is put into the text by our own parsing of it. A mistake there would send a query without a limit, so
another parser must agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from threading import Lock, Thread
from typing import Any, NamedTuple

from rbank_es import limits
from rbank_es.sparql.parser.query import ParsedQuery
from rbank_es.sparql.parser.tokens import Edit

STATEMENTS_IN_A_ROW = 40
"""rdflib recurses for every statement of a group, and gives up at 85."""


class RdflibReading(NamedTuple):
    """The form and the LIMIT of a text as rdflib reads it, or where and why it can't, or that it is `too_deep`."""

    form: str = ""
    limit: int | None = None
    error: str = ""
    offset: int = 0
    too_deep: bool = False


def edits_for_rdflib(parsed: ParsedQuery) -> Iterator[Edit]:
    """Yield edits that change no meaning, where rdflib (7.6) reads less than SPARQL 1.1 has.

    A negative decimal is a TypeError to it; between a path and its `*`, or a string and its language or datatype, it
    wants nothing to stand; and a long group needs an empty one amid its statements, at which its recursion ends.
    """
    for left, right in pairwise(parsed.tokens):
        if left.is_symbol("-") and right.kind == "number" and not right.between:
            yield Edit(left.offset, left.end, "+")
        ends_path = left.kind in ("iri", "name") or left.text in (")", "a")
        of_string = right.kind == "language" or right.is_symbol("^^") or left.is_symbol("^^")
        if right.between and (of_string or (ends_path and right.is_symbol("*", "+", "?"))):
            yield Edit(right.offset - len(right.between), right.offset, "")
    where = parsed.tree.body.where
    if where is None or (parsed.tree.form == "construct" and parsed.tree.template is None):
        return
    breaks = sorted(offset for offset in parsed.notes.breaks if offset > where.offset)
    for offset in breaks[STATEMENTS_IN_A_ROW::STATEMENTS_IN_A_ROW]:
        yield Edit(offset, offset, "{} ")


@lru_cache(maxsize=limits.QUERIES_CONFIRMED)
def read_by_rdflib(query: str) -> RdflibReading:
    """Return rdflib's reading of a text; never raises.

    It runs in a thread of its own: the parser recurses, and how much a query may nest must not depend on how deep its
    caller's stack is.
    """
    parse = load_second_parser()
    found: list[RdflibReading] = []
    thread = Thread(target=lambda: found.append(_reading(parse, query)), name="rbank-second-parser", daemon=True)
    thread.start()
    thread.join()
    return found[0] if found else RdflibReading(error="the second parser stopped")


def _reading(parse: Callable[[str], Any], query: str) -> RdflibReading:
    from pyparsing import ParseBaseException

    try:
        # pyparsing widens tabs, which would shift every place.
        tree = parse(query.replace("\t", " "))[1]
    except ParseBaseException as error:
        return RdflibReading(error=re.sub(r"\s+", " ", str(error.msg))[:200], offset=error.loc)
    except RecursionError:
        return RdflibReading(too_deep=True)
    except Exception as error:  # Whatever else a parser of this size may raise: a text that it can't read isn't sent.
        return RdflibReading(error=type(error).__name__)
    # Attributes, never `get`: that returns the key's own name where the key is missing.
    slice_ = tree.limitoffset
    limit = None if slice_ is None or slice_.limit is None else int(slice_.limit)
    return RdflibReading(form=str(tree.name).removesuffix("Query").lower(), limit=limit)


_loading = Lock()


def load_second_parser() -> Callable[[str], Any]:
    """Return rdflib's parser, ready for several threads at once. Loading it takes 0.5 s, once in a process."""
    with _loading:  # held while loading alone, never while parsing
        return _loaded()


@cache
def _loaded() -> Callable[[str], Any]:
    from rdflib.plugins.sparql.parser import Query

    def parse(query: str) -> Any:
        return Query.parse_string(query, parse_all=True)

    parse("ASK {}")  # simplifies the grammar in place, which is not thread-safe
    waiting, seen = [Query], set()
    while waiting:
        element = waiting.pop()
        if id(element) not in seen:
            seen.add(id(element))
            element.parseAction = [_safe_at_first(action) for action in element.parseAction]
            waiting += element.recurse()
    return parse


def _safe_at_first(action: Callable[..., Any]) -> Callable[..., Any]:
    """Return a parse action whose first call runs alone: pyparsing then tries how many arguments it takes.

    Two threads that try at once overshoot, and the action fails for ever.
    """
    first, tried = Lock(), False

    def call(*arguments: Any) -> Any:
        nonlocal tried
        if tried:
            return action(*arguments)
        with first:
            result = action(*arguments)
            tried = True
            return result

    return call
