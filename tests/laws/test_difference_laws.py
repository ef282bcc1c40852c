"""A difference is one value: of states or of read models, either way round, and one after another."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.bank.difference import BankFacts, Difference, compared, difference, facts_at, facts_of
from tests.effort import examples
from tests.laws.bank_lives import ALL, Life, Op, lives

law = settings(max_examples=examples(60), deadline=None)


def lived(ops: list[Op]) -> Life:
    life = Life()
    for op in ops:
        life.do(op)
    return life


def sides(found: Difference, side: str) -> dict[Any, Any]:
    """One side of a difference: what was there, by kind and name."""
    items = {("item", each.id): getattr(each, side) for each in found.items}
    return items | {("run", each.run): getattr(each, side) for each in found.runs}


@law
@given(lives(ALL), st.data())
def test_read_models_and_states_differ_by_the_same(ops: list[Op], data: st.DataObject) -> None:
    bank = lived(ops).bank
    positions = st.integers(0, bank.position)
    since, to = data.draw(positions), data.draw(positions)
    found = difference(bank.name, bank.state(since), bank.state(to))
    with bank.as_of(since) as before, bank.as_of(to) as after:
        assert compared(bank.name, facts_at(before), facts_at(after)) == found
    answer = bank.at(to).difference(since)
    assert {name: getattr(answer, name) for name in found.__struct_fields__} == {
        name: getattr(found, name) for name in found.__struct_fields__
    }
    assert (found.since_seq, found.position) == (since, to)


@law
@given(lives(ALL), st.data())
def test_a_difference_leads_from_one_state_to_the_other_and_back(ops: list[Op], data: st.DataObject) -> None:
    bank = lived(ops).bank
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
