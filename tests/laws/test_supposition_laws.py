"""Laws of what-if: equal to living otherwise, to correcting a copy, and to nothing where nothing is otherwise."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.bank.supposed_differences import WhatIf
from rbank_es.bank.supposed_history import HISTORY_TYPES, SupposedHistory
from rbank_es.bank.supposed_log import SupposedLog
from rbank_es.bank.supposition import supposition_of
from rbank_es.events import CorrectionCompleted, DecisionUndone, Hit, MemoriesRead, MemoriesRetrieved, RunStarted
from rbank_es.events.items import Item
from rbank_es.law import Append, AppendV2, Bounded, DedupV2, Merge, Never, State, fold, usage
from rbank_es.law.canonical import counts
from rbank_es.law.decision_timeline import DecisionTimeline
from rbank_es.projections.read_models import ReadModels
from tests.cli.misled import HEIGHT, TWIN, WARNING, judged, learned, misled_bank, ran
from tests.effort import examples
from tests.laws.bank_lives import (
    ALL,
    DEDUP,
    PEOPLE,
    RUNS,
    F,
    Life,
    Op,
    S,
    U,
    acts,
    judges,
    learns,
    lived,
    lives,
    unbounded,
    undos,
    uses,
)

lawful = settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))

TAUGHT = st.one_of(learns, learns, judges("lm", "lm", "check", "human"))
LESSON = Item.make("Ask which harbour a light belongs to", "Follow the property of the port.", "success")
QUERIES = st.lists(st.sampled_from(("a", "a b", "c d e", "abcd", "efgh not")), min_size=1, max_size=3)


def standing(state: State) -> dict[str, str]:
    """The states of items; without support is as good as not there."""
    return {id: entry.state for id, entry in state.items.items() if entry.state != "unsupported"}


def supposed(state: State, found: WhatIf) -> dict[str, str]:
    """The states that items would have, by the differences that were found."""
    would: dict[str, str | None] = dict(standing(state))
    would |= {each.id: None if each.after is None else each.after.state for each in found.items}
    return {id: value for id, value in would.items() if value not in (None, "unsupported")}


def in_force(state: State) -> dict[Any, Any]:
    return {pair: (made.action, made.targets) for pair, made in state.pairs.items() if counts(state, pair)}


def would_be_in_force(state: State, found: WhatIf) -> dict[Any, Any]:
    would = in_force(state) | {(each.extraction, each.place): each.after for each in found.decisions}
    return {pair: made for pair, made in would.items() if made is not None}


def asked(bank: Bank, queries: list[str]) -> None:
    """Record retrievals of a run, as its context would."""
    bank.append(RunStarted(run="asks", task="?"))
    for query in queries:
        hits = tuple(Hit(id=hit.id, rank=hit.rank, score=hit.score) for hit in bank.search(query, 3))
        policy = bank.policies().policies[0]
        bank.append(MemoriesRetrieved(run="asks", k=3, policy=policy.label, hits=hits, query=query))


@lawful
@given(lives(ALL), st.booleans(), QUERIES)
def test_nothing_differs_where_nothing_is_supposed(ops: list[Op], tidy: bool, queries: list[str]) -> None:
    bank = lived(ops, tidy).bank
    asked(bank, queries)
    found = bank.whatif()
    assert not found.differs and found.supposed_seq == bank.position


@pytest.mark.slow
@lawful
@example(  # an act that was appended, and no correction after it
    [("policy", Append(), Never(), False), ("learn", S, list(RUNS), [LESSON], False, []), ("reject", 0)], False, ["a"]
)
@example(  # a model was not asked when the policy that asks one decided, so it isn't needed now
    [
        ("policy", Merge(title_min=0.7, content_min=(1, 2)), Never(), False),
        *[("learn", S, list(RUNS), [LESSON], False, [])] * 2,
    ],
    False,
    ["a"],
)
@given(lives(st.one_of(TAUGHT, uses, acts, undos)), st.booleans(), QUERIES)
def test_nothing_differs_under_the_policies_in_force(ops: list[Op], tidy: bool, queries: list[str]) -> None:
    bank = lived(ops, tidy).bank
    asked(bank, queries)
    tables: dict[str, Any] = {}
    for each in bank.policies().policies:
        tables[each.kind] = {"name": each.name, "version": each.version, **each.settings}
    if bank.whatif(policies=tables, since=3).overdue:
        bank.correct()  # until then, what differs is what it does
    assert not bank.whatif(policies=tables, since=3).differs


@pytest.mark.slow
@lawful
@given(lives(ALL), st.booleans(), st.sampled_from(RUNS), st.sampled_from((S, F, U)), st.data())
def test_another_verdict_is_as_if_somebody_overruled(
    ops: list[Op], tidy: bool, run: str, verdict: Any, data: st.DataObject
) -> None:
    bank = lived(ops, tidy).bank
    before = bank.state()
    assume((run, "learning") in before.verdicts)
    since = data.draw(st.integers(0, bank.position))
    found = bank.whatif(verdicts={run: verdict}, since=since)
    with bank.copy() as copy:
        copy.overrule(run, verdict, reason="what if")
        after = copy.state()
    assert supposed(before, found) == standing(after)
    assert would_be_in_force(before, found) == in_force(after)
    changed = {each.id: (each.after.uses, each.after.wins) for each in found.items if each.after is not None}
    # Uses of an item that stands in neither are as good as not there.
    there, used = standing(before).keys() | standing(after).keys(), usage(after)
    would = usage(before) | {id: counts for id, counts in changed.items() if id in used}
    assert {id: would.get(id) for id in there} == {id: used.get(id) for id in there}
    event(f"decisions differ: {min(len(found.decisions), 4)}")


@pytest.mark.slow
@lawful
@given(lives(PEOPLE), st.integers(0, 9), st.data())
def test_without_an_item_is_as_if_its_candidates_were_undone(ops: list[Op], n: int, data: st.DataObject) -> None:
    life = lived(ops)
    item, before = life.one(n), life.bank.state()
    assume(item is not None and not any(act == "vouched" for _, act in before.records[item].acts()))
    since = data.draw(st.integers(0, life.bank.position))
    found = life.bank.whatif(without=[f"item:{item}"], since=since)
    with life.bank.copy() as copy:
        pairs = [pair for pair, made in before.pairs.items() if made.item == item and not made.undone]
        for extraction, candidate in pairs:
            copy.append(DecisionUndone(extraction=extraction, candidate=candidate))
        copy.correct()
        assert supposed(before, found) == standing(copy.state())


@pytest.mark.slow
@lawful
@given(lives(st.one_of(TAUGHT, TAUGHT, unbounded, uses)), st.sampled_from(RUNS), st.data())
def test_without_a_run_is_as_if_nothing_had_been_drawn_from_it(ops: list[Op], run: str, data: st.DataObject) -> None:
    bank = lived(ops).bank
    before = bank.state()
    assume((run, "learning") in before.verdicts)
    since = data.draw(st.integers(0, bank.position))
    found = bank.whatif(without=[f"run:{run}"], since=since)
    with bank.copy() as copy:
        for extraction, candidate in before.pairs:
            if extraction in before.relying.get(run, ()):
                copy.append(DecisionUndone(extraction=extraction, candidate=candidate))
        copy.correct()
        assert supposed(before, found) == standing(copy.state())


@lawful
@given(
    lives(TAUGHT),
    st.sampled_from((Append(), DEDUP, AppendV2(), DedupV2())),
    st.sampled_from((Never(), Bounded(max_items=2, grace=0))),
)
def test_another_policy_is_as_if_it_had_been_in_force(ops: list[Op], way: Any, bound: Any) -> None:
    # A model's proposals would be other ones.
    ops = [(*op[:-1], []) if op[0] == "learn" else op for op in ops if op[0] != "policy"]
    found_in, other = Life(), Life()
    other.policy("policy", way, bound, False)
    for op in ops:
        for life in (found_in, other):
            life.do(op)
            if op[0] != "learn":
                life.correct()
    tables = {each.kind: {"name": each.name, "version": each.version, **each.choice.settings} for each in (way, bound)}
    found = found_in.bank.whatif(policies=tables)
    assert supposed(found_in.bank.state(), found) == standing(other.bank.state())
    event(f"items differ: {min(len(found.items), 4)}")


@pytest.mark.slow
@lawful
@given(lives(PEOPLE), st.sampled_from(RUNS), st.sampled_from((S, F)), QUERIES)
def test_the_written_bank_finds_what_the_retrievals_would_find(
    ops: list[Op], run: str, verdict: Any, queries: list[str]
) -> None:
    bank = lived(ops).bank
    before = bank.state()
    assume((run, "learning") in before.verdicts)
    asked(bank, queries)
    with TemporaryDirectory() as folder:
        into = Path(folder) / "supposed.sqlite"
        found = bank.whatif(verdicts={run: verdict}, into=into)
        differing = {each.seq: each.after for each in found.retrievals}
        retrieved = [each for each in bank.events(types=("memories_retrieved",)) if isinstance(each, MemoriesRetrieved)]
        with ReadModels.open(into, read_only=True) as models, models.live() as view:
            assert view.position == found.supposed_seq
            rows = {row["id"]: row["state"] for row in view.items() if row["state"] != "unsupported"}
            assert rows == supposed(bank.state(), found)
            for each in retrieved:
                hits = tuple(hit.id for hit in view.search(str(each.query), 3))
                assert hits == differing.get(each.seq, tuple(hit.id for hit in each.hits))
    event(f"retrievals differ: {len(found.retrievals)}")


def test_what_writers_would_have_corrected_before_a_lesson_is_found_behind_it() -> None:
    """Writers complete what is due before they learn, so a search behind the lesson already finds the twin."""
    with Bank.create("memory:") as bank:
        bank.append(ran("first"))
        learned(bank, HEIGHT, ("first", "success"))
        bank.append([*ran("second"), judged("second", "success")])
        learned(bank, TWIN, ("second", "success"))
        bank.append([judged("first", "success"), *ran("third"), judged("third", "failure")])
        learned(bank, WARNING, ("third", "failure"))
        asked(bank, [HEIGHT.title])
        [hits] = bank.whatif(verdicts={"first": "failure"}).retrievals
        assert HEIGHT.id in hits.before and TWIN.id not in hits.before
        assert TWIN.id in hits.after and HEIGHT.id not in hits.after


def test_the_written_bank_has_each_eachat_its_position_and_gaps_where_some_are_left_out(tmp_path: Path) -> None:
    """So a point of the one means the same in the other."""
    with misled_bank("memory:") as bank, bank.as_of() as recorded:
        into = tmp_path / "supposed.sqlite"
        found = bank.whatif(without=["run:misled"], into=into)
        with ReadModels.open(into, read_only=True) as models, models.live() as view:
            assert view.position == found.supposed_seq == bank.position
            began = {row["run"]: row["started_seq"] for row in recorded.rows("runs")}
            del began["misled"]
            assert {row["run"]: row["started_seq"] for row in view.rows("runs")} == began


@pytest.mark.parametrize(
    ("again", "without", "late"),
    [((), (), False), (("second",), (), False), (("second",), ("run:second",), False), ((), (), True)],
    ids=["other at the last event", "other before", "the last event left out", "supposed behind the last event"],
)
def test_the_supposed_state_is_the_fold_of_the_supposed_log(
    again: tuple[str, ...], without: tuple[str, ...], late: bool
) -> None:
    """Positions included, also of what is completed behind the last recorded event."""
    with Bank.create("memory:") as bank:
        bank.append([*ran("first"), *ran("second"), judged("second", "success")])
        learned(bank, HEIGHT, ("first", "success"))
        learned(bank, TWIN, ("second", "success"))
        bank.append([judged("first", "success"), *(judged(run, "success") for run in again)])
        recorded = list(bank.log.read(types=HISTORY_TYPES, resolve={"memories_extracted"}))
        supposition, since = supposition_of(fold(recorded), {}, {"first": "failure"}, without), bank.position * late
        past, timeline = [each for each in recorded if each.seq <= since], DecisionTimeline()
        timeline.take(past, since)
        life = SupposedHistory(fold(past, position=since), timeline, supposition)
        life.begin(unborn=not late)
        for each in recorded[len(past) :]:
            life.take(each)
        life.end(bank.position)
        log = SupposedLog(bank.log, since, bank.position, life.made, supposition)
        supposed = list(log.read(types=HISTORY_TYPES, resolve={"memories_extracted"}))
        assert isinstance(supposed[-1], CorrectionCompleted | DecisionUndone)
        assert life.supposed == fold(supposed)
        assert log.position() == supposed[-1].seq


def test_lessons_of_a_run_that_would_have_found_other_items_are_counted_and_not_guessed() -> None:
    """Whether that run would have taught the same, only a model could tell."""
    with misled_bank("memory:") as bank:
        asked(bank, [HEIGHT.title])
        bank.append(judged("asks", "success"))
        learned(bank, LESSON, ("asks", "success"))
        needs = bank.whatif(verdicts={"wrong": "failure"}).needs
        # Two other runs were given the item by searches that aren't recorded.
        assert (needs.runs, needs.items) == (3, 3)
        assert bank.whatif(verdicts={"wrong": "failure"}, without=[f"item:{LESSON.id}"]).needs.items == 2


def test_runs_and_judges_that_were_shown_an_item_by_no_recorded_search_are_counted_and_not_guessed() -> None:
    """In their context, by a look at its id, or as a case: what they would have done without it, only a model knows."""
    with Bank.create("memory:") as bank:
        bank.append([*ran("first"), judged("first", "success")])
        learned(bank, HEIGHT, ("first", "success"))
        bank.append([*ran("given", HEIGHT.id), *ran("looks")])
        bank.append(MemoriesRead(run="looks", ids=(HEIGHT.id,), how="get", chars=100))
        bank.append([replace(judged("looks", "success"), precedents=(HEIGHT.id,)), *ran("neither")])
        found = bank.whatif(verdicts={"first": "failure"})
        assert (found.needs.runs, found.needs.judgments, found.unknowable.prompts) == (2, 1, 1)
        assert not bank.whatif(without=["run:neither"]).needs.runs
