"""The state of a bank as its read models have it: each fact is looked up when it is asked for.

A decision needs a few facts of a state, and to fold a long log takes seconds. What is asked for by key is read from
rows, through the shadows of one position. Where somebody asks for all there is, where very much was asked, or where
the file is not believed any more, the log is folded after all, and that answers from then on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from rbank_es.events import ConsolidationProposed, MemoriesConsolidated
from rbank_es.events.items import JUDGE_SOURCES, Item
from rbank_es.law import RELEVANT, RESOLVED, ItemState, Pair, State, fold
from rbank_es.law.bank_state import CandidateState, ItemStatus, PairState, Proposal, RegisteredOntology
from rbank_es.law.lazy_mappings import LookedUp, LookedUpItems
from rbank_es.projections.projection import PROJECTIONS
from rbank_es.projections.rare_events import positions_of
from rbank_es.projections.search_tables import fact_sets, facts_at, marked
from rbank_es.projections.statement_tables import StatementRows
from rbank_es.projections.stored_memory import StoredMemory
from rbank_es.projections.view_rows import shadow

if TYPE_CHECKING:
    from rbank_es.log import EventLog

Value = TypeVar("Value")

ASKED_SHARE = 8
"""The log is folded after one look-up for so many of its events, which takes about as long as all look-ups did."""

_NAMES = msgspec.json.Decoder(tuple[str, ...])

READ_FROM = ("memory_index", "usage", "runs", "rare_events")
"""The projections that have the facts."""

_WORDS = """
SELECT item, title, "desc", content, tags_json, src, polarity, role, scope, domain, erased, originals
FROM candidates WHERE extraction = ? AND place = ?
"""
# In one query, because a decision looks up a hundred items.
_ENTRY = """
SELECT s.state, s.born_seq, s.ended_seq, s.vouched, s.domains, s.superseded_by, c.extraction, d.first_seq, c.place,
    c.item, c.title, c."desc", c.content, c.tags_json, c.src, c.polarity, c.role, c.scope, c.domain, c.erased,
    c.originals
