"""Views of a bank as of a position: its rows (`ViewRows`), and searches as they were then.

Search ranks exactly the items that were active at the position. BM25 weighs a word by the number of documents that have
it, and a document by its length relative to the average. So a count that takes in later or ended items gives other
scores and another order. `projections/word_index.py` counts those of the position, the present one or another. A policy
that asks SQLite's full-text index itself gets one of exactly these items: the live one, or one made in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from rbank_es import limits
from rbank_es.errors import BadSearch
from rbank_es.events import Hit, MemoriesRetrieved, PolicyChoice, WithheldHit
from rbank_es.projections.search_result import FoundItem, SearchResult, found_item
from rbank_es.projections.tokenizer import fts_ddl
from rbank_es.projections.usage import counted_at
from rbank_es.projections.vector_index import KnownVectors, cosines_at, known_vectors, selected, unembedded
from rbank_es.projections.view_rows import ViewConnection, ViewRows

if TYPE_CHECKING:
    from rbank_es.events.bank_events import PolicyKind
    from rbank_es.events.items import Polarity
    from rbank_es.policies import Choice, Filters, Formula, QueryWord, RankedItem, RetrievalPolicy, WordRanking
    from rbank_es.policies.stem_relevance import AskedQuestion, Pair, QuestionOrder, QuestionWeights
    from rbank_es.policies.vector_relevance import VectorRanking
    from rbank_es.projections.lineage_edges import LineageEdge
    from rbank_es.projections.stem_index import StemIndex
    from rbank_es.projections.word_index import WordIndex

# Spelled out, where other queries go through the shadows: a search needs no others, and is quicker without making them.
_POLICY = """
SELECT name, version, settings FROM main.policy_choices
WHERE kind = :kind AND from_seq <= :seq AND (to_seq IS NULL OR to_seq > :seq)
"""
# From `main`, too. What was learned from a run after the position is not there yet by its own `from_seq`.
_OF_TASK = """
WITH drawn AS (
    SELECT c.item, c.text FROM main.run_starts s
    JOIN main.relying r ON r.run = s.run JOIN main.candidates c ON c.extraction = r.extraction
    WHERE s.task_id = :task AND c.from_seq <= :seq
)
SELECT item FROM drawn UNION
SELECT value FROM drawn JOIN main.decisions d ON d.text = drawn.text AND d.from_seq <= :seq
    AND (d.to_seq IS NULL OR d.to_seq > :seq), json_each(d.targets)
"""
# A run that is unknown, or without a level, counts as the lowest; so does a witness that is no run.
_ABOVE = """
SELECT w.item FROM main.item_witnesses w
LEFT JOIN main.run_starts s ON s.run = w.witness AND s.from_seq <= :seq
WHERE w.from_seq <= :seq AND (w.to_seq IS NULL OR w.to_seq > :seq)
GROUP BY w.item HAVING min(coalesce(s.level, 0)) > :level
"""
_WON = "SELECT run FROM verdicts WHERE purpose = 'learning' AND verdict = 'success' AND to_seq IS NULL"
_CHANGED_SINCE = "SELECT EXISTS (SELECT 1 FROM main.item_states WHERE from_seq > ?)"
_MEMORY_CHANGES = """
SELECT from_seq FROM main.item_states s WHERE from_seq > :after AND from_seq <= :seq AND (state = 'active' OR EXISTS (
    SELECT 1 FROM main.item_states p WHERE p.item = s.item AND p.to_seq = s.from_seq AND p.state = 'active'
))
UNION SELECT from_seq FROM main.policy_choices WHERE kind = 'retrieval' AND from_seq > :after AND from_seq <= :seq
UNION SELECT to_seq FROM main.policy_choices WHERE kind = 'retrieval' AND to_seq > :after AND to_seq <= :seq
UNION SELECT from_seq FROM main.word_vectors WHERE from_seq > :after AND from_seq <= :seq
"""
# What a policy that weighs outcomes goes by beside: support, uses, verdicts, and which uses count. Of levels it is
# support too, and the start of a run that was recorded after what was drawn from it.
_OUTCOME_CHANGES = """
SELECT from_seq FROM main.item_witnesses WHERE from_seq > :after AND from_seq <= :seq
UNION SELECT to_seq FROM main.item_witnesses WHERE to_seq > :after AND to_seq <= :seq
UNION SELECT s.from_seq FROM main.run_starts s JOIN main.relying r ON r.run = s.run AND r.from_seq < s.from_seq
    WHERE s.from_seq > :after AND s.from_seq <= :seq
