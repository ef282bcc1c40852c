"""Laws of the fold, over histories that make sense and histories that don't."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from rbank_es.events import ContextBuilt, Event, LmCalled, MemoriesRead, PolicyChoice, PolicySet, type_of
from rbank_es.law import RELEVANT, State, active, evolve, fold, usage, wins
from rbank_es.law.bank_state import Pair
from tests.laws.plain_bank import verdicts_of
from tests.strategies import histories, stamped

logs = histories(erased=True).map(stamped)
SUPPORT = {"run_judged", "judgment_overruled", "decision_undone", "memories_consolidated", "memories_retracted"}
"""Types of events by which candidates begin or cease to count: `memories_retracted` sets extractions aside."""
RETURNS = {
    "rejected": {"memories_restored"},
    "withdrawn": {"memories_restored"},
    "forgotten": {"memories_restored", "memories_consolidated"},
    "unsupported": {"memories_restored", *SUPPORT},
    "superseded": {"memories_restored", *SUPPORT},
    "merged": {"memories_restored", *SUPPORT},
    "pending": {"memories_restored", "memories_admitted", *SUPPORT},
}
"""Types of events that may make an item active, by its state before."""


@given(logs)
def test_evolving_event_by_event_is_folding(log: list[Event]) -> None:
    """evolve, chained, equals fold."""
    assert reduce(evolve, log, State()) == fold(log)


@given(logs, st.lists(st.integers(0, 30), max_size=3))
def test_folding_in_parts_is_folding_at_once(log: list[Event], cuts: list[int]) -> None:
    """Wherever the log is cut into batches."""
    bounds = [0, *sorted(cuts), len(log)]
    parts = (log[start:stop] for start, stop in zip(bounds, bounds[1:], strict=False))
    assert reduce(lambda state, part: fold(part, state), parts, State()) == fold(log)


@given(logs, st.integers(0, 30))
def test_a_state_does_not_depend_on_what_came_after(log: list[Event], cut: int) -> None:
    """Folding on from a state leaves it as it was, to the last nested container."""
    earlier = fold(log[:cut])
    kept = copy.deepcopy(earlier)
    fold(log[cut:], earlier)
    for event in log[cut:]:
        evolve(earlier, event)
    assert earlier == kept == fold(log[:cut])


@given(logs)
def test_only_relevant_events_matter(log: list[Event]) -> None:
    """A reader that leaves the others out and tells the position arrives at the same state."""
    relevant = [event for event in log if type_of(event) in RELEVANT]
    assert fold(relevant, position=len(log)) == fold(log)


@given(logs)
def test_every_item_has_provenance_and_support(log: list[Event]) -> None:
    """It was extracted before it was born; while it is active, a candidate of its own supports it, or a person."""
    state = fold(log)
    for id, entry in state.items.items():
        candidates = [
            found.item for (extraction, _), found in state.candidates.items() if extraction == entry.extraction
        ]
        assert entry.item in candidates
        assert entry.item.id == id
        landed = [pair for pair in state.records[id].landed if counts(state, pair)]
        assert entry.support == len({each for pair in landed for each in behind(state, pair)})
        if entry.state in ("active", "pending"):
            assert entry.vouched or any(state.pairs[pair].item == id for pair in landed)
        assert (entry.ended_seq is None) == (entry.state in ("active", "pending"))


def counts(state: State, pair: Pair) -> bool:
    """Whether a candidate counts: its extraction stands, and nobody undid it."""
    return state.extractions[pair[0]].stands and not state.pairs[pair].undone


def behind(state: State, pair: Pair) -> set[str]:
    """Who stands behind a candidate that counts: the runs that it relied on, and hold, or its extraction."""
    drawn = state.extractions[pair[0]]
    verdicts = {run: state.verdicts.get((run, "learning")) for run, _ in drawn.relied}
    held = {run for run, verdict in drawn.relied if (now := verdicts[run]) is None or now.verdict == verdict}
    return held | (set(drawn.runs) - verdicts.keys()) or {pair[0]}


@given(logs)
def test_an_item_is_never_changed_and_never_lost(log: list[Event]) -> None:
    """Once born, its birth and order stay; its words are always those of a candidate with its id."""
    before = State()
    for event in log:
        after = evolve(before, event)
        assert list(after.items)[: len(before.items)] == list(before.items)
        for id, entry in before.items.items():
            now = after.items[id]
            assert now.born_seq == entry.born_seq
            given = [found.item for pair, found in after.candidates.items() if found.item.id == id]
            assert now.item in given
        before = after


@given(logs)
def test_an_ended_item_comes_back_only_by_what_may_bring_it_back(log: list[Event]) -> None:
    """What a person ended returns by a person's word alone; other items by new support, a verdict or an undoing too."""
    before = State()
    for event in log:
        after = evolve(before, event)
        for id in (active(after).keys() & before.items.keys()) - active(before).keys():
            assert type_of(event) in {*RETURNS[before.items[id].state], "correction_completed"}
        before = after


def plain_usage(log: Sequence[Event]) -> dict[str, tuple[int, int]]:
    """Uses and wins by their definition, read off the whole log at once."""
    standing, _ = verdicts_of(log)
    uses: dict[str, set[str]] = defaultdict(set)
    set_last: tuple[PolicyChoice, ...] = next((e.policies for e in log[::-1] if isinstance(e, PolicySet)), ())
    counted = {choice.kind: choice.settings.get("counted") for choice in set_last}.get("attribution")
    for event in log:
        given = event.items if isinstance(event, ContextBuilt) and counted != "read" else ()
        read = event.ids if isinstance(event, MemoriesRead) and event.how == "get" and counted != "injected" else ()
        for item in (*given, *read):
            uses[item].add(event.run)  # type: ignore[attr-defined]
    return {item: (len(runs), sum(standing.get(run) == "success" for run in runs)) for item, runs in uses.items()}


@given(histories(chapters=("context", "read", "judged", "judged", "started", "set")).map(stamped))
def test_usage_is_what_its_definition_says(log: list[Event]) -> None:
    """Distinct runs that count by the attribution policy set last, however late, and of those the ones whose standing
    verdict for learning is success, whichever came first."""
    state = fold(log)
    assert usage(state) == plain_usage(log)
    assert all(wins(state, item) == won for item, (_, won) in usage(state).items())


@given(histories(chapters=("started", "finished", "lm", "lm", "step")).map(stamped))
def test_totals_are_what_their_definition_says(log: list[Event]) -> None:
    """Sums over the calls of a run; the order of calls, start and finish doesn't matter."""
    for run, found in fold(log).runs.items():
        calls = [event for event in log if isinstance(event, LmCalled) and event.run == run]
        known = [event.tokens_in for event in calls if event.tokens_in is not None]
        if calls:
            assert (found.lm_calls, found.tokens_in) == (len(calls), sum(known) if known else None)
            assert (found.cost_usd or 0.0) == sum(event.cost_usd or 0.0 for event in calls)
