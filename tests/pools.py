"""Values of small pools for generated histories, and strategies that draw several of them at once.

Ids come from small pools, so that collisions, overrules, restores, duplicates and unknown ids happen all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, get_args

from hypothesis import strategies as st

from rbank_es.events import Erased
from rbank_es.events.items import ItemHead, ItemText, Polarity, Source, polarity_of

RUNS = ("run-1", "run-2", "run-3", "run-4")
ITEMS = ("item-a", "item-b", "item-c", "item-d", "item-e", "item-f")
TOOLS = ("mem_search", "sparql_query", "ctx_peek")
DOMAINS = ("prov", "uniprot")
GUIDES = ("guide-1", "guide-2")
SOURCES: tuple[Source, ...] = get_args(Source)
WORDS = ("bound", "the", "query", "Query", "class", "label", "LIMIT", "first", "count", "taxa", "check", "prefix")
ODD = ("", "naïve café", "🦉 owl", 'a "quoted" OR b', "NEAR(x*", "nul\x00inside", "two\nlines", "Ünïcödé ΣΊΣΥΦΟΣ")

# Dyadic fractions: their sums are exact in every order, in Python and in SQL. Half of the optional values are None.
SIXTEENTHS = (*(None,) * 65, *(number / 16 for number in range(65)))
OCCURRED = (*(None,) * 10, *(f"2026-01-{day:02}T12:00:00.000000Z" for day in range(1, 11)))
EVEN_UP_TO = 2**24
"""Integers up to here are drawn evenly; of larger ranges, Hypothesis prefers the small ones."""

# Most of a law's time went into its draws, five sixths at worst, so a draw decides as much as it can: the strategies
# below decode one integer. Strategies are made once, because one takes far longer to make than to draw from.


def one_of_each(*pools: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """A value of each pool, in one draw."""
    size = prod(map(len, pools))
    assert size <= EVEN_UP_TO, size

    def decoded(number: int) -> tuple[Any, ...]:
        made = []
        for pool in pools:
            number, index = divmod(number, len(pool))
            made.append(pool[index])
        return tuple(made)

    return st.integers(0, size - 1).map(decoded)


def several(pool: Sequence[Any], max_size: int, min_size: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    """Up to so many values of a pool, every number of them equally often, in one draw."""
    sizes = max_size - min_size + 1
    size = sizes * len(pool) ** max_size
    assert size <= EVEN_UP_TO, size

    def decoded(number: int) -> tuple[Any, ...]:
        number, more = divmod(number, sizes)
        return tuple(pool[number // len(pool) ** place % len(pool)] for place in range(min_size + more))

    return st.integers(0, size - 1).map(decoded)


def _text_of(number: int) -> str:
    number, kind = divmod(number, 4)
    if kind == 3:
        return ODD[number % len(ODD)]
    number, more = divmod(number, 5)
    return " ".join(WORDS[number // len(WORDS) ** place % len(WORDS)] for place in range(1 + more))


runs = st.sampled_from(RUNS)
maybe_runs = st.sampled_from((*(None,) * len(RUNS), *RUNS))
item_ids = st.sampled_from(ITEMS)
some_items = several(ITEMS, 3)
two_items = several(ITEMS, 2)
counts = st.integers(0, 5_000)
maybe_counts = st.integers(0, 10_001).map(lambda number: number // 2 if number % 2 else None)
TEXTS_N = 4 * 5 * len(WORDS) ** 5
texts = st.integers(0, TEXTS_N - 1).map(_text_of)
maybe_texts = st.integers(0, 2 * TEXTS_N - 1).map(lambda number: _text_of(number // 2) if number % 2 else None)


def uuid_of(number: int, kind: int = 0) -> str:
    """A well-formed version 7 UUID for a number; different kinds never meet."""
    return f"{kind:08x}-0000-7000-8000-{number:012x}"


def extraction_id(number: int) -> str:
    """The id of the extraction with that number (from 0) in a history."""
    return uuid_of(number, kind=0xE)


POLARITIES = tuple((src, polarity) for src in SOURCES for polarity in (polarity_of(src), "success", "failure"))
ROLES, SCOPES = (None, None, "planner"), ("", "", "general", "exception")


def _head_of(id: str, kind: tuple[tuple[Source, Polarity], str | None, str, str | None]) -> ItemHead:
    (src, polarity), role, scope, domain = kind
    return ItemHead(id=id, src=src, polarity=polarity, role=role, scope=scope, domain=domain)


heads = st.builds(_head_of, item_ids, one_of_each(POLARITIES, ROLES, SCOPES, (None, *DOMAINS)))
words = st.builds(ItemText, title=texts, desc=texts, content=texts, tags=several(("sparql", "schema"), 2))
ERASED = st.integers(0, 9).map(lambda digit: Erased(digest=str(digit) * 64))


CALLS = ((), (), ("call-1",), ("call-1", "call-2"))
"""Ids of calls of a model, which no event may have."""