UNION SELECT from_seq FROM main.exposures WHERE from_seq > :after AND from_seq <= :seq
UNION SELECT from_seq FROM main.run_ends WHERE recall_unsent IS NOT NULL AND from_seq > :after AND from_seq <= :seq
UNION SELECT to_seq FROM main.run_ends WHERE recall_unsent IS NOT NULL AND to_seq > :after AND to_seq <= :seq
UNION SELECT from_seq FROM main.verdicts WHERE purpose = 'learning' AND from_seq > :after AND from_seq <= :seq
UNION SELECT to_seq FROM main.verdicts WHERE purpose = 'learning' AND to_seq > :after AND to_seq <= :seq
UNION SELECT from_seq FROM main.policy_choices WHERE kind = 'attribution' AND from_seq > :after AND from_seq <= :seq
UNION SELECT to_seq FROM main.policy_choices WHERE kind = 'attribution' AND to_seq > :after AND to_seq <= :seq
"""
_RANKINGS = """
SELECT DISTINCT name, version, settings FROM main.policy_choices
WHERE kind = 'retrieval' AND from_seq <= :seq AND (to_seq IS NULL OR to_seq > :after)
"""
_FILL = """
INSERT INTO temp.items_fts (rowid, title, "desc", content, tags)
SELECT text, title, "desc", content, tags FROM main.candidates WHERE text IN (
    SELECT text FROM main.item_states WHERE state = 'active' AND from_seq <= :seq AND (to_seq IS NULL OR to_seq > :seq)
) ORDER BY text
"""
# What policies read beside the full-text index. A view takes no parameters, and a number needs no quotes.
_ACTIVE_ITEMS = """
CREATE TEMP VIEW active_items AS
SELECT s.text, s.item, s.domains, c.title, c."desc", c.content, c.tags, c.src, c.polarity, c.role, c.scope, c.domain
FROM main.item_states s CROSS JOIN main.candidates c ON c.text = s.text
WHERE s.state = 'active' AND s.from_seq <= {seq:d} AND (s.to_seq IS NULL OR s.to_seq > {seq:d})
"""
# As in the view `items`, at the position.
_ITEM_OUTCOMES = """
CREATE TEMP VIEW item_outcomes AS
SELECT c.item, {wins} AS wins, {losses} AS losses, (
    SELECT count(*) FROM main.item_witnesses w
    WHERE w.item = c.item AND w.from_seq <= {seq:d} AND (w.to_seq IS NULL OR w.to_seq > {seq:d})
) AS support FROM active_items c
"""
_OUTCOME = """(
    SELECT count(DISTINCT u.run) FROM main.exposures u CROSS JOIN main.verdicts v ON v.run = u.run
        AND v.purpose = 'learning' AND v.from_seq <= {seq:d} AND (v.to_seq IS NULL OR v.to_seq > {seq:d})
    WHERE u.item = c.item AND u.from_seq <= {seq:d} AND v.verdict = '{verdict}' AND {counted}
)"""


class View(ViewRows):
    """The bank as it was at `position`. Made by `ReadModels`; a context manager; may be used by several threads."""

    def memory_changes(self, after: int) -> list[int]:
        """Return the positions after `after`, in order, at which what a search goes by changed: items, vectors, policy;
        with a policy that weighs outcomes or levels also support, uses and verdicts.

        Between two of them every search that leaves no task out finds the same, with the same scores.
        """
        from rbank_es.policies import weighs_outcomes

        bounds = {"after": after, "seq": self.position}
        with self._reading() as connection:
            found = {position for (position,) in connection.execute(_MEMORY_CHANGES, bounds)}
            if any(weighs_outcomes(_choice("retrieval", *row)) for row in connection.execute(_RANKINGS, bounds)):
                found |= {position for (position,) in connection.execute(_OUTCOME_CHANGES, bounds)}
        return sorted(found)

    def active_spans(self, item: str) -> list[tuple[int, int | None]]:
        """Return from which position to which (None: still) an item was active, in order."""
        return [(each["from"], each["to"]) for each in self.item_history(item) if each["state"] == "active"]

    def usage(self) -> dict[str, tuple[int, int]]:
        """Return uses and wins of every item that was ever used, known to the bank or not."""
        # Two scans and a set: quicker than letting SQLite look up the verdict of each use.
        uses: dict[str, int] = {}
        wins: dict[str, int] = {}
        with self._shadowing() as connection:
            won = {run for (run,) in connection.execute(_WON)}
            for item, run in connection.execute("SELECT item, run FROM counted_uses"):
                uses[item] = uses.get(item, 0) + 1
                if run in won:
                    wins[item] = wins.get(item, 0) + 1
        return {item: (n, wins.get(item, 0)) for item, n in uses.items()}

    def edges(self) -> Iterator[LineageEdge]:
        """Yield the edges of the lineage. Quicker than the rows of `lineage_edges`, of which a bank has many."""
        from rbank_es.projections.lineage_edges import LineageEdge, LineageNode

        # Each node once in memory, because most have several edges.
        nodes: dict[tuple[str, str], LineageNode] = {}

        def node(kind: str, name: str) -> LineageNode:
            return nodes.setdefault((kind, name), LineageNode(kind, name))

        with self._shadowing() as connection:
            rows = connection.execute("SELECT * FROM lineage_edges").fetchall()
        for source_kind, source, relation, target_kind, target, seq in rows:
            yield LineageEdge(node(source_kind, source), relation, node(target_kind, target), seq)

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        polarity: str | None = None,
        role: str | None = None,
        domain: str | None = None,
        without_task: str | None = None,
        level: int | None = None,
        policy: RetrievalPolicy | None = None,
    ) -> list[FoundItem]:
        """Return the active items that fit the words of `query`, best first, at most `k` (default: the policy's).

        `policy` is the one in force at this position, unless given. `domain` is the one that the query is about, as of
        a run on that ontology: the policy says whether its items are preferred. `without_task` is the id of a task:
        items drawn from a run of it are left out. `level` is that of the task: the policy says whether items of higher
        levels are left out.

        Any text is a query; FTS syntax in it is searched as plain words. Filters narrow the hits and leave scores as
        they are. Items of sources `principle` and `episode` are never found. Ties are broken by item id.
        Raises `BadSearch` for a `k`, a polarity or a level that can't be, `BadPolicy` if this release doesn't know the
        policy in force.
        """
        about: dict[str, Any] = {"polarity": polarity, "role": role, "domain": domain}
        result = self.retrieve(query, k, **about, without_task=without_task, level=level, policy=policy)
        return list(result.items)

    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        polarity: str | None = None,
        role: str | None = None,
        domain: str | None = None,
        without_task: str | None = None,
        level: int | None = None,
        unasked: bool = False,
        policy: RetrievalPolicy | None = None,
    ) -> SearchResult:
        """Search as `search` does. Return what was found, what was withheld, and the event that records the search.

        `unasked`: nobody asked for the polarity, and the policy may hold its items to the best of both.
        """
        from rbank_es.policies.retrieval_protocol import Filters

        ranking = policy or self.retrieval_policy()
        wanted = ranking.k if k is None else k
        if level is not None and not 0 <= level <= limits.COUNT_MOST:
            raise BadSearch(f"{level:,} is no level of a question: give that of its task, such as 1 for the easiest")
        without = frozenset[str]() if without_task is None else self.items_of_task(without_task)
        if (bound := ranking.level_bound(level)) is not None:
            without |= self.items_above(bound)
        filters = Filters(polarity=polarity, role=role, ontology=domain, without=without, unasked=unasked)
        found, choice = self._chosen(query, wanted, filters, ranking)
        event = MemoriesRetrieved(
            k=wanted,
            polarity=cast("Polarity | None", polarity),  # the filters refuse any other
            role=role,
            ontology=domain,
            without_task=without_task,
            level=level,
            unasked=unasked,
            policy=ranking.label,
            hits=choice.hits,
            withheld=choice.withheld,
            floor=choice.floor,
            fallback=choice.fallback,
            query=query,
        )
        given = len(choice.hits)
        return SearchResult(items=tuple(found[:given]), withheld=tuple(found[given:]), event=event)

    def repeat(self, event: MemoriesRetrieved, policy: RetrievalPolicy | None = None) -> SearchResult:
        """Search again as recorded, among the items active here. The query's words must be in the event."""
        return self.retrieve(
            str(event.query),
            event.k,
            polarity=event.polarity,
            role=event.role,
            domain=event.ontology,
            without_task=event.without_task,
            level=event.level,
            unasked=event.unasked,
            policy=policy,
        )

    def search_for_judge(self, query: str, k: int, source: str, *, domain: str | None = None) -> list[FoundItem]:
        """Return the active items of a source that only judges are given (`principle`, `episode`), found as `search`
        does. Agents get none of them, by no tool and in no context. Raises `BadSearch`, also for any other source.

        No principle is withheld: a person wrote it for every case, so it shares few words with any one of them.
        """
        from rbank_es.policies.retrieval_protocol import Filters

        filters = Filters(judges_source=source, ontology=domain)
        if not k:
            return []
        policy = self.retrieval_policy()
        if source == "principle":
            policy = policy.without_floor()
        found, choice = self._chosen(query, k, filters, policy)
        return found[: len(choice.hits)]

    def known(self, fact: Literal["domain", "role"]) -> list[str]:
        """Return, in order, the domains or the roles that items had while they were active, now or before."""
        from rbank_es.projections.search_tables import fact_sets

        with self._reading() as connection:
            facts = fact_sets(connection, self.position).values()
        found = (each.domains if fact == "domain" else (each.role,) for each in facts)
        return sorted({name for names in found for name in names if name})

    def items_of_task(self, task: str) -> frozenset[str]:
        """Return the ids of the items that candidates drawn from any run of a task brought, landed on or ended."""
        with self._reading() as connection:
            found = connection.execute(_OF_TASK, {"task": task, "seq": self.position})
            return frozenset(item for (item,) in found)

    def items_above(self, level: int) -> frozenset[str]:
        """Return the ids of the items whose standing support was drawn from runs of tasks above a level alone."""
        with self._reading() as connection:
            return frozenset(item for (item,) in connection.execute(_ABOVE, {"level": level, "seq": self.position}))

    def is_relied_on(self, run: str) -> bool:
        """Return whether an extraction was drawn from a run, or relies on a verdict on it."""
        with self._reading() as connection:
            found = connection.execute("SELECT min(from_seq) FROM main.relying WHERE run = ?", (run,)).fetchone()[0]
            return found is not None and found <= self.position

    def known_vectors(self, model: str) -> KnownVectors:
        """Return which texts have a vector of a model here."""
        with self._reading() as connection:
            return known_vectors(connection, self.position, model)

    def unembedded(self, model: str) -> list[tuple[str, str]]:
        """Return the active items without a vector of a model, erased ones left out: ids and texts, by id."""
        with self._reading(), self._indexing() as index:
            return index.unembedded(model)

    def retrieval_policy(self) -> RetrievalPolicy:
        """Return the retrieval policy in force; bm25-1 where none was set. Raises `BadPolicy` for an unknown one."""
        from rbank_es.policies.retrieval_protocol import retrieval_policy

        if self._shared.ranking is None:
            self._shared.ranking = retrieval_policy(self.policy_choice("retrieval"))
        return self._shared.ranking

    def policy_choice(self, kind: PolicyKind, seq: int | None = None) -> PolicyChoice | None:
        """Return the record of the policy of a kind that is in force, or was at an earlier position; None without."""
        with self._reading() as connection:
            row = connection.execute(_POLICY, {"kind": kind, "seq": self.position if seq is None else seq}).fetchone()
        return None if row is None else _choice(kind, *row)

    def _chosen(self, query: str, k: int, filters: Filters, policy: RetrievalPolicy) -> tuple[list[FoundItem], Choice]:
        """Choose by a policy; return the items given, then those withheld, beside the choice.

        Every search of people, agents, contexts, judges and `verify` uses this method.
        """
        from rbank_es.policies.retrieval_protocol import Choice

        if not 1 <= k <= limits.SEARCH_HITS:
            raise BadSearch(f"can't return {k:,} hits: give a number from 1 to {limits.SEARCH_HITS}")
        # A query without words needs no index, which may have to be made first.
        if not policy.words(query):
            return [], Choice()
        with self._reading(), self._indexing() as index:
            choice = policy.choose(query, k, filters, index)
            matches: list[Hit | WithheldHit] = [*choice.hits, *choice.withheld]
            return [found_item(index, match, choice, policy) for match in matches], choice

    @contextmanager
    def _indexing(self) -> Iterator[_Index]:
        """Provide the items active at the position to policies until the context ends."""
        shared = self._shared
        if not shared.prepared:
            shared.connection.execute(_ACTIVE_ITEMS.format(seq=self.position))
            counted = counted_at(
                f"from_seq <= {self.position:d} AND (to_seq IS NULL OR to_seq > {self.position:d})", "main."
            )
            facts = {"seq": self.position, "counted": counted}
            wins, losses = (_OUTCOME.format(verdict=name, **facts) for name in ("success", "failure"))
            shared.connection.execute(_ITEM_OUTCOMES.format(wins=wins, losses=losses, seq=self.position))
            shared.prepared = True
        before = shared.own_index, shared.words, shared.stems
        # One transaction, because another process could change the file between two statements.
        shared.connection.execute("BEGIN")
        try:
            yield _Index(shared, self.position)
            shared.connection.execute("COMMIT")
        except BaseException:
            shared.connection.execute("ROLLBACK")
            # Temporary tables that were made inside are gone.
            shared.own_index, shared.words, shared.stems = before
            raise


class _Index:
    """The items active at a view's position, as policies see them: see `rbank_es.policies.ItemIndex`."""

    def __init__(self, shared: ViewConnection, position: int) -> None:
        self._shared, self._position = shared, position
        self._connection = shared.connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        if "items_fts" in sql.lower():
            self._index_full_text()
        return self._connection.execute(sql, parameters).fetchall()

    def best(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return the best items by BM25 with equal weights; None for a word that FTS5 takes as a phrase."""
        return self._words().by_sqlite(words, k, filters)

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best items by the definition of word relevance."""
        return self._words().by_words(words, formula, k, filters)

    def question(self, query: str, reading: QuestionWeights) -> AskedQuestion:
        """Return what is read in a query among the items."""
        return self._stems().question(query, reading)

    def by_stems(self, question: AskedQuestion, formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best items by the definition of word relevance, by stems."""
        return self._stems().by_stems(question, formula, k, filters)

    def kept(self, question: AskedQuestion) -> dict[object, list[RankedItem]]:
        """Return what a policy keeps of a question, which is forgotten with the next one."""
        return self._stems().kept(question)

    def word_orders(self, question: AskedQuestion, pairs: Mapping[str, Sequence[Pair]]) -> dict[str, QuestionOrder]:
        """Return what items have of a question's order, by the definition of stem relevance."""
        return self._stems().word_orders(question, pairs)

    def by_vector(self, query: str, model: str, filters: Filters) -> VectorRanking | None:
        """Return how near items are to a query by the vectors of a model; None where the query has none."""
        # Of one query, because a choice asks once for each domain preference.
        if (query, model) not in self._shared.cosines:
            self._shared.cosines = {(query, model): cosines_at(self._connection, self._position, query, model)}
        return selected(self._connection, self._shared.cosines[query, model], filters)

    def unembedded(self, model: str) -> list[tuple[str, str]]:
        """Return the items without a vector of a model, and their texts."""
        return unembedded(self._connection, self._position, model)

    def _words(self) -> WordIndex:
        from rbank_es.projections.indexed_terms import provide_words
        from rbank_es.projections.word_index import WordIndex

        if self._shared.words is None:
            provide_words(self._connection)
            self._shared.words = WordIndex(self._connection, self._position)
        self._shared.words.refresh()
        return self._shared.words

    def _stems(self) -> StemIndex:
        from rbank_es.projections.indexed_terms import provide_stems
        from rbank_es.projections.stem_index import StemIndex

        if self._shared.stems is None:
            provide_stems(self._connection)
            self._shared.stems = StemIndex(self._connection, self._position)
        self._shared.stems.refresh()
        return self._shared.stems

    def _index_full_text(self) -> None:
        """Index exactly the items active at the position as `items_fts`, if the live index has others."""
        run = self._connection
        if not self._shared.own_index and run.execute(_CHANGED_SINCE, (self._position,)).fetchone()[0]:
            run.execute(fts_ddl("temp.items_fts", ""))
            run.execute("INSERT INTO temp.items_fts (items_fts, rank) VALUES ('automerge', 0)")
            run.execute(_FILL, {"seq": self._position})
            self._shared.own_index = True


def _choice(kind: PolicyKind, name: str, version: int, settings: str) -> PolicyChoice:
    chosen = {"kind": kind, "name": name, "version": version, "settings": msgspec.json.decode(settings)}
    return msgspec.convert(chosen, PolicyChoice)
