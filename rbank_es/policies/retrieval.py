"""Retrieval: the protocol by which a policy ranks the active items for a query.

A retrieval policy is one file with one class, and one pure function in it, `rank`: the query, the number of hits, the
filters and the index go in, ranked ids with scores come out. `search`, the agents' `mem_search`, layer L2 of a context
and `verify --retrievals` all rank by that function of the policy in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, get_args

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.errors import BadPolicy, BadSearch
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import JUDGE_SOURCES, Polarity
from rbank_es.policies.policy import Policy, governing


class Filters(Struct, frozen=True, kw_only=True):
    """Conditions on hits beside the query. `judges_source` selects one of the sources that only judges are given."""

    polarity: str | None = None
    domain: str | None = None
    role: str | None = None
    judges_source: str | None = None

    def __post_init__(self) -> None:
        if self.judges_source not in (None, *JUDGE_SOURCES):
            raise BadSearch(f"{self.judges_source!r} is no source of judges: {', '.join(sorted(JUDGE_SOURCES))}")
        if self.polarity not in (None, *get_args(Polarity)):
            raise BadSearch(f"{self.polarity!r} is no polarity: give one of {', '.join(get_args(Polarity))}")

    def sql(self) -> tuple[str, list[str]]:
        """Return a condition on `candidates c`, and its parameters."""
        wanted = {"polarity": self.polarity, "domain": self.domain, "role": self.role}
        given = {name: value for name, value in wanted.items() if value is not None}
        # Items for judges are excluded by default, because they would tell an agent how it is judged.
        judges = [self.judges_source] if self.judges_source else sorted(JUDGE_SOURCES)
        known = f"c.src {'IN' if self.judges_source else 'NOT IN'} ({', '.join('?' * len(judges))})"
        return " AND ".join([known, *(f"c.{name} = ?" for name in given)]), [*judges, *given.values()]


class RankedItem(NamedTuple):
    """One item found, by id. The scale of `score` is the policy's own; for BM25 it is below 0, and lower is better."""

    id: str
    score: float


class ItemIndex(Protocol):
    """The items active at one position, in SQL and read-only.

    `items_fts` is an FTS5 index (title, desc, content, tags) that holds exactly them, so `bm25(items_fts, …)` weighs
    no other document. `main.candidates` has words and facts by `text`, the rowid of `items_fts`, and the id as `item`.
    """

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        ...


class RetrievalPolicy(Policy, frozen=True, kw_only=True):
    """A rule that ranks items for a query. `k` is how many hits are returned where the caller gives no number."""

    kind: ClassVar[PolicyKind] = "retrieval"

    k: Annotated[int, Meta(ge=1, le=limits.SEARCH_HITS)] = 1

    def words(self, query: str) -> tuple[str, ...]:
        """Return the words of a query that are searched for; a query without any finds nothing."""
        raise NotImplementedError

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first.

        Pure: the same query and the same index always give the same ids, order and scores, so ties must be broken, by
        id. Any text is a query; nothing in it is syntax.
        """
        raise NotImplementedError


def retrieval_policy(choice: PolicyChoice | None) -> RetrievalPolicy:
    """Return the policy that a record names, or that of banks without a record for None. Raises `BadPolicy`."""
    policy = governing("retrieval", choice)
    if not isinstance(policy, RetrievalPolicy):
        raise BadPolicy(f"{policy.kind} policy {policy.label} can't rank items: it is no RetrievalPolicy")
    return policy
