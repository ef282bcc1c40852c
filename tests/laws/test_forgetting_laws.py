"""Laws of the set that a bank keeps: against enumeration of all that it could keep, and floors in any sequence."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.events import ContextBuilt, Event, MemoriesExtracted, Reliance, RunJudged
from rbank_es.events.items import Item
from rbank_es.law import Bounded, ItemState, LeastProven, LiveState, State, active, usage
from rbank_es.law.decisions import append_decided
from rbank_es.policies import Policy
from tests.effort import examples
from tests.laws.bank_lives import CONTENTS, DEDUP, TITLES, F, Life, S
from tests.laws.plain_bank import alike, contradict

lawful = settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
RUNS = ("r1", "r2", "r3")
POLARITIES = (S, S, F)


@st.composite
def bounds(draw: st.DrawFn) -> Bounded:
    """A bound with floors that it has room for."""
    most = draw(st.integers(1, 5))
    won = draw(st.integers(0, most))
    return draw(st.sampled_from((Bounded, LeastProven)))(
        max_items=most, floor_success=won, floor_failure=draw(st.integers(0, most - won)), grace=draw(st.integers(0, 3))
    )


groups_of_words = st.lists(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from(POLARITIES)), min_size=1, max_size=3), min_size=1, max_size=5
)
given_items = st.lists(st.tuples(st.sampled_from(RUNS), st.integers(0, 6)), max_size=8)
verdicts = st.lists(st.tuples(st.sampled_from(RUNS), st.sampled_from((S, F))), max_size=3)


def extraction(items: list[Item], relied: str | None = None) -> MemoriesExtracted:
    """An extraction of items, which rest on the success of a run, or on nothing."""
    return MemoriesExtracted(
        kind="success" if relied else "seed",
        relied=() if relied is None else (Reliance(run=relied, verdict="success"),),
        heads=tuple(item.head for item in items),
        candidates=tuple(item.text for item in items),
    )


def judgment(run: str, verdict: Any) -> RunJudged:
    """A model's judgment."""
    return RunJudged(run=run, kind="lm", verdict=verdict, judge="j", judge_version="1", purpose="learning")


def numbered(number: int, polarity: Any) -> Item:
    """An item that is like no other one."""
    return Item.make(f"{polarity} {number}", f"word{number} {polarity}{number}", "seed", polarity=polarity)


def bank_of(*policies: Policy) -> Bank:
    """A bank in memory, under policies."""
    return Bank.create("memory:", policies=[policy.choice for policy in policies])


def lower_bound(part: int, whole: int) -> float:
    """The lower end of Wilson's interval by its definition: the least rate that is compatible with the share."""
    if not part:
        return 0.0
    z, share = 1.959964, part / whole
    # The smaller root of (share - rate)**2 = z**2 * rate * (1 - rate) / whole.
    a, b, c = 1 + z * z / whole, -(2 * share + z * z / whole), share * share
    return (-b - (b * b - 4 * a * c) ** 0.5) / (2 * a)


def kept_by_enumeration(state: State, bound: Bounded) -> set[str]:
    """Of all sets that keep the bound and the floors, the one that gives up the items of least worth."""
    live = [entry for entry in state.items.values() if entry.state == "active"]
    births = sorted({entry.rank[0] for entry in live})
    newborn = births[-bound.grace :] if bound.grace else []
    used = usage(state)

    def worth(entry: ItemState) -> tuple[Any, ...]:
        uses, wins = used.get(entry.item.id, (0, 0))
        runs = state.uses.get(entry.item.id, ())
        lost = sum(state.verdicts[run, "learning"].verdict == F for run in runs if (run, "learning") in state.verdicts)
        first = lower_bound(wins, wins + lost) if isinstance(bound, LeastProven) else wins
        return entry.rank[0] in newborn, first, uses, entry.support, entry.rank

    floors = {S: bound.floor_success, F: bound.floor_failure}
    possible = []
    for kept in combinations(live, min(len(live), bound.max_items)):
        there = {p: sum(entry.item.polarity == p for entry in live) for p in floors}
        held = {p: sum(entry.item.polarity == p for entry in kept) for p in floors}
        if all(held[p] >= min(floors[p], there[p]) for p in floors):
            lost = sorted(worth(entry) for entry in live if entry not in kept)
            possible.append((lost, {entry.item.id for entry in kept}))
    return min(possible, key=lambda each: each[0])[1]


