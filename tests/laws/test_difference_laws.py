"""A difference is one value: of states or of read models, either way round, and one after another."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.bank.bank_difference import BankFacts, Difference, compared, difference, facts_at, facts_of
from rbank_es.errors import BadInput
from tests.effort import examples
from tests.laws.bank_lives import ALL, RUNS, F, Op, S, U, lived, lives

law = settings(max_examples=examples(60), deadline=None)


def sides(found: Difference, side: str) -> dict[Any, Any]:
    """One side of a difference: what was there, by kind and name."""
    items = {("item", each.id): getattr(each, side) for each in found.items}
    return items | {("run", each.run): getattr(each, side) for each in found.runs}


def told(value: Any) -> Any:
    """What both sides tell of a row, in any order: the answer also says where it changed, and the task of a run."""
    if isinstance(value, tuple):
        return sorted((told(each) for each in value), key=repr)
    names = ("id", "title", "run", "before", "after")
    return {name: getattr(value, name) for name in names if hasattr(value, name)} or value


@law
@given(lives(ALL), st.data())
def test_read_models_and_states_differ_by_the_same(ops: list[Op], data: st.DataObject) -> None:
    bank = lived(ops, tidy=False).bank
    positions = st.integers(0, bank.position)
    since, to = data.draw(positions), data.draw(positions)
    found = difference(bank.name, bank.state(since), bank.state(to))
    with bank.as_of(since) as before, bank.as_of(to) as after:
        assert compared(bank.name, facts_at(before), facts_at(after)) == found
    answer = bank.at(to).difference(since)
    assert all(told(getattr(answer, name)) == told(getattr(found, name)) for name in found.__struct_fields__)
    for rows in (answer.items, answer.runs):
        last = [each.changed_seq or 0 for each in rows]
        assert last == sorted(last, reverse=True)
    assert (found.since_seq, found.position) == (since, to)


@law
@given(lives(ALL), st.data())
def test_a_difference_leads_from_one_state_to_the_other_and_back(ops: list[Op], data: st.DataObject) -> None:
    bank = lived(ops, tidy=False).bank
    positions = st.integers(0, bank.position)
    old, new = (facts_of(bank.state(data.draw(positions))) for _ in range(2))
    there, back = compared("", old, new), compared("", new, old)
    assert sides(there, "after") == sides(back, "before") and sides(there, "before") == sides(back, "after")
    assert compared("", old, old).empty
    assert {each.id for each in there.left} == {each.id for each in back.came}

    def known(facts: BankFacts) -> dict[Any, Any]:
        items = {("item", id): each for id, (_, each) in facts.items.items()}
        return items | {("run", run): each for run, each in facts.runs.items()}

    made = known(old) | sides(there, "after")
    assert {key: value for key, value in made.items() if value is not None} == known(new)


RUN, VERDICT, WHY = st.sampled_from(RUNS), st.sampled_from((S, F, U)), st.just("x")
ACTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "overrule": st.fixed_dictionaries({"run": RUN, "verdict": VERDICT, "reason": WHY, "influence": st.booleans()}),
    **{
        name: st.fixed_dictionaries({"item": st.integers(0, 9), "because": WHY})
        for name in ("reject", "retract", "admit", "forget")
    },
    "restore": st.fixed_dictionaries({"item": st.integers(0, 9), "because": WHY, "even_rejected": st.booleans()}),
    "undo": st.fixed_dictionaries({"seq": st.integers(1, 40), "candidate": st.integers(0, 2), "because": WHY}),
    "correct": st.fixed_dictionaries({"decisions": st.booleans()}),
    "set_policies": st.sampled_from(
        [
            {"tables": {"attribution": {"counted": "read"}}},
            {"tables": {"consolidation": {"name": "append"}, "retrieval": {"k_success": 4}}},
            {"tables": {"forgetting": {"name": "bounded", "max_items": 2, "grace": 0}}},
        ]
    ),
}


@law
@given(lives(ALL), st.sampled_from(sorted(ACTS)), st.data())
def test_a_dry_run_is_the_act_and_an_act_is_the_difference_of_the_states(
    ops: list[Op], name: str, data: st.DataObject
) -> None:
    life = lived(ops, tidy=False)
    given_ = data.draw(ACTS[name])
    if "item" in given_:
        given_["item"] = life.one(given_["item"])
    head = life.bank.head()
    with life.bank.copy() as copy, suppress(BadInput):
        told = getattr(life.bank, name)(**given_, dry_run=True)
        done = getattr(copy, name)(**given_)
        assert life.bank.head() == head and not told.recorded
        assert replace(told, recorded=done.recorded) == done
        assert done.recorded == (done.last_seq is not None) and done.position == copy.position
        states = difference(copy.name, copy.state(done.since_seq), copy.state(done.position))
        assert (done.items, done.runs, done.policies) == (states.items, states.runs, states.policies)
        event(f"{name}: {'nothing' if done.last_seq is None else 'changes'}")


@law
@given(lives(ALL), lives(ALL))
def test_a_dry_absorption_is_the_absorption(ops: list[Op], others: list[Op]) -> None:
    into, other = lived(ops, tidy=False).bank, lived(others, tidy=False).bank
    with into.copy() as copy, suppress(BadInput):  # of a policy that nobody knows
        told = into.absorb(other, dry_run=True)
        done = copy.absorb(other)
        assert replace(told, recorded=done.recorded) == done
        states = difference(copy.name, copy.state(done.since_seq), copy.state(done.position))
        assert (done.items, done.runs, done.policies) == (states.items, states.runs, states.policies)
