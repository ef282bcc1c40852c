"""Retrieval: the protocol by which a policy ranks the active items for a query.

A retrieval policy is one file with one class, and one pure function in it, `rank`: the query, the number of hits, the
filters and the index go in, ranked ids with scores come out. `RetrievalPolicy.choose` adds the settings that every
policy has: floor and domain preference. `search`, the agents' `mem_search` and related procedures, layer L2 of a
context, the judge's precedents and `verify --retrievals` all call `choose` of the policy in force.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, get_args

from msgspec import Meta, Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadPolicy, BadSearch
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import JUDGE_SOURCES, Polarity
from rbank_es.policies.policy import Policy, governing
from rbank_es.policies.vector_relevance import VectorRanking
from rbank_es.policies.word_relevance import Formula, QueryWord, WordRanking

Hits = Annotated[int, Meta(ge=0, le=limits.SEARCH_HITS)]
Nearness = Literal["own", "none", "other"]
"""How the domains of an item relate to the ontology of a run: it is one of them, else none is named, else others."""

NEARNESS: tuple[Nearness, ...] = get_args(Nearness)
_DOMAINS = "(SELECT value FROM json_each(c.domains))"
# An empty name among several domains: one of the candidates that count was about no ontology.
_NEAR: dict[Nearness, str] = {
    "own": f"? IN {_DOMAINS}",
    "none": f"? NOT IN {_DOMAINS} AND (c.domains = '[]' OR '' IN {_DOMAINS})",
    "other": f"? NOT IN {_DOMAINS} AND c.domains <> '[]' AND '' NOT IN {_DOMAINS}",
}


class Filters(Struct, frozen=True, kw_only=True):
    """Conditions on hits beside the query. `judges_source` selects one of the sources that only judges are given.

    `domain` is one of the item's; `nearness` selects items by how their domains relate to `ontology`. `without` are the
    ids of items that are left out.
    """

    polarity: str | None = None
    domain: str | None = None
    role: str | None = None
    judges_source: str | None = None
    ontology: str | None = None
    nearness: Nearness | None = None
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.judges_source not in (None, *JUDGE_SOURCES):
            raise BadSearch(f"{self.judges_source!r} is no source of judges: {', '.join(sorted(JUDGE_SOURCES))}")
        if self.polarity not in (None, *get_args(Polarity)):
            raise BadSearch(f"{self.polarity!r} is no polarity: give one of {', '.join(get_args(Polarity))}")

    def sql(self) -> tuple[str, list[str]]:
        """Return a condition on `active_items c`, and its parameters."""
        wanted = {"polarity": self.polarity, "role": self.role}
        given = {name: value for name, value in wanted.items() if value is not None}
        # Items for judges are excluded by default, because they would tell an agent how it is judged.
        judges = [self.judges_source] if self.judges_source else sorted(JUDGE_SOURCES)
        known = f"c.src {'IN' if self.judges_source else 'NOT IN'} ({', '.join('?' * len(judges))})"
        conditions = [known, *(f"c.{name} = ?" for name in given)]
        values = [*judges, *given.values()]
        if self.domain is not None:
            conditions.append(f"? IN {_DOMAINS}")
            values.append(self.domain)
        if self.nearness is not None:
            conditions.append(_NEAR[self.nearness])
            values.append(self.ontology or "")
        if self.without:
            conditions.append("c.item NOT IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(sorted(self.without)))
        return " AND ".join(conditions), values


class RankedItem(NamedTuple):
    """One item found, by id. `score` is from 0 up, higher is better, in the policy's own scale.

    bm25-1 and the policies that move its hits record SQLite's score instead, which is below 0: lower is better.
    """

    id: str
    score: float


class ItemIndex(Protocol):
    """The items active at one position, in SQL and read-only.

    `items_fts` is an FTS5 index (title, desc, content, tags) that holds exactly them, so `bm25(items_fts, …)` weighs
    no other document. `active_items` has their words and facts by `text`, the rowid of `items_fts`, the id as `item`,
    and all their domains as a JSON list, `domains`. `item_outcomes` has `support`, `wins` and `losses` by `item`: the
    candidates that landed on it and counted, and the uses that count by the attribution policy in force, under the
    verdicts that stood.
    """

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        ...

    def best(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return what BM25 with equal weights finds for words, any of them, or None where only SQL can tell.

        The ids are in the order in which SQL would give them, and none of them tie.
        """
        ...

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best `k` items that pass the filters, as `word_relevance.rank_documents` defines them."""
        ...

    def by_vector(self, query: str, model: str, filters: Filters) -> VectorRanking | None:
        """Return how near the items that pass the filters are to a query, by the vectors of a model at the position.

        None where the query has no vector there.
        """
        ...


class RetrievalPolicy(Policy, frozen=True, kw_only=True):
    """A rule that ranks items for a query. Override `words` and `rank`."""

    kind: ClassVar[PolicyKind] = "retrieval"

    k: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.SEARCH_HITS,
            description="Hits of a search and of mem_search whose caller gives no number. Default: 6, because their "
            "titles and descriptions fill a tool's return of 1,000 characters.",
        ),
    ] = limits.FOUND_ITEMS_DEFAULT
    k_success: Annotated[
        Hits,
        Meta(
            description="Strategies given unasked: in layer L2, and beside a looked-up resource. Default: 1, with one "
            "guardrail, of the source documents; in the ReasoningBank paper, 2 and 4 retrieved experiences did worse "
            "than 1."
        ),
    ] = 1
    k_failure: Annotated[
        Hits, Meta(description="Guardrails given unasked, as k_success gives strategies. Default: 1, as there.")
    ] = 1
    domains: Annotated[
        Literal["prefer", "filter", "none"],
        Meta(
            description="Where the run has an ontology: prefer ranks its items first, then those of no domain, then "
            "those of others; filter gives its own alone; none ranks by score. Default: prefer, our own choice: on "
            "example queries of several databases, filter found the right item first in 4 % more of all cases than "
            "none, but it loses items of no domain."
        ),
    ] = "prefer"
    floor: Annotated[
        float,
        Meta(
            ge=0,
            le=limits.POLICY_WEIGHT,
            description="The least relevance of a hit, its score without the sign; weaker hits are left out. "
            "Default: 0, no floor, because BM25's scores depend on the bank's size: no number suits every bank.",
        ),
    ] = 0.0

    def words(self, query: str) -> tuple[str, ...]:
        """Return the words of a query that are searched for; a query without any finds nothing."""
        raise NotImplementedError

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first.

        Pure: the same query and the same index always give the same ids, order and scores, so ties must be broken, by
        id. Any text is a query; nothing in it is syntax.
        """
        raise NotImplementedError

    def choose(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` items as `rank` does, by the settings `floor` and `domains` too.

        `filters.ontology` is the ontology of the run, if there is one. Items that it doesn't name come behind those of
        its own, whatever their scores.
        """
        found: list[RankedItem] = []
        for near in self._order(filters):
            if len(found) < k:
                found += self.rank(query, k - len(found), near, index)
        return [hit for hit in found if not self.floor or abs(hit.score) >= self.floor]

    def _order(self, filters: Filters) -> Sequence[Filters]:
        # An explicit filter by domain leaves nothing to prefer.
        if filters.ontology is None or filters.domain is not None or self.domains == "none":
            return (filters,)
        wanted = NEARNESS if self.domains == "prefer" else NEARNESS[:1]
        return [replace(filters, nearness=nearness) for nearness in wanted]


def retrieval_policy(choice: PolicyChoice | None) -> RetrievalPolicy:
    """Return the policy that a record names, or that of banks without a record for None. Raises `BadPolicy`."""
    policy = governing("retrieval", choice)
    if not isinstance(policy, RetrievalPolicy):
        raise BadPolicy(f"{policy.kind} policy {policy.label} can't rank items: it is no RetrievalPolicy")
    return policy
