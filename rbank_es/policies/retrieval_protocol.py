"""Retrieval: the protocol by which a policy chooses, for a query, among the active items, or none of them.

A retrieval policy is one file with one class, and one pure function in it, `rank`: the query, the number of hits, the
filters and the index go in, ranked ids with scores come out. `RetrievalPolicy.choose` adds the settings that every
policy has: floor and domain preference. Every search calls `choose` of the policy in force: `search`, the agents'
`mem_search` and related procedures, layer L2 of a context, the judge's precedents, what-if and `verify --retrievals`.
Its `Choice` is recorded as it is: the items given, those that the floor kept back, and the figures that decided.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self, get_args

from msgspec import Meta, Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadPlugin, BadPolicy, BadSearch
from rbank_es.events import Floor, Hit, PolicyChoice, WithheldHit
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import JUDGE_SOURCES, Polarity
from rbank_es.events.run_events import Nearness, Shortfall
from rbank_es.policies.policy_registry import Policy, governing
from rbank_es.policies.vector_relevance import VectorRanking
from rbank_es.policies.word_relevance import Formula, QueryWord, WordRanking
from rbank_es.system.registry import checked_results, package_of

if TYPE_CHECKING:
    from rbank_es.policies.stem_relevance import AskedQuestion, Pair, QuestionOrder, QuestionWeights

Hits = Annotated[int, Meta(ge=0, le=limits.SEARCH_HITS)]
SILENT_EVENTS = frozenset(
    {"tool_called", "step_taken", "lm_called", "note_logged", "memories_retrieved", "memory_proposed"}
)
"""Types of events that change no search: what agents record most."""

SILENT_EVENTS_FOR_WORDS = SILENT_EVENTS | {
    *("run_started", "context_built", "memories_read", "run_finished", "artifact_materialised")
}
"""Types of events that change no search by a policy that weighs words alone."""

NEARNESS: tuple[Nearness, ...] = get_args(Nearness)
_DOMAINS = "(SELECT value FROM json_each(c.domains))"
# An empty name among several domains: one of the candidates that count was about no ontology.
_NEAR: dict[Nearness, str] = {
    "own": f"? IN {_DOMAINS}",
    "none": f"? NOT IN {_DOMAINS} AND (c.domains = '[]' OR '' IN {_DOMAINS})",
    "other": f"? NOT IN {_DOMAINS} AND c.domains <> '[]' AND '' NOT IN {_DOMAINS}",
}


class ItemFacts(Struct, frozen=True, array_like=True):
    """The facts of an active item for filters. `domains` has an empty name where a candidate was about no ontology."""

    src: str
    polarity: str
    role: str | None
    domains: tuple[str, ...]


class Filters(Struct, frozen=True, kw_only=True):
    """Conditions on hits beside the query. `judges_source` selects one of the sources that only judges are given.

    `nearness` selects items by how their domains relate to `ontology`, the domain of the question. `without` are the
    ids of items that are left out. `unasked`: nobody asked for this polarity, so the floor compares it with the other.
    """

    polarity: str | None = None
    role: str | None = None
    judges_source: str | None = None
    ontology: str | None = None
    nearness: Nearness | None = None
    without: frozenset[str] = frozenset()
    unasked: bool = False

    def __post_init__(self) -> None:
        if self.judges_source not in (None, *JUDGE_SOURCES):
            raise BadSearch(f"{self.judges_source!r} is no source of judges: {', '.join(sorted(JUDGE_SOURCES))}")
        if self.polarity not in (None, *get_args(Polarity)):
            raise BadSearch(f"{self.polarity!r} is no polarity: give one of {', '.join(get_args(Polarity))}")

    def admits(self, facts: ItemFacts) -> bool:
        """Return whether an item with these facts passes; `without` is for the caller to look at."""
        sources = (self.judges_source,) if self.judges_source else JUDGE_SOURCES
        return (
            (facts.src in sources) == bool(self.judges_source)
            and self.polarity in (None, facts.polarity)
            and self.role in (None, facts.role)
            and self.nearness in (None, nearness_of(facts.domains, self.ontology))
        )

    def sql(self) -> tuple[str, list[str]]:
        """Return a condition on `active_items c`, and its parameters."""
        wanted = {"polarity": self.polarity, "role": self.role}
        given = {name: value for name, value in wanted.items() if value is not None}
        # Items for judges are excluded by default, because they would tell an agent how it is judged.
        judges = [self.judges_source] if self.judges_source else sorted(JUDGE_SOURCES)
        known = f"c.src {'IN' if self.judges_source else 'NOT IN'} ({', '.join('?' * len(judges))})"
        conditions = [known, *(f"c.{name} = ?" for name in given)]
        values = [*judges, *given.values()]
        if self.nearness is not None:
            conditions.append(_NEAR[self.nearness])
            values.append(self.ontology or "")
        if self.without:
            conditions.append("c.item NOT IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(sorted(self.without)))
        return " AND ".join(conditions), values


class WordShare(Struct, frozen=True):
    """One word of a query that an item has, and its share of the query's idf, from 0 to 1.

    `meant`: the word of an item as which it is read, because no item has the word itself.
    """

    word: str
    share: float
    meant: str | None = None


def nearness_of(domains: Sequence[str], ontology: str | None) -> Nearness:
    """Return how the domains of an item relate to an ontology."""
    if (ontology or "") in domains:
        return "own"
    return "none" if not domains or "" in domains else "other"


class RankedItem(Struct, frozen=True):
    """One item found, by id. `score` is from 0 up, higher is better, in the policy's own scale.

    bm25-1 and the policies that move its hits record SQLite's score instead, which is below 0: lower is better.
    `shares` are the query's words that the item has; None where the policy doesn't tell.
    """

    id: str
    score: float
    shares: tuple[WordShare, ...] | None = None

    @property
    def coverage(self) -> float | None:
        """The share of the query's idf that the item's words cover, from 0 to 1."""
        # Of all words, rounding may make a little more than 1.
        return None if self.shares is None else min(1.0, math.fsum(each.share for each in self.shares))


class Choice(Struct, frozen=True, kw_only=True):
    """The items that a query is given, best first, and the better matches that are below the floor.

    `shares` are the matched words of both by item, for people: they are words of the query, and are not recorded.
    """

    hits: tuple[Hit, ...] = ()
    withheld: tuple[WithheldHit, ...] = ()
    floor: Floor | None = None
    fallback: str | None = None
    shares: dict[str, tuple[WordShare, ...]] = {}


class ItemIndex(Protocol):
    """The items active at one position, in SQL and read-only.

    `items_fts` is an FTS5 index (title, desc, content, tags) that holds exactly them, so `bm25(items_fts, …)` weighs
    no other document. `active_items` has their words and facts by `text`, the rowid of `items_fts`, the id as `item`,
    and all their domains as a JSON list, `domains`. `item_outcomes` has `support`, `wins` and `losses` by `item`: its
    distinct witnesses that counted, and the uses that count by the attribution policy in force, under the
    verdicts that stood.
    """

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        ...

    def best(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return the hits of SQLite's BM25 with equal weights for words, any of them; ties are in order of id.

        None where only SQL can tell.
        """
        ...

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best `k` items that pass the filters, as `word_relevance.rank_documents` defines them."""
        ...

    def question(self, query: str, reading: QuestionWeights) -> AskedQuestion:
        """Return what `stem_relevance.read_question` reads in a query among these items."""
        ...

    def by_stems(self, question: AskedQuestion, formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best `k` items that pass the filters, as `word_relevance.rank_documents` defines them by stems."""
        ...

    def kept(self, question: AskedQuestion) -> dict[object, list[RankedItem]]:
        """Return what a policy keeps of a question, which is forgotten with the next one or when items change."""
        ...

    def word_orders(self, question: AskedQuestion, pairs: Mapping[str, Sequence[Pair]]) -> dict[str, QuestionOrder]:
        """Return for some of these items, by id, what each has of a question's order, and of its pairs there."""
        ...

    def by_vector(self, query: str, model: str, filters: Filters) -> VectorRanking | None:
        """Return how near the items that pass the filters are to a query, by the vectors of a model at the position.

        None where the query has no vector there.
        """
        ...


