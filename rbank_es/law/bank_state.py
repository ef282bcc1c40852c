"""The state of a bank at one position, as values: items, runs, verdicts, uses, policies. `rbank_es.law.bank_fold`
computes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.events import Decision, Event, PolicyChoice
from rbank_es.events.items import JUDGE_SOURCES, Item
from rbank_es.events.memory_events import Action
from rbank_es.events.notebook_repr import Shown
from rbank_es.events.run_events import VerdictValue
from rbank_es.events.run_totals import known_sum
from rbank_es.law.persistent_set import GrowingSet
from rbank_es.system.proportion import Share

ItemStatus = Literal["active", "pending", "superseded", "merged", "forgotten", "unsupported", "withdrawn", "rejected"]
"""The state of an item: see `rbank_es.law.validity`. Only an active one is found, used and compared with."""

BIRTHS = frozenset({"add", "merge", "supersede"})
"""Actions that bring their candidate's item to life."""

Pair = tuple[str, int]
"""A candidate: id of the extraction, index in it from 0."""

Counted = Literal["either", "injected", "read"]
"""The ways of giving an item to a run that count as a use: into its context, read there in full, or either of both."""

Order = tuple[int, int]
"""The place of a candidate among all: position of the first decision about it, index in its extraction."""

Act = tuple[int, str]
"""What a person did to an item: position, and which act."""

Said = tuple[str, str]
"""When a judgment was given, or a person acted: UTC time at which it happened, id of the event."""

_ACTS_APART = 256
"""Acts in one piece: copying so many costs less than the rest of an event."""

# `gc=False` below, because such values hold no cycles, and a bank has hundreds of thousands of them.


class CandidateState(Struct, frozen=True, kw_only=True, gc=False):
    """A candidate as it was extracted; `erased` if its words were erased, here or in the bank that it
    came from, which leaves them empty in the item. `originals` are the extractions of which it is a copy."""

    item: Item
    erased: bool = False
    originals: tuple[str, ...] = ()


class ExtractionState(Struct, frozen=True, kw_only=True, gc=False):
    """An extraction, and whether it stands: whether its candidates count.

    `runs` are those that it was drawn from, `relied` the verdicts on runs that it relied on. `aside` are the verdicts
    because of which it was set aside. `size` is the number of its candidates. `witnesses` are the runs behind it, or
    itself where it was drawn from none; none while it doesn't stand.
    """

    seq: int
    kind: str
    runs: tuple[str, ...] = ()
    relied: tuple[tuple[str, VerdictValue], ...] = ()
    aside: tuple[tuple[str, VerdictValue], ...] = ()
    pending: bool = False
    size: int = 0
    witnesses: tuple[str, ...] = ()

    @property
    def stands(self) -> bool:
        """Whether it stands."""
        return bool(self.witnesses)


class PairState(Struct, frozen=True, kw_only=True, gc=False):
    """A candidate that was decided on: its order, the id and domain (empty for none) of its item, and the decision in
    force (`action`, `targets`, and `pending`: near to rejected words). `first` is the first decision, under the policy
    with this label. `undoing` is when somebody undid it, or lifted that. `originals` are those of the candidate."""

    order: Order
    item: str
    domain: str
    originals: tuple[str, ...] = ()
    action: Action
    targets: tuple[str, ...]
    pending: bool = False
    first: Decision
    policy: str
    undone: bool = False
    undoing: Said = ("", "")


class Proposal(Struct, frozen=True, kw_only=True, gc=False):
    """A model's proposal about a candidate."""

    action: Action
    targets: tuple[str, ...] = ()


