"""The memory of a fold, with its facts in tables: what a fold keeps in mappings is looked up as rows.

`rbank_es.law.fold_memory` settles the states of items here as in the pure fold, so the two can't differ. This module
only translates. A fact that an event touches is read from its rows, once. After the event, the difference between its
rows before and after becomes row changes. The rows of an event therefore don't depend on where batches end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rbank_es.events import Decision, Event, PolicyChoice
from rbank_es.events.codec import decode_event, encode_json
from rbank_es.events.items import Item
from rbank_es.law import Due, ItemState, Pair, StandingVerdict, State
from rbank_es.law.bank_state import CandidateState, ExtractionState, ItemRecord, PairState
from rbank_es.law.fold_memory import MEMORY_HANDLERS, UNBOUNDED, MemoryFacts, links
from rbank_es.law.persistent_set import GrowingSet
from rbank_es.law.validity import Standing
from rbank_es.projections.memory_tables import (
    ACTS,
    CANDIDATES,
    CHOICES,
    COPIES,
    DECISION_TARGETS,
    DECISIONS,
    DUE,
    EXTRACTIONS,
    FORGOTTEN,
    PREPARED,
    RELYING,
    STATES,
    SUPPORT,
    VERDICTS,
    WITNESSES,
)
from rbank_es.projections.projection import Change, Close, Insert, Row, Table, json_of
from rbank_es.projections.row_cache import Facts, PreparedParts

TableRow = tuple[Table, Row]


class ItemVersion(Struct, frozen=True, kw_only=True, gc=False):
    """An item as its rows have it. `birth` is the candidate with its words, `landed` are those that support it."""

    entry: ItemState
    birth: Pair
    landed: tuple[Pair, ...]


_PAIR = """
SELECT c.extraction, c.place, c.item, c.domain, d.action, d.targets, d.pending, d.first_seq, d.policy, d.undone,
    d.undoing_time, d.undoing, c.originals