class RetrievalPolicy(Policy, frozen=True, kw_only=True):
    """A rule that ranks items for a query. Override `words` and `rank`, and `floor_for` for another floor."""

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
            description="Where the question has a domain, as that of its run's ontology: prefer ranks items of it "
            "first, then those of no domain, then those of others, as far as strength says; filter gives its own "
            "alone; none ranks by score. Default: prefer, our own choice: on example queries of several databases, "
            "filter found the right item first in 4 % more of all cases than none, but it loses items of no domain."
        ),
    ] = "prefer"
    strength: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Strength of the preference of domains: the share of its score that an item of no domain "
            "loses; one of other domains loses it twice. At 1, the nearer item comes first, whatever the scores. "
            "Default: 1, the rule that was measured.",
        ),
    ] = 1.0
    levels: Annotated[
        Literal["any", "up_to"],
        Meta(
            description="Where the question has a level, as its task in a curriculum: up_to leaves out the items whose "
            "support was drawn from runs of tasks of higher levels alone; items without a level pass. any gives items "
            "of every level. Default: any, because no experiment has compared the two."
        ),
    ] = "any"
    floor: Annotated[
        float,
        Meta(
            ge=0,
            le=limits.POLICY_WEIGHT,
            description="The least score of a hit, without the sign; weaker hits are withheld. "
            "Default: 0, no floor, because BM25's scores depend on the bank's size: no number suits every bank.",
        ),
    ] = 0.0

    @property
    def weighs_outcomes(self) -> bool:
        """Whether `item_outcomes` moves a hit; False where words, vectors and settings alone decide."""
        return True

    def level_bound(self, level: int | None) -> int | None:
        """Return the level above which items are left out for a question of a level; None where none are.

        The caller of `choose` looks them up, and gives their ids as `Filters.without`.
        """
        return level if self.levels == "up_to" else None

    def words(self, query: str) -> tuple[str, ...]:
        """Return the words of a query that are searched for; a query without any finds nothing."""
        raise NotImplementedError

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first.

        Pure: the same query and the same index always give the same ids, order and scores, so ties must be broken, by
        id. Any text is a query; nothing in it is syntax.
        """
        raise NotImplementedError

    def floor_for(self, query: str, filters: Filters, index: ItemIndex) -> Floor | None:
        """Return the figures that an item must reach to be given for a query; None where any item is good enough."""
        return Floor(score=self.floor) if self.floor else None

    def without_floor(self) -> Self:
        """Return the policy that ranks as this one does and withholds nothing."""
        return replace(self, floor=0.0)

    def fallback_for(self, query: str, index: ItemIndex) -> str | None:
        """Return why another ranking takes the place of this policy's for a query, as a code; None if none does."""
        return None

    def choose(self, query: str, k: int, filters: Filters, index: ItemIndex) -> Choice:
        """Return at most `k` items as `rank` orders them, by the domains of items and above the floor.

        `filters.ontology` is the domain of the question, if it has one. At most `WITHHELD_HITS` items below the floor
        are passed over: with the last of them the search ends.
        """
        if k < 1 or not self.words(query):
            return Choice()
        floor = self.floor_for(query, filters, index)
        hits: list[Hit] = []
        withheld: list[WithheldHit] = []
        shares: dict[str, tuple[WordShare, ...]] = {}
        spare = 0 if floor is None else limits.WITHHELD_HITS
        for item, near in self._in_order(query, k, spare, filters, index):
            why = None if floor is None else self.shortfall(item, floor)
            figures: dict[str, Any] = {"id": item.id, "score": item.score, "coverage": item.coverage, "near": near}
            if item.shares is not None:
                shares[item.id] = item.shares
            if why is None:
                hits.append(Hit(rank=len(hits) + 1, **figures))
            else:
                withheld.append(WithheldHit(why=why, **figures))
            if len(hits) == k or len(withheld) == limits.WITHHELD_HITS:
                break
        fallback = self.fallback_for(query, index)
        return Choice(hits=tuple(hits), withheld=tuple(withheld), floor=floor, fallback=fallback, shares=shares)

    def _in_order(
        self, query: str, k: int, spare: int, filters: Filters, index: ItemIndex
    ) -> Iterator[tuple[RankedItem, Nearness | None]]:
        """Yield items, best first, as many as `k` good ones among `spare` others may take; each with its nearness."""
        if filters.ontology is None or self.domains == "none":
            yield from ((item, None) for item in self._ranked(query, k + spare, filters, index))
        elif self.domains == "prefer" and self.strength < 1:
            yield from self._mixed(query, k + spare, filters, index)
        else:
            # One after the other, because the nearest alone are often enough.
            for near in NEARNESS if self.domains == "prefer" else NEARNESS[:1]:
                for item in self._ranked(query, k + spare, replace(filters, nearness=near), index):
                    yield item, near

    def _ranked(self, query: str, k: int, filters: Filters, index: ItemIndex) -> Sequence[RankedItem]:
        """Return what `rank` returns. Raises `BadPlugin` for anything else than some items, each with a score."""
        found = checked_results(self.rank(query, k, filters, index), RankedItem, self.label, self)
        for item in found:
            if not (isinstance(item.id, str) and isinstance(item.score, int | float) and math.isfinite(item.score)):
                raise BadPlugin(self.label, f"it gave item {item.id!r} the score {item.score!r}", package_of(self))
        return found

    def best_score(self, query: str, filters: Filters, index: ItemIndex) -> float | None:
        """Return the score, without the sign, of the first hit of either polarity; None where nothing is found."""
        first = next(self._in_order(query, 1, 0, replace(filters, polarity=None), index), None)
        return None if first is None else abs(first[0].score)

    def _mixed(
        self, query: str, k: int, filters: Filters, index: ItemIndex
    ) -> list[tuple[RankedItem, Nearness | None]]:
        """Return the best items of every nearness, ordered by what the preference leaves of their scores."""
        left = 1 - self.strength
        mixed: list[tuple[float, str, RankedItem, Nearness]] = []
        for lost, near in enumerate(NEARNESS):
            for item in self._ranked(query, k, replace(filters, nearness=near), index):
                mixed.append((-abs(item.score) * left**lost, item.id, item, near))
        return [(item, near) for _, _, item, near in sorted(mixed)[:k]]

    def shortfall(self, item: RankedItem, floor: Floor) -> Shortfall | None:
        """Return the figure of an item that is below the floor; None if it passes. What it doesn't tell passes."""
        if floor.score is not None and abs(item.score) < floor.score:
            return "score"
        if abs(item.score) < (floor.best or 0) * (floor.share_of_best or 0):
            return "share_of_best"
        return "coverage" if item.coverage is not None and item.coverage < (floor.coverage or 0) else None


def retrieval_policy(choice: PolicyChoice | None) -> RetrievalPolicy:
    """Return the policy that a record names, or that of banks without a record for None. Raises `BadPolicy`."""
    policy = governing("retrieval", choice)
    if not isinstance(policy, RetrievalPolicy):
        raise BadPolicy(f"{policy.kind} policy {policy.label} can't rank items: it is no RetrievalPolicy")
    return policy


def weighs_outcomes(choice: PolicyChoice) -> bool:
    """Return whether hits by a policy may change with support, uses and verdicts; True for an unknown policy."""
    try:
        policy = retrieval_policy(choice)
        return policy.weighs_outcomes or policy.levels != "any"
    except BadPolicy:
        # The safe answer: hits are then looked up again wherever outcomes changed.
        return True
