"""The state of a bank at one position, as values: items, runs, verdicts, uses, policies. `rbank_es.state.evolution`
computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from rbank_es.events import PolicyChoice
from rbank_es.events.items import Item
from rbank_es.events.run_events import VerdictValue

ItemStatus = Literal["active", "superseded", "merged", "forgotten", "retracted"]
"""The state of an item. Only an active one is found, used and compared with."""

Pair = tuple[str, int]
"""A candidate: id of the extraction, index in it from 0."""

# `gc=False` below, because such values hold no cycles, and a bank has hundreds of thousands of them.


class ExtractedCandidate(Struct, frozen=True, kw_only=True, gc=False):
    """A candidate as it was extracted; `erased` if its words were erased, which leaves them empty in the item."""

    item: Item
    erased: bool = False


class ItemState(Struct, frozen=True, kw_only=True, gc=False):
    """An item and its state.

    `ended_seq` is the position of the event that set the present state, None while the item is active. `support` is
    the number of distinct candidates that landed on it, its own included. `extraction` is the id of the event with
    its words.
    """

    item: Item
    state: ItemStatus = "active"
    born_seq: int
    ended_seq: int | None = None
    support: int = 0
    extraction: str
    erased: bool = False


class StandingVerdict(Struct, frozen=True, kw_only=True, gc=False):
    """The standing judgment of a run for one purpose. `seq` is the position of the judgment."""

    verdict: VerdictValue
    judge: str
    judge_version: str
    kind: str
    confidence: float | None = None
    overruled: bool = False
    seq: int


class RunState(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of a run that began; its texts stay in the log.

    An unknown fact is None. Totals are sums over the run's `lm_called` if there is one (None where no call has the
    figure), else those of its `run_finished`. `iterations` are those of `run_finished`, else the number of distinct
    steps. Times are UTC; `duration_s` is in seconds.
    """

    run: str
    ontology: str | None = None
    endpoint: str | None = None
    executor: str | None = None
    model: str | None = None
    mode: str | None = None
    scripted: bool = False
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
    seq: int


class State(Struct, frozen=True, kw_only=True):
    """A bank at one position. Never change its mappings, because states share them. Items are in order of birth.

    `uses` is item to run to the position of the first use; `verdicts` is by run and purpose. `landings` (item,
    extraction, index, to the position of the decision) and `records` are kept for the continuation of the fold.
    """

    position: int = 0
    items: Mapping[str, ItemState] = {}
    uses: Mapping[str, Mapping[str, int]] = {}
    runs: Mapping[str, RunState] = {}
    verdicts: Mapping[tuple[str, str], StandingVerdict] = {}
    policies: Mapping[str, PolicyChoice] = {}
    ontologies: Mapping[str, RegisteredOntology] = {}
    candidates: Mapping[Pair, ExtractedCandidate] = {}
    landings: Mapping[tuple[str, str, int], int] = {}
    records: Mapping[str, RunRecord] = {}


def active(state: State) -> dict[str, Item]:
    """Return the active items by id, in order of birth."""
    return {id: entry.item for id, entry in state.items.items() if entry.state == "active"}


def wins(state: State, item: str) -> int:
    """Return the number of runs that used the item and whose standing learning verdict is success."""
    verdicts = (state.verdicts.get((run, "learning")) for run in state.uses.get(item, ()))
    return sum(1 for verdict in verdicts if verdict is not None and verdict.verdict == "success")


def usage(state: State) -> dict[str, tuple[int, int]]:
    """Return uses and wins of every item that was ever used, known to the bank or not."""
    # One pass over verdicts: `wins` for each item would look each run up again.
    won = {
        run
        for (run, purpose), verdict in state.verdicts.items()
        if purpose == "learning" and verdict.verdict == "success"
    }
    return {item: (len(runs), len(won & runs.keys())) for item, runs in state.uses.items()}