class ItemRecord(Struct, frozen=True, kw_only=True, gc=False):
    """The record of an item id: the facts from which its state is derived.

    `pairs` are the candidates with this id, `landed` those whose decision puts them on it, `enders` those whose
    decision ends it. `recent` are the latest acts of people, in order: position, and `vouched`, `withdrawn`, `rejected`
    or `admitted`; `earlier` has those before them, in pieces. `said` is when the last of them happened that isn't
    `admitted`. `admitted_seq` is the position of the first `admitted`, 0 without one.
    """

    pairs: tuple[Pair, ...] = ()
    landed: tuple[Pair, ...] = ()
    enders: tuple[Pair, ...] = ()
    recent: tuple[Act, ...] = ()
    earlier: tuple[tuple[Act, ...], ...] = ()
    said: Said = ("", "")
    admitted_seq: int = 0
    forgotten: bool = False

    def acted(self, act: Act, said: Said) -> ItemRecord:
        """Return the record with one more act; its cost doesn't grow with the number of acts."""
        full = len(self.recent) >= _ACTS_APART
        return replace(
            self,
            recent=(act,) if full else (*self.recent, act),
            earlier=(*self.earlier, self.recent) if full else self.earlier,
            said=self.said if act[1] == "admitted" else said,
            admitted_seq=self.admitted_seq or (act[0] if act[1] == "admitted" else 0),
        )

    def acts(self) -> Iterator[Act]:
        """Yield all acts, the latest first."""
        yield from reversed(self.recent)
        for piece in reversed(self.earlier):
            yield from reversed(piece)


class ItemState(Struct, frozen=True, kw_only=True, gc=False):
    """An item and its state.

    `born_seq` is the position at which it first was anything but unsupported. `ended_seq` is the position of the event
    that set the present state, None while the item is active or pending. `witnesses` stand behind it: the runs, and the
    extractions without one, of the candidates that landed on it and count; `support` is their number, however many
    extractions a run had. `extraction` is the id of the event with its words, `rank` their order.
    `domains` are those of the candidates that count, empty for none. `vouched`: it stands on somebody's word.
    `superseded_by` are the items that took its place.
    """

    item: Item
    state: ItemStatus = "active"
    born_seq: int
    ended_seq: int | None = None
    witnesses: tuple[str, ...] = ()
    extraction: str
    erased: bool = False
    rank: Order
    domains: tuple[str, ...] = ()
    vouched: bool = False
    superseded_by: tuple[str, ...] = ()

    @property
    def support(self) -> int:
        """The number of witnesses."""
        return len(self.witnesses)


class Due(Struct, frozen=True, kw_only=True):
    """The work of a correction: candidates that began or ceased to count, items that people acted on, and runs
    whose outcomes count otherwise where a policy chose what to forget; `whole` if words were erased, so that every
    decision may differ. `causes` are the ids of the events, the first `limits.CORRECTION_CAUSES` of them."""

    pairs: GrowingSet[Pair] = GrowingSet()
    items: GrowingSet[str] = GrowingSet()
    runs: GrowingSet[str] = GrowingSet()
    whole: bool = False
    causes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs or self.items or self.runs or self.whole)


class StandingVerdict(Struct, frozen=True, kw_only=True, gc=False):
    """The standing judgment of a run for one purpose. `seq` is the position of the judgment, `said` when it was given,
    `rank` its authority."""

    verdict: VerdictValue
    judge: str
    judge_version: str
    kind: str
    sure: bool = False
    confidence: float | None = None
    overruled: bool = False
    rank: int
    seq: int
    said: Said = ("", "")


