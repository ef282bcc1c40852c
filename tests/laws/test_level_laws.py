"""What a search leaves out: items that harder tasks alone taught, where a policy says so, and those of its own task."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.bank.what_if import WhatIf
from rbank_es.events import Event, MemoriesExtracted, MemoriesRetrieved, RunStarted
from rbank_es.law import items_above, items_of_task
from rbank_es.policies import Bm25V1
from rbank_es.projections.read_models import ReadModels
from rbank_es.projections.view import View
from tests.effort import examples
from tests.laws.bank_lives import ALL, JUDGED, PEOPLE, RUNS, F, Life, Op, S, acts, lives, undos
from tests.laws.plain_bank import BIRTHS, Facts, verdicts_of, visible

LEVELS = st.tuples(*[st.sampled_from((None, 1, 2, 4))] * len(RUNS))
ASKED = "abcd efgh a b c d e v w x y z"
UP_TO = Bm25V1(levels="up_to")
KEPT = ("policy", "law", "attribute")
"""Acts after which other policies than those of the test would be in force."""


def lived(ops: list[Op], levels: tuple[int | None, ...], policies: dict[str, Any] | None = None) -> Life:
    """A life in which the runs have levels; the start of one is recorded late, and another start of one is ignored."""
    life = Life()
    starts = [RunStarted(run=run, level=level) for run, level in zip(RUNS, levels, strict=True)]
    if policies is not None:
        life.bank.set_policies(policies)
    life.bank.append(starts[:2])
    for number, op in enumerate(op for op in ops if policies is None or op[0] not in KEPT):
        life.do(op)
        if number == len(ops) // 2:
            life.bank.append([starts[2], RunStarted(run=RUNS[0], level=5)])
    return life


def plainly_above(log: list[Event], level: int) -> set[str]:
    """The definition, over events: the lowest level of the runs of what landed on an item and counts is above."""
    level_of: dict[str, int | None] = {}
    for event in log:
        if isinstance(event, RunStarted):
            level_of.setdefault(event.run, event.level)
    facts = Facts.of(visible(log))
    lowest: dict[str, int] = {}
    for pair, behind in facts.counting(verdicts_of(log)[0]).items():
        made = facts.current[pair]
        of_candidate = min(level_of.get(witness) or 0 for witness in behind)
        for id in (made.item,) if made.action in BIRTHS else made.targets if made.action == "skip" else ():
            lowest[id] = min(lowest.get(id, of_candidate), of_candidate)
    return {id for id, least in lowest.items() if least > level}


def found(view: View, level: int | None, policy: Bm25V1 | None = None) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in view.search(ASKED, 50, level=level, policy=policy)]


@settings(max_examples=examples(100), deadline=None)
@given(lives(ALL), LEVELS, st.sampled_from((0, 1, 2, 3, 4)), st.integers(0, 99))
def test_what_is_left_out_is_what_only_harder_tasks_taught(
    ops: list[Op], levels: tuple[int | None, ...], level: int, at: int
) -> None:
    """In any bank, at its head and at any position before; view, fold and definition agree, and scores stay."""
    life = lived(ops, levels)
    log = life.log
    for position in {at % life.bank.position + 1, life.bank.position}:
        with life.bank.as_of(position) as view:
            above = view.items_above(level)
            assert above == items_above(life.bank.state(position), level)
            assert above == plainly_above([event for event in log if event.seq <= position], level)
            every = found(view, None)
            assert found(view, level) == found(view, level, Bm25V1()) == found(view, None, UP_TO) == every
            assert found(view, level, UP_TO) == [hit for hit in every if hit[0] not in above]


@settings(max_examples=examples(40), deadline=None)
@given(lives(st.one_of(JUDGED, JUDGED, acts, undos)), LEVELS, st.sampled_from((1, 2, 3)))
def test_searches_with_a_level_are_repeated_exactly_and_change_only_where_memory_did(
    ops: list[Op], levels: tuple[int | None, ...], level: int
) -> None:
    with lived(ops, levels, {"retrieval": {"name": "bm25", "version": 1, "levels": "up_to"}}).bank as bank:
        whole = []
        for position in range(1, bank.position + 1):
            with bank.as_of(position) as view:
                whole.append(found(view, level))
        with bank.live() as view:
            told = set(view.memory_changes(0))
            event = view.retrieve(ASKED, 3, level=level).event
        assert {at for at in range(2, len(whole) + 1) if whole[at - 1] != whole[at - 2]} <= told
        assert event.level == level
        bank.append(event)
        checked = bank.check(retrievals=True).retrievals
        assert checked is not None and (checked.checked, checked.different) == (1, ())


def retrieved(bank: Bank, levels: tuple[int | None, ...]) -> list[MemoriesRetrieved]:
    """Searches of a run with each of the levels, recorded."""
    bank.append(RunStarted(run="asks", task="?"))
    for level in levels:
        with bank.live() as view:
            bank.append(replace(view.retrieve(ASKED, 2, level=level).event, run="asks"))
    return [each for each in bank.events(types=("memories_retrieved",)) if isinstance(each, MemoriesRetrieved)]


def would_find(each: MemoriesRetrieved, supposed: WhatIf) -> tuple[str, ...]:
    after = {one.seq: one.after for one in supposed.retrievals}
    return after.get(each.seq, tuple(hit.id for hit in each.hits))


@settings(max_examples=examples(40), deadline=None)
@given(lives(PEOPLE), LEVELS)
def test_under_a_supposed_policy_a_recorded_search_is_made_with_its_level(
    ops: list[Op], levels: tuple[int | None, ...]
) -> None:
    with lived(ops, levels).bank as bank:
        asked = retrieved(bank, (None, 1, 3))
        supposed = bank.whatif(policies={"retrieval": UP_TO.choice.settings | {"name": "bm25", "version": 1}})
        for each in asked:
            with bank.as_of(each.seq - 1) as view:
                assert would_find(each, supposed) == tuple(hit.id for hit in view.repeat(each, UP_TO).items)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(lives(PEOPLE), LEVELS, st.sampled_from(RUNS), st.sampled_from((S, F)))
def test_under_a_supposed_verdict_levels_are_those_of_the_supposed_support(
    ops: list[Op], levels: tuple[int | None, ...], run: str, verdict: Any
) -> None:
    """As in the bank that the supposition writes."""
    policies = {"retrieval": {"name": "bm25", "version": 1, "levels": "up_to"}}
    with lived(ops, levels, policies).bank as bank:
        bank.correct()
        assume((run, "learning") in bank.state().verdicts)
        asked = retrieved(bank, (None, 1, 3))
        with TemporaryDirectory() as folder:
            into = Path(folder) / "supposed.sqlite"
            supposed = bank.whatif(verdicts={run: verdict}, into=into)
            with ReadModels.open(into, read_only=True) as models, models.live() as view:
                for each in asked:
                    assert would_find(each, supposed) == tuple(hit.id for hit in view.repeat(each).items)


TASK_OF = {"r1": "a", "r2": "a", "r3": "b"}


def own_words(log: list[Event], task: str) -> set[str]:
    """The items that extractions from a run of a task brought: the plain definition of what must never be found."""
    extractions = (each for each in log if isinstance(each, MemoriesExtracted))
    return {
        head.id
        for each in extractions
        if any(TASK_OF.get(run) == task for run in (*each.runs, *(pair.run for pair in each.relied)))
        for head in each.heads
    }


@settings(max_examples=examples(100))
@given(lives(PEOPLE))
def test_nothing_is_found_that_was_drawn_from_a_run_of_the_task(ops: list[Op]) -> None:
    """In any bank, at its head and before; the view and the fold agree on what is left out."""
    life = Life()
    life.bank.append([RunStarted(run=run, task_id=task) for run, task in TASK_OF.items()])
    for op in ops:
        life.do(op)
    for position in {life.groups[len(life.groups) // 2], life.bank.position}:
        log = [event for event in life.log if event.seq <= position]
        with life.bank.as_of(position) as view:
            for task in ("a", "b", "c"):
                left_out = view.items_of_task(task)
                assert left_out == items_of_task(life.bank.state(position), task) >= own_words(log, task)
                every = [hit.id for hit in view.search("abcd efgh a b c d e", 50)]
                found = [hit.id for hit in view.search("abcd efgh a b c d e", 50, without_task=task)]
                assert found == [id for id in every if id not in left_out]