FROM item_states s CROSS JOIN candidates c ON c.text = s.text
CROSS JOIN decisions d ON d.text = s.text AND d.to_seq IS NULL WHERE s.item = ? AND s.to_seq IS NULL
"""
_WITNESSES = "SELECT witness FROM item_witnesses WHERE item = ? AND to_seq IS NULL"
_GIVEN = "SELECT run, way, from_seq FROM exposures WHERE item = ? ORDER BY from_seq"
_UNSENT = "SELECT run, recall_unsent FROM run_ends WHERE recall_unsent IS NOT NULL AND to_seq IS NULL"
_RUN_IS_KNOWN = " OR ".join(
    f"EXISTS (SELECT 1 FROM {table} WHERE run = :run)" for table in ("run_starts", "run_ends", "lm_calls", "run_steps")
)
_IN_STATE = "SELECT item FROM item_states WHERE state = ? AND to_seq IS NULL"
_ALL_ITEMS = "SELECT item FROM item_states WHERE to_seq IS NULL"
_ITEM_COUNT = "SELECT count(*) FROM item_states WHERE to_seq IS NULL"


class _StoredItems(LookedUpItems):
    """The items of a state, in its rows."""

    def __init__(self, stored: StoredState, find: Callable[[str], ItemState | None]) -> None:
        super().__init__(stored, "items", find)
        self._stored = stored

    @property
    def active(self) -> int:
        """The number of active items that agents are given."""
        from rbank_es.law.similar_items import counts_for_agents  # on use: patterns come with it

        return self._stored.answer(self._stored.active, lambda all: sum(map(counts_for_agents, all.items.values())))

    @property
    def ids(self) -> Collection[str]:
        """The ids of all items, in no order, read when they are iterated."""
        return _Ids(self._stored, self)

    def ids_in(self, state: ItemStatus) -> list[str]:
        """Return the ids of the items in a state."""
        return self._stored.answer(
            lambda: self._stored.ids(_IN_STATE, (state,)),
            lambda whole: [id for id, entry in whole.items.items() if entry.state == state],
        )


class _Ids(Collection[str]):
    """The ids of the items."""

    def __init__(self, stored: StoredState, items: LookedUpItems) -> None:
        self._stored, self._items, self._size = stored, items, -1

    def __contains__(self, id: object) -> bool:
        return id in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored.answer(lambda: self._stored.ids(_ALL_ITEMS), lambda state: list(state.items)))

    def __len__(self) -> int:
        if self._size < 0:
            self._size = self._stored.answer(self._stored.item_count, lambda state: len(state.items))
        return self._size


class _Rows(StoredMemory):
    """The facts of a position as a fold of the log has them, with all their words."""

    def __init__(self, connection: sqlite3.Connection, log: EventLog, position: int) -> None:
        super().__init__(connection)
        self._log, self._position = log, position
        self._unsent: dict[str, frozenset[str]] | None = None
        self._proposals: dict[Pair, Proposal] | None = None
        self._ontologies: Mapping[str, RegisteredOntology] | None = None

    def finders(self) -> dict[str, Callable[[Any], Any]]:
        """Return how to look up each mapping of a state, by name."""
        return {
            "uses": lambda item: self._uses(item, ("injected", "read")),
            "injected": lambda item: self._uses(item, ("injected",)),
            "read": lambda item: self._uses(item, ("read",)),
            "unsent": self._unsent_runs,
            "runs": lambda run: self._folded_run(run).runs.get(run),
            "run_records": lambda run: self._folded_run(run).run_records.get(run),
            "verdicts": self._verdict,
            "ontologies": self._ontology,
            "extractions": self._extraction,
            "candidates": self._candidate_with_words,
            "pairs": self._pair_with_first,
            "records": self._record,
            "relying": self._relying,
            "copies": self._copies,
            "proposals": self._proposal,
            "prepared": self._prepared,
        }

    def item(self, id: str) -> ItemState | None:
        """Return an item with its words."""
        for row in self._rows(_ENTRY, (id,)):
            state, born, ended, vouched, domains, by, extraction, decided, place, *words = row
            birth = _candidate(words)
            return ItemState(
                item=birth.item,
                state=state,
                born_seq=born,
                ended_seq=ended,
                witnesses=tuple(witness for (witness,) in self._rows(_WITNESSES, (id,))),
                extraction=extraction,
                erased=birth.erased,
                rank=(decided, place),
                domains=_NAMES.decode(domains),
                vouched=bool(vouched),
                superseded_by=_NAMES.decode(by),
            )
        return None

    def _candidate_with_words(self, pair: Pair) -> CandidateState | None:
        found = self._rows(_WORDS, pair)
        return _candidate(found[0]) if found else None

    def _pair_with_first(self, pair: Pair) -> PairState | None:
        """Return the decision about a candidate, with the first one as the log has it."""
        known = self._pair(pair)
        if known is None:
            return None
        for event in self._log.read(after=known.order[0] - 1, upto=known.order[0]):
            if isinstance(event, MemoriesConsolidated):
                about = [(each.extraction or event.extraction, each.candidate, each.item) for each in event.decisions]
                return replace(known, first=event.decisions[about.index((*pair, known.item))])
        # In a part of a correction, say.
        raise LookupError(pair)

    def _uses(self, item: str, ways: Sequence[str]) -> dict[str, int] | None:
        found: dict[str, int] = {}
        for run, way, seq in self._rows(_GIVEN, (item,)):
            if way in ways:
                found.setdefault(run, seq)
        return found or None

    def _unsent_runs(self, item: str) -> frozenset[str] | None:
        if self._unsent is None:
            found: dict[str, set[str]] = {}
            for run, unsent in self._rows(_UNSENT):
                for each in _NAMES.decode(unsent):
                    found.setdefault(each, set()).add(run)
            self._unsent = {each: frozenset(runs) for each, runs in found.items()}
        return self._unsent.get(item)

    def _folded_run(self, run: str) -> State:
        # The events of a run are few, and most runs that are asked for are new.
        known = self._connection is not None and self._connection.execute(f"SELECT {_RUN_IS_KNOWN}", {"run": run})
        if not known or not known.fetchone()[0]:
            return State()
        return fold(self._log.read(run=run, upto=self._position, types=_OF_RUNS))

    def _ontology(self, ontology: str) -> RegisteredOntology | None:
        if self._ontologies is None:
            self._ontologies = fold(self._rare("ontology_registered")).ontologies
        return self._ontologies.get(ontology)

    def _proposal(self, pair: Pair) -> Proposal | None:
        if self._proposals is None:
            self._proposals = {}
            for event in self._rare("consolidation_proposed"):
                if isinstance(event, ConsolidationProposed):
                    about = event.extraction, event.candidate
                    decided = self._pair(about)
                    # As in the fold: one that comes after the decision came too late.
                    if decided is None or decided.order[0] > event.seq:
                        self._proposals[about] = Proposal(action=event.action, targets=event.targets)
        return self._proposals.get(pair)

    def _rare(self, type_: str) -> Iterator[Any]:
        assert self._connection is not None
        for position in positions_of(self._connection, type_, self._position):
            yield from self._log.read(after=position - 1, upto=position)


def _candidate(row: Sequence[Any]) -> CandidateState:
    """Return a candidate of the columns of its words and facts."""
    id, title, desc, content, tags, src, polarity, role, scope, domain, erased, originals = row
    item = Item(
        id=id,
        title=title,
        desc=desc,
        content=content,
        src=src,
        polarity=polarity,
        tags=_NAMES.decode(tags),
        role=role,
        scope=scope,
        domain=domain,
    )
    return CandidateState(item=item, erased=bool(erased), originals=_NAMES.decode(originals))


_OF_RUNS = frozenset({"run_started", "run_finished", "step_taken", "lm_called"})


class StoredState:
    """The state of a log at `position`. For one thread at a time."""

    def __init__(
        self, connection: sqlite3.Connection, position: int, log: EventLog, believed: Callable[[], bool]
    ) -> None:
        """Look up through a connection, whose tables are shadowed, as long as its file is believed."""
        shadow(connection, position, map(PROJECTIONS.get, READ_FROM))
        self.position = position
        self.statements = StatementRows(connection, position, believed)
        self._connection, self._log, self._believed = connection, log, believed
        self._whole: State | None = None
        self._asked = 0

    def state(self) -> State:
        """Return the state."""
        rows = _Rows(self._connection, self._log, self.position)
        mappings: dict[str, Any] = {name: LookedUp(self, name, find) for name, find in rows.finders().items()}
        return State(
            position=self.position,
            items=_StoredItems(self, rows.item),
            policies=rows.policies,
            bounded=rows.bounded,
            due=rows.due,
            **mappings,
        )

    def look_up(self, name: str, find: Callable[[Any], Value | None], key: Any) -> Value | None:
        """Return what a mapping has under a key, None if nothing."""

        def in_whole(state: State) -> Value | None:
            found: Value | None = getattr(state, name).get(key)
            return found

        return self.answer(lambda: find(key), in_whole)

    def answer(self, look_up: Callable[[], Value], in_whole: Callable[[State], Value]) -> Value:
        """Return an answer of the rows, or of the whole state where they can't answer, or were asked too often."""
        self._asked += 1
        if self._whole is None and self._asked * ASKED_SHARE <= self.position:
            with suppress(sqlite3.Error, LookupError, ValueError):
                found = look_up()
                # After it, because somebody may have changed the file meanwhile.
                if self._believed():
                    return found
        return in_whole(self.whole())

    def whole(self) -> State:
        """Return the state as a fold of the log."""
        if self._whole is None:
            events = self._log.read(upto=self.position, types=RELEVANT, resolve=RESOLVED)
            self._whole = fold(events, position=self.position)
        return self._whole

    def active(self) -> int:
        """Return the number of active items that agents are given."""
        # As `counts_for_agents` counts them.
        sets = fact_sets(self._connection, self.position)
        given = {number for number, facts in sets.items() if facts.src not in JUDGE_SOURCES}
        return marked(facts_at(self._connection, self.position), given, len(sets)).count(1)

    def ids(self, sql: str, parameters: tuple[object, ...] = ()) -> list[str]:
        """Return ids of items."""
        return [id for (id,) in self._connection.execute(sql, parameters)]

    def item_count(self) -> int:
        """Return the number of items."""
        return int(self._connection.execute(_ITEM_COUNT).fetchone()[0])
