"""The pure fold: a bank's state, computed from events alone.

`fold` is the definition of the bank's state; read models must agree with it at every prefix of every log. It uses no
clock, no model and no random source. It is total: any sequence of well-typed events folds. An event without a subject
changes nothing: an unknown id, a decision about a candidate that was never extracted, a verdict on a run that never
began.

    candidates  the extracted items, by the id of the extraction and the index in it
    decisions   the latest about a candidate is in force; the first one gives it its place in the order of all
    items       their states follow from candidates, decisions, verdicts and acts: see `rbank_es.law.validity`
    support     the witnesses of the candidates that landed on an item: each run, and each word of a person, once
    corrections their parts take effect where they are completed, or never
    uses        the distinct runs that were given an item in full, by each way; the attribution policy in force says
                which count, and wins are those of them that were judged a success
    runs        from the first `run_started`; ends, costs and steps count in any order
    verdicts    the latest judgment of the highest authority stands, one for learning and one for scoring
    policies    those of the latest `policy_set`, whole
    ontologies  the latest registration of each
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import cache
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.events import (
    ContextBuilt,
    Event,
    LmCalled,
    MemoriesExtracted,
    MemoriesRead,
    OntologyRegistered,
    RunFinished,
    RunStarted,
    StepTaken,
    given_items,
    type_of,
)
from rbank_es.law.bank_state import Pair, PairState, RegisteredOntology, RunEnd, RunRecord, RunState, State
from rbank_es.law.fold_memory import MEMORY_HANDLERS, MemoryFacts
from rbank_es.law.validity import Standing


def fold(events: Iterable[Event], state: State | None = None, *, position: int | None = None) -> State:
    """Return the state after `events`, which follow `state` (default: the empty bank) in order; `state` is unchanged.

    Events of types not in `RELEVANT` may be left out; then give the `position` reached. The texts of types in
    `RESOLVED` must be resolved: raises `BadEvent` where a candidate is still a `Ref`. No other text is read.
    """
    before = state or State()
    work = _Work(before)
    last = work.take(events, before.position)
    return work.done(last if position is None else position)


def evolve(state: State, event: Event) -> State:
    """Return the state after one more event. It copies the containers, so `fold` many events at once."""
    return fold((event,), state)


class LiveState:
    """A state that goes on with its log, in place: each advance takes the time of its events, however large it is.

    Begun with a state, it leaves that one as it is and holds apart what changes. For one thread at a time.
    """

    def __init__(self, base: State | None = None, *, copied: bool = False) -> None:
        """Begin with a state: `copied`, which costs its size once and makes each event as quick as from the start."""
        if base is not None and copied:
            base = replace(base, uses=_apart(base.uses), injected=_apart(base.injected), read=_apart(base.read))
        self._work = _Work(base or State(), layered=base is not None and not copied)
        # A copy is apart from its base at once, because that may be another live state, which goes on.
        self.state = self._work.done(base.position) if base is not None and copied else base or State()
        """The state at present. The next advance changes it, so don't keep it."""

    def advance(self, events: Iterable[Event], position: int | None = None) -> frozenset[str]:
        """Go on with events, as `fold` does; return the ids of the items that they changed.

        Raises what `fold` and the iteration over `events` raise; the state is then of no use any more.
        """
        self._work.changed.clear()
        last = self._work.take(events, self.state.position)
        self.state = self._work.done(last if position is None else position)
        return frozenset(self._work.changed)