"""
# CROSS JOIN fixes the order of the loops: from what is asked for to what is found by key.
_PAIR_OF = f"""
{_PAIR} FROM candidates c CROSS JOIN decisions d ON d.text = c.text AND d.to_seq IS NULL
WHERE c.extraction = ? AND c.place = ?
"""
_PAIRS_OF_ITEM = f"""
{_PAIR} FROM candidates c CROSS JOIN decisions d ON d.text = c.text AND d.to_seq IS NULL WHERE c.item = ?
"""
_PAIRS_ON_TARGET = f"""
{_PAIR} FROM decision_targets t CROSS JOIN decisions d ON d.text = t.text AND d.to_seq IS NULL
CROSS JOIN candidates c ON c.text = t.text WHERE t.target = ? AND t.to_seq IS NULL
"""
_CANDIDATE = "SELECT text, item, domain, erased, originals FROM candidates WHERE extraction = ? AND place = ?"
_EXTRACTION = """
SELECT kind, pending, size, extracted_seq, runs, relied, aside, witnesses FROM extractions
WHERE extraction = ? AND to_seq IS NULL
"""
_VERDICT = """
SELECT verdict, judge, judge_version, kind, sure, confidence, overruled, rank, judged_seq, judged_time, judgment
FROM verdicts WHERE run = ? AND purpose = ? AND to_seq IS NULL
"""
_ITEM = """
SELECT s.state, s.born_seq, s.ended_seq, c.extraction, c.place, c.erased, s.vouched, s.domains, s.superseded_by
FROM item_states s CROSS JOIN candidates c ON c.text = s.text WHERE s.item = ? AND s.to_seq IS NULL
"""
_ACTS_ON = "SELECT acted_seq, act, acted_time, event FROM item_acts WHERE item = ? ORDER BY from_seq"
_SUPPORT = """
SELECT c.extraction, c.place FROM item_support p CROSS JOIN candidates c ON c.text = p.text
WHERE p.item = ? AND p.to_seq IS NULL
"""
_WITNESSES = "SELECT witness FROM item_witnesses WHERE item = ? AND to_seq IS NULL"
_COPIES = """
SELECT c.extraction, c.place FROM copies k CROSS JOIN candidates c ON c.text = k.text WHERE k.original = ?
ORDER BY k.text
"""


class StoredMemory(MemoryFacts):
    """A memory that goes on from rows. Each event is taken by `changes`, which returns its row changes."""

    candidates: Facts[Pair, CandidateState]
    pairs: Facts[Pair, PairState]

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        """Look facts up through the connection; None if there are no rows yet."""
        super().__init__(State(), dict)
        self._connection = connection
        self._last_text = self._rows("SELECT coalesce(max(text), 0) FROM candidates")[0][0] if connection else 0
        self._texts: dict[Pair, int] = {}
        self._images: list[tuple[Facts[Any, Any], Callable[[Any, Any], Iterable[TableRow]]]] = []
        self.verdicts = self._facts(self._verdict, _verdict_rows)
        self.extractions = self._facts(self._extraction, _extraction_rows)
        self.relying: Facts[str, tuple[str, ...]] = Facts(  # pyright: ignore[reportIncompatibleVariableOverride]
            self._relying if connection else None
        )
        self.copies: Facts[str, tuple[Pair, ...]] = Facts(  # pyright: ignore[reportIncompatibleVariableOverride]
            self._copies if connection else None
        )
        # Narrower than in the base, whose containers are set once, here.
        any_decision = "SELECT EXISTS (SELECT 1 FROM decisions)"
        self.pairs = self._facts(  # pyright: ignore[reportIncompatibleVariableOverride]
            self._pair, self._pair_rows, any_decision
        )
        self.records: Facts[str, ItemRecord] = Facts(  # pyright: ignore[reportIncompatibleVariableOverride]
            self._record if connection else None
        )
        self.items: Facts[str, ItemVersion] = Facts(self._item if connection else None)
        self.candidates = Facts(  # pyright: ignore[reportIncompatibleVariableOverride]
            self._candidate if connection else None
        )
        self.prepared = PreparedParts(self._prepared if connection else None)
        self._images.append((self.prepared, _prepared_rows))
        if connection:
            self.policies = self._policies()
            sql = "SELECT EXISTS (SELECT 1 FROM policy_choices WHERE kind = 'forgetting' AND name <> ?)"
            self.bounded = bool(self._rows(sql, (UNBOUNDED,))[0][0])
            self.due = self._due()

    def _facts(
        self, find: Callable[[Any], Any], rows: Callable[[Any, Any], Iterable[TableRow]], any_row: str = ""
    ) -> Facts[Any, Any]:
        there = self._connection is not None
        facts = Facts(find if there else None, (lambda: bool(self._rows(any_row)[0][0])) if there and any_row else None)
        self._images.append((facts, rows))
        return facts

    def put(self, id: str, standing: Standing, seq: int) -> None:
        """Take what became of an item."""
        old = self.items.get(id)
        if old is not None or standing.state != "unsupported":
            entry = self.entry(standing, None if old is None else old.entry, seq)
            self.items[id] = ItemVersion(entry=entry, birth=standing.birth, landed=standing.landed)

    def land(self, id: str, pair: Pair, made: PairState, seq: int) -> bool:
        """Take one more landing on an item, if nothing follows from it but support."""
        old = self.items.get(id)
        new = None if old is None else self.supported(old.entry, pair, made)
        if old is None or new is None:
            return False
        self.items[id] = ItemVersion(entry=new, birth=old.birth, landed=(*old.landed, pair))
        return True

    def changes(self, event: Event) -> list[Change]:
        """Take an event; return the changes of rows that it makes."""
        policies, due = self.policies, self.due
        MEMORY_HANDLERS[type(event)](self, event)
        changed: list[Change] = list(self._candidate_changes(event.seq))
        for facts, rows in self._images:
            if facts.before:
                for key, old, new in facts.drain():
                    changed += _difference(rows(key, old) if old is not None else (), rows(key, new), event.seq)
        for run, some, more in self.relying.drain():
            changed += _relying_changes(run, some or (), more, event.seq)
        for original, some_pairs, more_pairs in self.copies.drain():
            changed += self._copies_changes(original, some_pairs or (), more_pairs, event.seq)
        records, self.records.before = self.records.before, {}
        for id, record in records.items():
            changed += _record_changes(id, record, self.records[id], event.seq)
        for id, before, after in self.items.drain():
            changed += _difference(self._item_rows(id, before), self._item_rows(id, after), event.seq)
            changed += self._support_changes(id, before, after, event.seq)
        if self.due is not due:
            changed += _due_changes(due, self.due, event.seq)
        if self.policies is not policies:
            changed += _difference(_policy_rows(policies.values()), _policy_rows(self.policies.values()), event.seq)
        return changed

    def _candidate_changes(self, seq: int) -> Iterator[Change]:
        for pair, _, new in self.candidates.drain():
            item: Item = new.item
            self._last_text += 1
            self._texts[pair] = self._last_text
            words = (item.title, item.desc, item.content, "\n".join(item.tags), json_of(item.tags))
            facts = (item.src, item.polarity, item.role, item.scope, item.domain, int(new.erased))
            originals = json_of(new.originals)
            yield Insert(CANDIDATES.name, (self._last_text, *pair, item.id, *words, *facts, originals, seq))
            self.candidates.shorten(pair, _wordless(item.id, item.domain, new.erased, new.originals))

    def _text(self, pair: Pair) -> int:
        if pair not in self._texts:
            self.candidates.get(pair)
            self._texts[pair] = self._rows(_CANDIDATE, pair)[0][0]
        return self._texts[pair]

    def _pair_rows(self, pair: Pair, state: PairState) -> Iterator[TableRow]:
        text = self._text(pair)
        facts = (state.action, json_of(state.targets), int(state.pending), state.order[0], state.policy)
        yield DECISIONS, (text, *facts, int(state.undone), *state.undoing)
        # Once each: a decision may name a target twice, and of two equal rows a batch would close only one. A set,
        # because it may name thousands.
        targets = frozenset(state.targets)
        for item in dict.fromkeys(item for _, items in links(state) for item in items):
            if item in targets:
                yield DECISION_TARGETS, (item, text)

    def _item_rows(self, id: str, item: ItemVersion | None) -> Iterator[TableRow]:
        if item is None:
            return
        entry = item.entry
        place = (id, entry.state, entry.born_seq, entry.ended_seq, self._text(item.birth), int(entry.vouched))
        yield STATES, (*place, json_of(entry.domains), json_of(entry.superseded_by))

    def _support_changes(self, id: str, old: ItemVersion | None, new: ItemVersion, seq: int) -> Iterator[Change]:
        # By sets, because an item may have thousands of landings, of which an event changes one.
        before, after = set(old.landed if old is not None else ()), set(new.landed)
        for pair in before - after:
            yield Close(SUPPORT.name, (id, self._text(pair)))
        for pair in sorted(after - before):
            yield Insert(SUPPORT.name, (id, self._text(pair), seq))
        was, now = set(old.entry.witnesses if old is not None else ()), set(new.entry.witnesses)
        for witness in was - now:
            yield Close(WITNESSES.name, (id, witness))
        for witness in sorted(now - was):
            yield Insert(WITNESSES.name, (id, witness, seq))

    def _copies_changes(
        self, original: str, old: tuple[Pair, ...], new: tuple[Pair, ...], seq: int
    ) -> Iterator[Change]:
        # They only become more.
        for pair in new[len(old) :]:
            yield Insert(COPIES.name, (original, self._text(pair), seq))

    # ---------------------------------------------------------------------------------------------- lookups

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall() if self._connection else []

    def _verdict(self, key: tuple[str, str]) -> StandingVerdict | None:
        for verdict, judge, version, kind, sure, confidence, overruled, rank, seq, *said in self._rows(_VERDICT, key):
            return StandingVerdict(
                verdict=verdict,
                judge=judge,
                judge_version=version,
                kind=kind,
                sure=bool(sure),
                confidence=confidence,
                overruled=bool(overruled),
                rank=rank,
                seq=seq,
                said=(said[0], said[1]),
            )
        return None

    def _extraction(self, id: str) -> ExtractionState | None:
        for kind, pending, size, seq, runs, relied, aside, witnesses in self._rows(_EXTRACTION, (id,)):
            return ExtractionState(
                seq=seq,
                kind=kind,
                runs=_decoded(runs, tuple[str, ...]),
                relied=_decoded(relied, tuple[tuple[str, Any], ...]),
                aside=_decoded(aside, tuple[tuple[str, Any], ...]),
                pending=bool(pending),
                size=size,
                witnesses=_decoded(witnesses, tuple[str, ...]),
            )
        return None

    def _candidate(self, pair: Pair) -> CandidateState | None:
        for text, item, domain, erased, originals in self._rows(_CANDIDATE, pair):
            self._texts[pair] = text
            return _wordless(item, domain, bool(erased), _decoded(originals, tuple[str, ...]))
        return None

    def _pair(self, pair: Pair) -> PairState | None:
        found = [state for _, state in self._pairs(_PAIR_OF, pair)]
        return found[0] if found else None

    def _pairs(self, sql: str, parameters: tuple[Any, ...]) -> Iterator[tuple[Pair, PairState]]:
        for row in self._rows(sql, parameters):
            extraction, place, item, domain, action, given, held, seq, policy, undone, time, undoing, originals = row
            targets = _decoded(given, tuple[str, ...])
            yield (
                (extraction, place),
                PairState(
                    order=(seq, place),
                    item=item,
                    domain=domain or "",
                    originals=_decoded(originals, tuple[str, ...]),
                    action=action,
                    targets=targets,
                    pending=bool(held),
                    # The one in force: states don't hang on the first one, which only a refold of decisions reads.
                    first=Decision(candidate=place, action=action, item=item, targets=targets, pending=bool(held)),
                    policy=policy,
                    undone=bool(undone),
                    undoing=(time, undoing),
                ),
            )

    def _record(self, id: str) -> ItemRecord | None:
        found = dict(self._pairs(_PAIRS_OF_ITEM, (id,)))
        mine = tuple(found)
        found.update(self._pairs(_PAIRS_ON_TARGET, (id,)))
        on: dict[str, list[Pair]] = {"landed": [], "enders": []}
        for pair, state in found.items():
            self.pairs.keep(pair, state)
            for field, items in links(state):
                if id in items:
                    on[field].append(pair)
        acts = self._rows(_ACTS_ON, (id,))
        forgotten = self._rows("SELECT 1 FROM forgotten_items WHERE item = ? AND to_seq IS NULL", (id,))
        if not (found or acts or forgotten):
            return None
        landed, enders = tuple(on["landed"]), tuple(on["enders"])
        record = ItemRecord(pairs=mine, landed=landed, enders=enders, forgotten=bool(forgotten))
        for seq, act, time, event in acts:
            record = record.acted((seq, act), (time, event))
        return record

    def _relying(self, run: str) -> tuple[str, ...] | None:
        found = self._rows("SELECT extraction FROM relying WHERE run = ? ORDER BY number", (run,))
        return tuple(extraction for (extraction,) in found) or None

    def _copies(self, original: str) -> tuple[Pair, ...] | None:
        return tuple(self._rows(_COPIES, (original,))) or None

    def _prepared(self, correction: str) -> tuple[Event, ...] | None:
        sql = "SELECT event FROM prepared_parts WHERE correction = ? AND to_seq IS NULL ORDER BY part"
        return tuple(decode_event(event.encode()) for (event,) in self._rows(sql, (correction,))) or None

    def _item(self, id: str) -> ItemVersion | None:
        for state, born, ended, extraction, place, erased, vouched, domains, by in self._rows(_ITEM, (id,)):
            birth, landed = (extraction, place), tuple(self._rows(_SUPPORT, (id,)))
            entry = ItemState(
                item=self.candidates[birth].item,
                state=state,
                born_seq=born,
                ended_seq=ended,
                witnesses=tuple(witness for (witness,) in self._rows(_WITNESSES, (id,))),
                extraction=extraction,
                erased=bool(erased),
                rank=self.pairs[birth].order,
                domains=_decoded(domains, tuple[str, ...]),
                vouched=bool(vouched),
                superseded_by=_decoded(by, tuple[str, ...]),
            )
            return ItemVersion(entry=entry, birth=birth, landed=landed)
        return None

    def _policies(self) -> dict[str, PolicyChoice]:
        sql = "SELECT kind, name, version, settings FROM policy_choices WHERE to_seq IS NULL"
        return {
            kind: msgspec.convert(
                {"kind": kind, "name": name, "version": version, "settings": msgspec.json.decode(settings)},
                PolicyChoice,
            )
            for kind, name, version, settings in self._rows(sql)
        }

    def _due(self) -> Due:
        found = self._rows("SELECT kind, id, place FROM due_facts WHERE to_seq IS NULL ORDER BY from_seq")
        return Due(
            pairs=GrowingSet((id, place) for kind, id, place in found if kind == "candidate"),
            items=GrowingSet(id for kind, id, _ in found if kind == "item"),
            runs=GrowingSet(id for kind, id, _ in found if kind == "run"),
            whole=any(kind == "bank" for kind, _, _ in found),
            causes=tuple(id for kind, id, _ in found if kind == "cause"),
        )


def _wordless(id: str, domain: str | None, erased: bool, originals: tuple[str, ...]) -> CandidateState:
    # The words are in their row; a memory of all of them would be as large as the bank.
    return CandidateState(item=Item(id=id, title="", domain=domain), erased=erased, originals=originals)


def _decoded(text: str, type_: Any) -> Any:
    return msgspec.json.decode(text, type=type_)


def _difference(old: Iterable[TableRow], new: Iterable[TableRow], seq: int) -> Iterator[Change]:
    """Yield the changes that turn some rows into others at a position."""
    before = dict.fromkeys(old)
    if not before:
        for table, row in new:
            yield Insert(table.name, (*row, seq))
        return
    after = dict.fromkeys(new)
    for table, row in before.keys() - after.keys():
        yield Close(table.name, row[: table.current])
    for table, row in after:
        if (table, row) not in before:
            yield Insert(table.name, (*row, seq))


def _verdict_rows(key: tuple[str, str], verdict: StandingVerdict) -> Iterator[TableRow]:
    judge = (verdict.judge, verdict.judge_version, verdict.kind, int(verdict.sure), verdict.confidence)
    yield VERDICTS, (*key, verdict.verdict, *judge, int(verdict.overruled), verdict.rank, verdict.seq, *verdict.said)


def _extraction_rows(id: str, extraction: ExtractionState) -> Iterator[TableRow]:
    facts = (extraction.kind, int(extraction.pending), extraction.size, extraction.seq)
    lists = (extraction.runs, extraction.relied, extraction.aside, extraction.witnesses)
    yield EXTRACTIONS, (id, *facts, *map(json_of, lists), int(extraction.stands))


def _relying_changes(run: str, old: tuple[str, ...], new: tuple[str, ...], seq: int) -> Iterator[Change]:
    # They only become more, and thousands may rely on one run.
    for number in range(len(old), len(new)):
        yield Insert(RELYING.name, (run, number, new[number], seq))


def _record_changes(id: str, old: ItemRecord | None, new: ItemRecord, seq: int) -> Iterator[Change]:
    # An event acts once on an item, which may have thousands of acts.
    if new.recent and (old is None or old.recent[-1:] != new.recent[-1:]):
        # Of an admission the time doesn't matter, and it is not kept.
        at, act = new.recent[-1]
        yield Insert(ACTS.name, (id, act, at, *(new.said if act != "admitted" else ("", "")), seq))
    was = old is not None and old.forgotten
    if was and not new.forgotten:
        yield Close(FORGOTTEN.name, (id,))
    if new.forgotten and not was:
        yield Insert(FORGOTTEN.name, (id, seq))


def _prepared_rows(correction: str, parts: tuple[Event, ...]) -> Iterator[TableRow]:
    for part in parts:
        texts = {name: "" for name in ("salt", "why") if name in part.__struct_fields__}
        yield PREPARED, (correction, part.seq, encode_json(replace(part, **texts)).decode())


def _due_changes(old: Due, new: Due, seq: int) -> Iterator[Change]:
    # By what was added: a bank that nobody corrects has ever more that is due.
    for row in _due_since(new, old):
        yield Close(DUE.name, row)
    for row in _due_since(old, new):
        yield Insert(DUE.name, (*row, seq))
    # Causes only grow until a correction answers all of them.
    begun = 0 if len(new.causes) < len(old.causes) else len(old.causes)
    for cause in () if begun else old.causes:
        yield Close(DUE.name, ("cause", cause, 0))
    for cause in new.causes[begun:]:
        yield Insert(DUE.name, ("cause", cause, 0, seq))


def _due_since(before: Due, due: Due) -> Iterator[Row]:
    """Yield the rows of what is due in one and was not in another."""
    for extraction, place in due.pairs.since(before.pairs):
        yield "candidate", extraction, place
    for item in due.items.since(before.items):
        yield "item", item, 0
    for run in due.runs.since(before.runs):
        yield "run", run, 0
    if due.whole and not before.whole:
        yield "bank", "", 0


def _policy_rows(choices: Iterable[PolicyChoice]) -> Iterator[TableRow]:
    for choice in choices:
        yield CHOICES, (choice.kind, choice.name, choice.version, json_of(choice.settings))