class RunState(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of a run that began; its texts stay in the log.

    An unknown fact is None. Totals are sums over the run's `lm_called` if there is one (None where no call has the
    figure), else those of its `run_finished`. `iterations` are those of `run_finished`, else the number of distinct
    steps. Times are UTC; `duration_s` is in seconds.
    """

    run: str
    task_id: str | None = None
    level: int | None = None
    family: str | None = None
    ontology: str | None = None
    endpoint: str | None = None
    executor: str | None = None
    model: str | None = None
    mode: str | None = None
    scripted: bool = False
    simulated: bool = False
    rollout_group: str | None = None
    rollout_index: int | None = None
    iterations_max: int | None = None
    started_seq: int
    started_at: str
    finished_seq: int | None = None
    finished_at: str | None = None
    outcome: str | None = None
    iterations: int = 0
    lm_calls: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    duration_s: float | None = None
    answer_chars: int | None = None
    error_code: str | None = None

    @property
    def tokens(self) -> int | None:
        """The tokens of prompts and answers together; where one of them is unknown, the other."""
        return known_sum((self.tokens_in, self.tokens_out))


class RunEnd(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of the latest `run_finished` of a run. `seq` is its position, `at` its time, UTC."""

    seq: int
    at: str
    outcome: str
    iterations: int | None = None
    lm_calls: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    duration_s: float | None = None
    answer_chars: int | None = None
    error_code: str | None = None
    recall_unsent: tuple[str, ...] = ()


class RunRecord(Struct, frozen=True, kw_only=True):
    """All facts recorded under a run's id, whether or not the run began. `RunState` is computed from them.

    `started` is the run as it was when it began; `lm_calls` and the totals count `lm_called` only.
    """

    started: RunState | None = None
    finished: RunEnd | None = None
    lm_calls: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    steps: frozenset[int] = frozenset()


class RegisteredOntology(Struct, frozen=True, kw_only=True):
    """The latest registration of an ontology. `seq` is its position, `sha256` of the file, in hex."""

    ontology: str
    sha256: str
    format: str | None = None
    triples: int | None = None
    namespaces: Mapping[str, str] = {}
    whole: bool | None = None
    terms: tuple[str, ...] = ()
    seq: int


class State(Shown, Struct, frozen=True, kw_only=True):
    """A bank at one position. Never change its mappings, because states share them. Items are in order of birth.

    `uses` is item to run to the position at which the run was first given the item in full; `injected` and `read` are
    the same by way, into the context or by a tool; `unsent` is item to the runs whose latest end says that none of
    their requests held it, though their contexts did. `verdicts` is by run and purpose; `relying` is run to the
    extractions that were drawn from it, or rely on a verdict on it; `copies` is extraction, known or not, to the
    candidates that are copies of it; `proposals` are those of models, the latest for each candidate. `bounded`: a
    policy that forgets was in force at some position. `due` is what no completed correction has looked at. `prepared`
    are parts of corrections that aren't completed. `records` and `run_records` are kept for the continuation of the
    fold.
    """

    position: int = 0
    items: Mapping[str, ItemState] = {}
    uses: Mapping[str, Mapping[str, int]] = {}
    injected: Mapping[str, Mapping[str, int]] = {}
    read: Mapping[str, Mapping[str, int]] = {}
    unsent: Mapping[str, frozenset[str]] = {}
    runs: Mapping[str, RunState] = {}
    verdicts: Mapping[tuple[str, str], StandingVerdict] = {}
    policies: Mapping[str, PolicyChoice] = {}
    ontologies: Mapping[str, RegisteredOntology] = {}
    extractions: Mapping[str, ExtractionState] = {}
    candidates: Mapping[Pair, CandidateState] = {}
    pairs: Mapping[Pair, PairState] = {}
    records: Mapping[str, ItemRecord] = {}
    relying: Mapping[str, tuple[str, ...]] = {}
    copies: Mapping[str, tuple[Pair, ...]] = {}
    proposals: Mapping[Pair, Proposal] = {}
    prepared: Mapping[str, tuple[Event, ...]] = {}
    bounded: bool = False
    due: Due = Due()
    run_records: Mapping[str, RunRecord] = {}


def active(state: State) -> dict[str, Item]:
    """Return the active items by id, in order of birth."""
    return {id: entry.item for id, entry in state.items.items() if entry.state == "active"}