@lawful
@given(groups_of_words, given_items, verdicts, bounds())
def test_the_set_kept_under_a_bound_is_the_best_of_all_that_its_floors_allow(
    groups: list[list[tuple[int, str]]], uses: list[tuple[str, int]], judged: list[tuple[str, str]], bound: Bounded
) -> None:
    with bank_of(DEDUP) as bank:
        for group in groups:
            append_decided(bank.log, bank.latest, [extraction([numbered(*each) for each in group])])
        ids = sorted(active(bank.state()))
        for run, n in uses:
            bank.append(ContextBuilt(run=run, items=(ids[n % len(ids)],), chars=0))
        bank.append([judgment(*each) for each in judged]) if judged else None
        state = bank.state()
    assert set(active(state)) - set(bound.to_forget(state)) == kept_by_enumeration(state, bound)


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.sampled_from(RUNS), st.integers(0, 9), st.sampled_from(POLARITIES)),
        st.tuples(st.just("overrule"), st.sampled_from(RUNS), st.sampled_from((S, F))),
        st.tuples(st.just("use"), st.sampled_from(RUNS), st.integers(0, 9)),
    ),
    min_size=4,
    max_size=14,
)


@lawful
@given(happenings, bounds())
def test_forgetting_takes_no_polarity_below_its_floor_in_any_sequence(
    happened: list[tuple[Any, ...]], bound: Bounded
) -> None:
    """After every group, corrections included: a polarity of which an item is forgotten has as many as its floor."""
    floors = {S: bound.floor_success, F: bound.floor_failure}
    with bank_of(DEDUP, bound) as bank:
        bank.append([judgment(run, S) for run in RUNS])
        for name, run, *facts in happened:
            known = sorted(bank.state().items)
            if name == "learn":
                append_decided(bank.log, bank.latest, [extraction([numbered(*facts)], run)])
            elif name == "overrule":
                bank.overrule(run, facts[0], reason="x")
            elif known:
                bank.append(ContextBuilt(run=run, items=(known[facts[0] % len(known)],), chars=0))
        log = list(bank.events(resolve=True))
    live = LiveState()
    for group in groups_in(log):
        live.advance(group)
        state = live.state
        held = Counter(item.polarity for item in active(state).values())
        assert held.total() <= bound.max_items
        forgotten = {entry.item.polarity for entry in state.items.values() if entry.state == "forgotten"}
        assert all(held[polarity] >= floors[polarity] for polarity in forgotten)  # type: ignore[index]


def groups_in(log: list[Event]) -> list[list[Event]]:
    """The groups of a log."""
    groups: list[list[Event]] = [[]]
    for event in log:
        groups[-1].append(event)
        if not event.more:
            groups.append([])
    return groups[:-1]


learnt = st.lists(
    st.tuples(st.sampled_from(RUNS), st.sampled_from(TITLES), st.sampled_from(CONTENTS)), min_size=2, max_size=5
)


@lawful
@given(learnt, st.lists(st.tuples(st.sampled_from(RUNS), st.sampled_from((S, F))), min_size=1, max_size=4))
def test_what_corrections_keep_is_the_only_set_that_agrees_with_itself(
    drawn: list[tuple[str, str, str]], overruled: list[tuple[str, Any]]
) -> None:
    """Of all ways to decide about the candidates that count, only one is what `dedup` says of itself."""
    life = Life()
    for run in RUNS:
        life.judge("judge", run, "lm", S)
    items = [Item.make(title, content, "success") for _, title, content in drawn]
    for (run, _, _), item in zip(drawn, items, strict=True):
        append_decided(life.bank.log, life.bank.latest, [extraction([item], run)])
    for run, verdict in overruled:
        life.bank.overrule(run, verdict, reason="x")
    lost = {run for run, verdict in dict(overruled).items() if verdict == F}
    counting = [number for number, (run, _, _) in enumerate(drawn) if run not in lost]
    agreeing = [
        made
        for choice in product(*(counting[: place + 1] for place in range(len(counting))))
        if agrees(made := dict(zip(counting, choice, strict=True)), items)
    ]
    assert len(agreeing) == 1
    [made] = agreeing
    kept = {
        items[number].id: len({drawn[each][0] for each, onto in made.items() if onto == number})
        for number in counting
        if made[number] == number
    }
    state = life.bank.state()
    assert {id: state.items[id].support for id in active(state)} == kept


def agrees(made: dict[int, int], items: list[Item]) -> bool:
    """Whether each candidate goes onto the first item before it that it repeats, by id or nearly; else onto itself."""
    for number, onto in made.items():
        new = items[number]
        before = [other for other in made if other < number and made[other] == other]
        same = [other for other in before if items[other].id == new.id]
        near = [other for other in before if alike(DEDUP, new, items[other]) and not contradict(new, items[other])]
        if onto != next(iter([*same, *near]), number):
            return False
    return True
