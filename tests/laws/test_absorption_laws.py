"""Laws of absorption: any two banks, with any lives, strangers or one of them a copy of the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.bank.absorbed_events import stays
from rbank_es.events import Event, MemoriesExtracted, PolicySet, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.law import Append, Dedup, Never, usage
from tests.cli.misled import HEIGHT, TWIN
from tests.effort import examples
from tests.laws.bank_lives import (
    ALL,
    DEDUP,
    PEOPLE,
    RUNS,
    Life,
    Op,
    acts,
    asides,
    judges,
    lates,
    learns,
    lives,
    overrules,
    undos,
    uses,
)
from tests.laws.plain_bank import authority, canonical, rows
from tests.laws.plain_bank import said as said_at

lawful = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))


def lived(ops: list[Op], start: Life | None = None) -> Life:
    life = start or Life()
    for op in ops:
        life.do(op)
    life.policy("policy", DEDUP, Never(), False)  # under a policy that nobody knows, nothing is decided
    return life


@contextmanager
def copied(life: Life) -> Iterator[Life]:
    """A life that goes on from here apart."""
    made = Life.__new__(Life)
    with life.bank.copy() as bank:
        made.bank, made.groups, made.version, made.when = bank, list(life.groups), life.version, None
        made.ahead = []
        yield made


def brought_words(log: list[Event]) -> dict[tuple[str, int], object]:
    """The words of every candidate, by the id of its extraction and its index."""
    extracted = (event for event in log if isinstance(event, MemoriesExtracted))
    return {(event.id, index): words for event in extracted for index, words in enumerate(event.candidates)}


@lawful
@given(lives(ALL), lives(PEOPLE), st.booleans())
def test_it_brings_all_loses_nothing_ends_and_leaves_a_canonical_bank(
    ours: list[Op], theirs: list[Op], strangers: bool
) -> None:
    mine = lived(ours)
    with copied(mine) as fork:
        other = lived(theirs, None if strangers else fork)
        there = [event for event in other.log if not stays(event)]
        made = mine.bank.absorb(other.bank)
        log = mine.log
        ids = {event.id for event in log}
        assert {event.id for event in there} <= ids
        assert made.brought + made.known == len(there) and made.refused == 0
        # No words are lost, save those that were erased on one side.
        words, came = brought_words(there), brought_words(log)
        assert all(came[pair] == words[pair] for pair in words) or made.withheld or mine.bank.log.erasures()
        wanted = rows(canonical(log))
        found = {row[0]: row[1] for row in wanted}
        state = mine.bank.state()
        assert {id: entry.state for id, entry in state.items.items() if entry.state != "unsupported"} == found, wanted
        assert mine.bank.check(decisions=True).canonical.canonical
        # Again, back, and round.
        position = mine.bank.position
        assert mine.bank.absorb(other.bank).brought == 0 and mine.bank.position == position
        other.bank.absorb(mine.bank)
        assert mine.bank.absorb(other.bank).brought == 0 and other.bank.absorb(mine.bank).brought == 0


ROUNDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), lives(PEOPLE)), min_size=2, max_size=5)


@pytest.mark.slow
@lawful
@given(ROUNDS, st.integers(2, 3), st.booleans())
def test_banks_that_go_on_and_absorb_each_other_in_turn_hold_the_same_in_the_end(
    rounds: list[tuple[int, int, list[Op]]], count: int, begun: bool
) -> None:
    """Nothing is lost or refused, also where runs and items have other names in each bank (`begun`: runs, too)."""
    banks = [Life() for _ in range(count)]
    for life in banks if begun else ():
        life.bank.append([RunStarted(run=run) for run in RUNS])

    def absorbed(into: Life, other: Life) -> int:
        made = into.bank.absorb(other.bank)
        assert made.refused == 0
        return made.brought

    for one, other, ops in rounds:
        lived(ops, banks[one % count])
        lived([], banks[other % count])
        if one % count != other % count:
            absorbed(banks[one % count], banks[other % count])
    for life in banks:
        lived([], life)
    for _ in range(2):
        for into, other in permutations(banks, 2):
            absorbed(into, other)
    assert [absorbed(into, other) for into, other in permutations(banks, 2)] == [0] * count * (count - 1)
    assert len({frozenset(event.id for event in life.log if not stays(event)) for life in banks}) == 1
    for life in banks:
        found = {row[0]: row[1] for row in rows(canonical(life.log))}
        states = {id: entry.state for id, entry in life.bank.state().items.items() if entry.state != "unsupported"}
        assert states == found and life.bank.check(decisions=True).canonical.canonical


SAYING = st.one_of(learns, judges("lm", "check", "outcome", "human"), overrules, acts, acts, undos, asides, uses, lates)
FOREST = st.lists(st.tuples(st.integers(0, 2), st.lists(SAYING, max_size=4), st.integers(0, 2)), min_size=3, max_size=8)


def plain_words(op: Op) -> Op:
    """The same, whose items have ids of their words, and one polarity for each words."""
    if op[0] != "learn":
        return op
    items = [Item.make(item.title, item.content, "success") for item in op[3]]
    return (*op[:3], items, *op[4:])


@lawful
@given(st.lists(SAYING, max_size=8), FOREST, st.permutations([(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)] * 2))
def test_by_rule_2_banks_that_absorb_each_other_in_any_order_end_equal(
    trunk: list[Op], forest: list[tuple[int, list[Op], int]], order: list[tuple[int, int]]
) -> None:
    """Whatever people of several banks said of the same runs and items: events, verdicts, states of items, and uses."""
    root = Life()
    root.law("law", 2)
    root.policy("policy", Append(), Never(), False)
    for op in trunk:
        root.do(plain_words(op))
    with copied(root) as one, copied(root) as two:
        banks = [root, one, two]
        for number, ops, other in forest:
            for op in ops:
                banks[number].do(plain_words(op))
            if other != number:
                banks[number].bank.absorb(banks[other].bank)
        for into, other in [*order, *permutations(range(3), 2)]:
            assert banks[into].bank.absorb(banks[other].bank).refused == 0
        states = [life.bank.state() for life in banks]
        assert len({frozenset(event.id for event in life.log if not stays(event)) for life in banks}) == 1
        verdicts = [{key: (each.verdict, each.said) for key, each in state.verdicts.items()} for state in states]
        assert verdicts[0] == verdicts[1] == verdicts[2]
        found = [
            {id: (it.state, it.item.title, it.vouched) for id, it in state.items.items() if it.state != "unsupported"}
            for state in states
        ]
        assert found[0] == found[1] == found[2]
        assert usage(states[0]) == usage(states[1]) == usage(states[2])
        # By their own words alone, whichever bank was told first.
        judged = [event for event in banks[0].log if isinstance(event, RunJudged)]
        for (run, _), (verdict, said) in verdicts[0].items():
            ranks = {(authority(each, False), said_at(each)): each.verdict for each in judged if each.run == run}
            assert ranks[max(ranks)] == verdict and max(ranks)[1] == said


def test_under_dedup_the_first_of_two_near_duplicates_keeps_its_words() -> None:
    """So there the order of absorptions decides whose words are active; the other ones support them."""
    found = []
    banks = []
    for item in (HEIGHT, TWIN):
        banks.append(Bank.create("memory:"))
        banks[-1].remember(item.title, item.content, src="success")
    for order in (banks, banks[::-1]):
        with Bank.create("memory:", policies=(Dedup().choice,)) as into:
            for bank in order:
                into.absorb(bank)
            [(id, entry)] = [each for each in into.state().items.items() if each[1].state == "active"]
            found.append((id, entry.support))
    assert found == [(HEIGHT.id, 2), (TWIN.id, 2)]


@pytest.mark.slow
@lawful
@given(lives(PEOPLE), lives(PEOPLE))
def test_origins_change_nothing_but_the_label(ours: list[Op], theirs: list[Op]) -> None:
    """A bank whose events all claim another origin has the same items, verdicts and uses."""
    plain, other = lived(ours), lived(theirs)
    plain.bank.absorb(other.bank)
    with Bank.create("memory:") as labelled:
        log = list(plain.bank.events(after=2, resolve=True))
        fresh = [
            replace(
                event, seq=0, at="", occurred_at=event.occurred_at or event.at, more=0, dur=0, crc="", origin="f" * 32
            )
            for event in log
        ]
        labelled.append([event for event in fresh if type(event) is not PolicySet or event.policies])
        mine, theirs_ = plain.bank.state(), labelled.state()
        assert {id: entry.state for id, entry in mine.items.items()} == {
            id: entry.state for id, entry in theirs_.items.items()
        }
        assert {run: verdict.rank for run, verdict in mine.verdicts.items()} == {
            run: verdict.rank for run, verdict in theirs_.verdicts.items()
        }