def items_of_task(state: State, task: str) -> frozenset[str]:
    """Return the ids of the items that candidates drawn from any run of a task brought, landed on or ended."""
    runs = [run for run, facts in state.runs.items() if facts.task_id == task]
    found = set[str]()
    for extraction in {each for run in runs for each in state.relying.get(run, ())}:
        for number in range(state.extractions[extraction].size):
            pair = extraction, number
            if pair in state.candidates:
                found.add(state.candidates[pair].item.id)
            if pair in state.pairs:
                found.update(state.pairs[pair].targets)
    return frozenset(found)


def items_above(state: State, level: int) -> frozenset[str]:
    """Return the ids of the items whose standing support was drawn from runs of tasks above a level alone.

    So the level of an item is the lowest of those runs. Support that was drawn from no run, or from one without a
    level, says nothing of levels: what rests on some is for every level.
    """
    above = {run for run, facts in state.runs.items() if facts.level is not None and facts.level > level}
    return frozenset(id for id, entry in state.items.items() if entry.witnesses and above.issuperset(entry.witnesses))


def counted_uses(state: State) -> Mapping[str, Mapping[str, int]]:
    """Return the uses that count by the attribution policy in force, as item to run to position.

    An item that was in a run's context and reached no request of its agent has no use there, unless it was read, too. A
    setting that this release doesn't know counts either way; `verify` names the policy.
    """
    given = _given(state)
    if not state.unsent or given is state.read:
        return given
    return {item: uses for item in given if (uses := counted_uses_of(state, item))}


def counted_uses_of(state: State, item: str) -> Mapping[str, int]:
    """Return those of one item, as run to position."""
    given, unsent = _given(state), state.unsent.get(item)
    uses = given.get(item, {})
    if not unsent or given is state.read:
        return uses
    read = state.read.get(item, {}) if given is state.uses else {}
    sent = {run: seq for run, seq in uses.items() if run not in unsent}
    return sent | {run: read[run] for run in unsent & read.keys()}


def _given(state: State) -> Mapping[str, Mapping[str, int]]:
    choice = state.policies.get("attribution")
    counted = None if choice is None else choice.settings.get("counted")
    # Compared, not looked up: a recorded setting may be any JSON.
    return state.injected if counted == "injected" else state.read if counted == "read" else state.uses


def wins(state: State, item: str) -> int:
    """Return the number of runs that used the item and whose standing learning verdict is success."""
    verdicts = (state.verdicts.get((run, "learning")) for run in counted_uses_of(state, item))
    return sum(1 for verdict in verdicts if verdict is not None and verdict.verdict == "success")


def usage(state: State) -> dict[str, tuple[int, int]]:
    """Return uses and wins of every item that was ever used, known to the bank or not."""
    won = _runs_judged(state, "success")
    return {item: (len(runs), len(won & runs.keys())) for item, runs in counted_uses(state).items()}


def top_tenth(state: State) -> Share:
    """Return the uses of the most used tenth of the active items for agents, of the uses of all of them.

    The tenth is rounded up; an item without a use is one of them. The read model `health` has the same count.
    """
    counted = counted_uses(state)
    uses = sorted(
        (len(counted.get(id, ())) for id, item in active(state).items() if item.src not in JUDGE_SOURCES),
        reverse=True,
    )
    return Share(sum(uses[: -(-len(uses) // 10)]), sum(uses))


def outcomes(state: State) -> dict[str, tuple[int, int]]:
    """Return wins and losses of every item that was ever used, known to the bank or not."""
    won, lost = _runs_judged(state, "success"), _runs_judged(state, "failure")
    return {item: (len(won & runs.keys()), len(lost & runs.keys())) for item, runs in counted_uses(state).items()}


def _runs_judged(state: State, verdict: VerdictValue) -> set[str]:
    # One pass over verdicts: `wins` for each item would look each run up again.
    return {
        run for (run, purpose), found in state.verdicts.items() if purpose == "learning" and found.verdict == verdict
    }