def _apart(uses: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {item: dict(runs) for item, runs in uses.items()}


class _Run:
    """The record of one run during a fold: the mutable form of `RunRecord`."""

    __slots__ = ("started", "finished", "lm_calls", "tokens_in", "tokens_out", "cost_usd", "steps")

    def __init__(self, record: RunRecord) -> None:
        self.started, self.finished, self.lm_calls = record.started, record.finished, record.lm_calls
        self.tokens_in, self.tokens_out, self.cost_usd = record.tokens_in, record.tokens_out, record.cost_usd
        self.steps = set(record.steps)

    def record(self) -> RunRecord:
        return RunRecord(
            started=self.started,
            finished=self.finished,
            lm_calls=self.lm_calls,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost_usd=self.cost_usd,
            steps=frozenset(self.steps),
        )


class _Work(MemoryFacts):
    """The containers of a state, copied once and then updated in place. Inner ones are copied on first touch.

    `layered`: nothing is copied; what changes is held apart. Quicker for few events, slower for many. `changed` are
    the items that were born, ended, revived or supported.
    """

    def __init__(self, state: State, *, layered: bool = False) -> None:
        own = Overlay if layered else dict
        super().__init__(state, own)
        self.items = own(state.items)
        self.uses, self.injected, self.read = own(state.uses), own(state.injected), own(state.read)
        self.unsent = own(state.unsent)
        self.ontologies = own(state.ontologies)
        self.changed: set[str] = set()
        self._states, self._run_records = own(state.runs), own(state.run_records)
        self._own_uses: dict[tuple[str, str], dict[str, int]] = {}
        self._runs: dict[str, _Run] = {}

    def put(self, id: str, standing: Standing, seq: int) -> None:
        """Take what became of an item."""
        old = self.items.get(id)
        if old is None and standing.state == "unsupported":
            return
        self.items[id] = self.entry(standing, old, seq)
        self.changed.add(id)

    def land(self, id: str, pair: Pair, made: PairState, seq: int) -> bool:
        """Take one more landing on an item, if nothing follows from it but support."""
        old = self.items.get(id)
        new = None if old is None else self.supported(old, pair, made)
        if new is not None:
            self.items[id] = new
            self.changed.add(id)
        return new is not None

    def take(self, events: Iterable[Event], last: int) -> int:
        """Update the containers; return the position of the last event, `last` if there is none."""
        handlers = _HANDLERS
        for event in events:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(self, event)
            last = event.seq
        return last

    def run(self, run: str) -> _Run:
        found = self._runs.get(run)
        if found is None:
            found = self._runs[run] = _Run(self._run_records.get(run) or RunRecord())
        return found

    def use(self, items: Iterable[str], run: str, seq: int, way: Literal["injected", "read"]) -> None:
        ways = (("uses", self.uses), (way, self.injected if way == "injected" else self.read))
        for item in items:
            for name, uses in ways:
                # Copied on first touch, because most events use few items.
                own = self._own_uses.get((name, item))
                if own is None:
                    own = uses[item] = self._own_uses[name, item] = dict(uses.get(item, ()))
                own.setdefault(run, seq)

    def done(self, position: int) -> State:
        for run, gathered in self._runs.items():
            record = self._run_records[run] = gathered.record()
            if record.started is not None:
                self._states[run] = _run_state(record.started, record)
        self._runs.clear()
        known = {name: getattr(self, name) for name in _GATHERED}
        return State(position=position, runs=self._states, run_records=self._run_records, **known)


_GATHERED = tuple(name for name in State.__struct_fields__ if name not in ("position", "runs", "run_records"))
"""The fields of a state that stand under their names in the work of a fold."""


def _run_state(started: RunState, record: RunRecord) -> RunState:
    finished = record.finished
    # Calls of models are counted one by one; totals of `run_finished` are for imports, which have no calls.
    totals: RunRecord | RunEnd | None = record if record.lm_calls else finished
    run = replace(started, iterations=len(record.steps))
    if totals is not None:
        told = {name: getattr(totals, name) for name in ("lm_calls", "tokens_in", "tokens_out", "cost_usd")}
        run = replace(run, **told)
    return run if finished is None else _ended(run, finished)


def _ended(run: RunState, end: RunEnd) -> RunState:
    return replace(
        run,
        finished_seq=end.seq,
        finished_at=end.at,
        outcome=end.outcome,
        iterations=run.iterations if end.iterations is None else end.iterations,
        duration_s=end.duration_s,
        answer_chars=end.answer_chars,
        error_code=end.error_code,
    )


def _shared(event: Event, cls: type[Struct]) -> dict[str, Any]:
    """Return the facts of an event that a class has under the same names (never `at`, which is a time of recording)."""
    return {name: getattr(event, name) for name in _shared_names(type(event), cls)}


# Pairs of classes are few, and a fold asks at every event of a run.
@cache
def _shared_names(event: type[Event], cls: type[Struct]) -> tuple[str, ...]:
    return tuple(name for name in cls.__struct_fields__ if name in event.__struct_fields__ and name != "at")


def _run_started(work: _Work, event: RunStarted) -> None:
    gathered = work.run(event.run)
    # The first start counts: a second one is a slip of a writer.
    if gathered.started is not None:
        return
    # Field by field, because gathering them by name takes 1.6 times as long, and a log has many runs.
    gathered.started = RunState(
        run=event.run,
        task_id=event.task_id,
        level=event.level,
        family=event.family,
        ontology=event.ontology,
        endpoint=event.endpoint,
        executor=event.executor,
        model=event.model,
        mode=event.mode,
        scripted=event.scripted,
        simulated=event.simulated,
        rollout_group=event.rollout_group,
        rollout_index=event.rollout_index,
        iterations_max=event.iterations_max,
        started_seq=event.seq,
        started_at=event.occurred_at or event.at,
    )


def _run_finished(work: _Work, event: RunFinished) -> None:
    gathered = work.run(event.run)
    before = gathered.finished.recall_unsent if gathered.finished is not None else ()
    for item in {*before, *event.recall_unsent}:
        runs = work.unsent.get(item, frozenset()) - {event.run}
        work.unsent[item] = runs | {event.run} if item in event.recall_unsent else runs
    gathered.finished = RunEnd(**_shared(event, RunEnd), at=event.occurred_at or event.at)


def _step_taken(work: _Work, event: StepTaken) -> None:
    work.run(event.run).steps.add(event.index)


def _lm_called(work: _Work, event: LmCalled) -> None:
    if event.run is None:
        return
    gathered = work.run(event.run)
    gathered.lm_calls += 1
    if event.tokens_in is not None:
        gathered.tokens_in = (gathered.tokens_in or 0) + event.tokens_in
    if event.tokens_out is not None:
        gathered.tokens_out = (gathered.tokens_out or 0) + event.tokens_out
    if event.cost_usd is not None:
        gathered.cost_usd = (gathered.cost_usd or 0.0) + event.cost_usd


def _context_built(work: _Work, event: ContextBuilt) -> None:
    work.use(given_items(event), event.run, event.seq, "injected")


def _memories_read(work: _Work, event: MemoriesRead) -> None:
    work.use(given_items(event), event.run, event.seq, "read")


def _ontology_registered(work: _Work, event: OntologyRegistered) -> None:
    work.ontologies[event.ontology] = RegisteredOntology(**_shared(event, RegisteredOntology))


_HANDLERS: dict[type[Event], Callable[[Any, Any], None]] = {
    **MEMORY_HANDLERS,
    RunStarted: _run_started,
    RunFinished: _run_finished,
    StepTaken: _step_taken,
    LmCalled: _lm_called,
    ContextBuilt: _context_built,
    MemoriesRead: _memories_read,
    OntologyRegistered: _ontology_registered,
}

RELEVANT: frozenset[str] = frozenset(type_of(cls) for cls in _HANDLERS)
"""The event types that the fold reads; a reader may skip all others if it gives `fold` the position."""

RESOLVED: frozenset[str] = frozenset({type_of(MemoriesExtracted)})
"""The event types whose texts the fold reads; a reader need not fetch any others."""


Key = TypeVar("Key")
Value = TypeVar("Value")


class Overlay(MutableMapping[Key, Value]):
    """A mapping that shows another one, with what was set and dropped since.

    Several times as quick as `collections.ChainMap`, on which most of a correction's time went, and it can drop keys.
    """

    __slots__ = ("_own", "_below", "_gone")

    def __init__(self, below: Mapping[Key, Value]) -> None:
        self._own: dict[Key, Value] = {}
        self._below, self._gone = below, set[Key]()

    def __getitem__(self, key: Key) -> Value:
        if key in self._own:
            return self._own[key]
        if key in self._gone:
            raise KeyError(key)
        return self._below[key]

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        if key in self._own:
            return self._own[key]
        return default if key in self._gone else self._below.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._own or (key in self._below and key not in self._gone)

    def __setitem__(self, key: Key, value: Value) -> None:
        self._own[key] = value

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._own.pop(key, None)
        if key in self._below:
            self._gone.add(key)

    def __iter__(self) -> Iterator[Key]:
        """Yield the keys below in their order, then new ones in theirs."""
        # The items of a state are in order of birth, and a changed one keeps its place.
        yield from (key for key in self._below if key in self._own or key not in self._gone)
        yield from (key for key in self._own if key not in self._below)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)
