"""Laws of correction: banks that lived any life, against a plain definition of what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.events import (
    ConsolidationProposed,
    ContextBuilt,
    Event,
    JudgmentOverruled,
    MemoriesExtracted,
    PolicySet,
    RunJudged,
)
from rbank_es.law import Bounded, LeastProven, fold
from rbank_es.law.canonical import Canon, effect
from rbank_es.law.decisions import append_decided
from rbank_es.law.digests import state_digests
from tests.effort import examples
from tests.laws.bank_lives import (
    ALL,
    DEDUP,
    PEOPLE,
    PURE,
    RUNS,
    UNBOUNDED,
    F,
    Life,
    Op,
    S,
    U,
    attributions,
    learns,
    lived,
    lives,
    odd_forgets,
    overrules,
    rough,
    uses,
    words_that_stand,
)
from tests.laws.plain_bank import (
    Facts,
    acts_until,
    barred,
    canonical,
    in_force,
    policies_at,
    recorded,
    rows,
    rows_of,
    verdicts_of,
    visible,
)

lawful = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))


def refolded(life: Life) -> Canon:
    """What a refold finds to differ in the bank as it is recorded."""
    return life.bank.latest.reconciler.refold(life.bank.state())


@lawful
@given(lives(ALL), st.booleans())
def test_the_fold_is_the_definition(ops: list[Op], tidy: bool) -> None:
    log = lived(ops, tidy).log
    for upto in sorted({len(log), len(log) // 2, len(log) - 1, len(log) - 2}):
        assert rows_of(fold(log[:upto])) == rows(recorded(log[:upto]))


@lawful
@given(lives(ALL), st.lists(st.booleans(), max_size=16))
def test_reconciling_leads_to_the_canonical_bank_and_twice_is_once(ops: list[Op], when: list[bool]) -> None:
    life = Life()
    for n, op in enumerate(ops):
        life.do(op)
        if n < len(when) and when[n]:
            life.correct()
    event(f"due {life.correct()}")
    assert rows_of(life.bank.state()) == rows(canonical(life.log))
    assert not refolded(life) and not life.correct()


@lawful
@given(lives(ALL))
def test_learning_in_a_canonical_bank_leaves_nothing_to_reconcile(ops: list[Op]) -> None:
    """At every position between acts, so that each prefix that somebody reconciled is canonical; with erasures,
    decisions by hand and unknown policies."""
    life = Life()
    for op in ops:
        life.do(op)
        if op[0] not in ("learn", "use", "policy", "hand"):
            life.correct()
        assert not refolded(life), op


@lawful
@given(lives(st.one_of(ALL, rough)))
def test_whatever_people_and_programs_record_by_hand_is_weighed_by_the_next_correction(ops: list[Op]) -> None:
    """Whatever differs is due, at every position, and named; so `correct` finds it, and nothing is left."""
    life = Life()
    for op in ops:
        life.do(op)
        if refolded(life):
            assert life.bank.state().due.causes
        if op[0] in ("reject", "end"):
            life.correct()
            assert not refolded(life), op
    life.correct()
    assert not refolded(life) and not life.correct()
    assert rows_of(life.bank.state()) == rows(canonical(life.log))


@lawful
@given(lives(st.one_of(UNBOUNDED, UNBOUNDED, rough)))
def test_the_work_list_finds_what_the_refold_finds(ops: list[Op]) -> None:
    life = Life()
    for op in ops:
        life.do(op)
        state, reconciler = life.bank.state(), life.bank.latest.reconciler
        if state.due:
            listed, whole = reconciler.canon(state), reconciler.refold(state)
            assert {pair: effect(made) for pair, made in listed.decisions} == {
                pair: effect(made) for pair, made in whole.decisions
            }, op
            assert [pair for pair, _ in listed.decisions] == [pair for pair, _ in whole.decisions]
            assert listed.decided <= whole.decided
            event(f"decided again: {min(listed.decided, 4)} of {whole.decided // 4 * 4} or more")
        life.correct()


@lawful
@given(lives(PURE), st.sampled_from(RUNS), st.sampled_from((S, F, U)))
def test_a_verdict_that_changes_no_value_leaves_nothing_due(ops: list[Op], run: str, verdict: str) -> None:
    life = lived(ops)
    life.correct()  # what was learnt last may be what an earlier list had a copy of
    before = verdicts_of(life.log)[0]
    life.judge("judge", run, "human", verdict)
    if before.get(run) == verdict:
        assert not life.bank.state().due and not refolded(life)


@lawful
@given(lives(ALL), st.sampled_from(RUNS), st.lists(st.sampled_from((S, F, U)), min_size=1, max_size=3))
def test_overruling_and_overruling_back_restores_the_digests(ops: list[Op], run: str, others: list[Any]) -> None:
    life = lived(ops)
    life.correct()
    was: Any = verdicts_of(life.log)[0].get(run)
    if was is None:
        return
    before, moved = state_digests(life.bank.state()), 0
    for verdict in (*others, was):
        moved += life.bank.overrule(run, verdict, reason="x").decided
    event(f"decided again: {min(moved, 3)}")
    after = state_digests(life.bank.state())
    assert (after.items, after.usage, after.policies) == (before.items, before.usage, before.policies)


@lawful
@given(lives(ALL), st.booleans())
def test_at_every_position_an_active_item_has_its_own_words_standing_or_a_persons_word(
    ops: list[Op], tidy: bool
) -> None:
    log, state = lived(ops, tidy).log, fold([])
    for n, each in enumerate(log, 1):
        state = fold([each], state)
        standing, rejected = words_that_stand(log[:n])
        live = {id: entry for id, entry in state.items.items() if entry.state == "active"}
        assert all(id in standing or entry.vouched for id, entry in live.items())
        assert not live.keys() & rejected


@lawful
@given(lives(ALL))
def test_in_a_reconciled_bank_what_is_like_a_rejected_item_is_active_on_a_persons_word_only(ops: list[Op]) -> None:
    """Like it by the policy in force at its birth, on whose decisions it rests."""
    life = Life()
    for op in ops:
        life.do(op)
        life.correct()
        if refolded(life):
            continue
        log, state = visible(life.log), life.bank.state()
        facts, items = Facts.of(log), recorded(life.log)
        _, _, admitted = acts_until(log, life.bank.position)
        for id, entry in state.items.items():
            if entry.state == "active" and not entry.vouched and not entry.erased and id not in admitted:
                policy = in_force(policies_at(log, entry.rank[0]), "consolidation")
                bar = barred(facts, items, policy, entry.item, entry.rank[0], facts.bars(), False)
                # Whoever cleared it may have left since.
                cleared = bar is not None and not bar[1] and any(it.written or it.vouched for it in items.values())
                cleared = cleared or bool(admitted)
                assert bar is None or cleared or bar[0] == id, (op, entry)


# ---------------------------------------------------------------- as if the verdicts had been right when given


def same_as_a_life_with_right_verdicts(life: Life) -> None:
    """Compare with a writer who knew the final verdicts from the first, and never corrected anything."""
    log = visible(life.log)
    final, first = verdicts_of(log)
    places = {each.id: each.seq for each in log}
    for each in log:
        if isinstance(each, MemoriesExtracted):
            # A first verdict that comes after what relied on it is a correction of its own, and an original after its
            # copy may be one.
            assume(all(first.get(reliance.run, 0) < each.seq for reliance in each.relied))
            assume(all(places.get(id, 0) < each.seq for ids in each.copy_of for id in ids))
    twin = Life()
    for each in log:
        if isinstance(each, RunJudged | JudgmentOverruled) and first.get(each.run) == each.seq:
            twin.judge("judge", each.run, "human", final[each.run])
        elif isinstance(each, PolicySet | ContextBuilt):
            twin.bank.append(replace(each, seq=0, id="", at=""))
        elif isinstance(each, MemoriesExtracted):
            proposals = [
                replace(other, seq=0, id="", at="")
                for other in log
                if isinstance(other, ConsolidationProposed) and other.extraction == each.id
            ]
            append_decided(twin.bank.log, twin.bank.latest, [*proposals, replace(each, seq=0, at="", salt="")])
    assert not twin.bank.state().due
    made, wanted = recorded(twin.log), canonical(life.log)
    assert [row[:3] + row[4:] for row in rows(made)] == [row[:3] + row[4:] for row in rows(wanted)]
    born = [sorted(some.values(), key=lambda it: it.rank) for some in (made, wanted)]
    there = [[it.id for it in some if it.state != "unsupported"] for some in born]
    assert there[0] == there[1]


@lawful
@given(lives(PURE))
def test_a_bank_corrected_late_is_that_of_a_writer_who_knew_the_final_verdicts(ops: list[Op]) -> None:
    same_as_a_life_with_right_verdicts(lived(ops))


FORGETFUL = st.one_of(learns, learns, uses, uses, uses, overrules, overrules, attributions)


@lawful
@given(
    st.lists(FORGETFUL, min_size=8, max_size=20),
    st.sampled_from(
        (
            Bounded(max_items=2, grace=0),
            Bounded(max_items=3, floor_success=1, floor_failure=1, grace=2),
            LeastProven(max_items=2, grace=0),
        )
    ),
)
def test_the_same_under_a_bound(ops: list[Op], bound: Bounded) -> None:
    life = Life()
    life.policy("policy", DEDUP, bound, False)
    for op in ops:
        life.do(op)
        assert not life.correct() or op[0] == "judge"
    same_as_a_life_with_right_verdicts(life)


@lawful
@given(
    st.lists(st.one_of(FORGETFUL, FORGETFUL, PEOPLE, odd_forgets), min_size=8, max_size=24),
    st.sampled_from((Bounded(max_items=2, grace=0), Bounded(max_items=3, floor_success=1, floor_failure=1, grace=2))),
)
def test_under_a_bound_a_refold_from_the_first_touched_is_the_whole_refold(ops: list[Op], bound: Bounded) -> None:
    life = Life()
    life.policy("policy", DEDUP, bound, False)
    for op in ops:
        life.do(op)
        state, reconciler = life.bank.state(), life.bank.latest.reconciler
        if state.due:
            short, whole = reconciler.canon(state), reconciler.refold(state)
            assert {pair: effect(made) for pair, made in short.decisions} == {
                pair: effect(made) for pair, made in whole.decisions
            }
            assert [set(each) for each in short[1:3]] == [set(each) for each in whole[1:3]]
            assert short.decided <= whole.decided
            event(f"decided again: {min(short.decided, 4)} of {whole.decided // 4 * 4} or more")
        life.correct()


# ---------------------------------------------------------------- corrections over the limit of a group


@lawful
@given(lives(UNBOUNDED), st.sampled_from(RUNS), st.sampled_from((S, F)), st.lists(PEOPLE, max_size=2))
def test_a_correction_in_parts_counts_whole_or_never_wherever_it_is_cut(
    ops: list[Op], run: str, verdict: Any, others: list[Op]
) -> None:
    life = lived([*ops, ("judge", run, "lm", S)])
    before, position = rows_of(life.bank.state()), life.bank.position
    with limited(CORRECTION_ROWS=1, CORRECTION_GROUP_EVENTS=2):
        made = life.bank.overrule(run, verdict, reason="x")
        event(f"parts: {min(made.decided, 4)}")
        log = life.log
        for end in groups_of(log[position:]):
            state = fold(log[:end])
            assert (rows_of(state) == before) or end == len(log)
    assert not refolded(life)
    if made.decided > 2:
        # What an interrupted correction left changes nothing, for anybody who goes on.
        cut = Life.of(log[: (made.first_seq or 0) - 1])
        for op in others:
            cut.do(op)
            cut.correct()
        cut.bank.overrule(run, verdict, reason="x")
        assert not refolded(cut)


def groups_of(log: list[Event]) -> list[int]:
    """The positions of the ends of groups."""
    return [each.seq for each in log if not each.more]


@contextmanager
def limited(**values: int) -> Iterator[None]:
    """Other limits than usual."""
    before = {name: getattr(limits, name) for name in values}
    try:
        for name, value in values.items():
            setattr(limits, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)
