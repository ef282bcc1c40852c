"""Laws of stored states: what is looked up in read models is what a fold of the log has, and goes on as that does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.events import Event
from rbank_es.events.items import Item
from rbank_es.law import RELEVANT, RESOLVED, AppendV2, DedupV2, LiveState, MergeV2, State, fold
from rbank_es.law import decisions as bank_decisions
from rbank_es.law.bank_state import ItemRecord
from rbank_es.law.similar_items import KnownItems
from rbank_es.law.similar_stored_items import known_by
from rbank_es.projections import stored_state
from rbank_es.projections.read_models import ReadModels
from rbank_es.projections.stored_state import StoredState
from tests.consolidations import decisions
from tests.effort import examples
from tests.fakes import FakeLog
from tests.laws.bank_lives import ALL, Life, Op, candidates, lives
from tests.strategies import histories, stamped

MAPPINGS = [name for name in State.__struct_fields__ if isinstance(getattr(State(), name), Mapping)]
UNKNOWN = "unheard-of"
"""A name that no life gives, also not to what is unknown to it."""
ABSENT = {"verdicts": (UNKNOWN, "learning"), **dict.fromkeys(("candidates", "pairs", "proposals"), (UNKNOWN, 0))}
UNORDERED = {"pairs", "landed", "enders"}
"""Candidates of a record, of which nothing depends on the order."""


@contextmanager
def lived(life: list[Op], stop: int) -> Iterator[tuple[Bank, StoredState]]:
    """A bank whose read models end after some operations; no look-up is given up for a fold."""
    done = Life()
    with done.bank as bank, patch.object(stored_state, "ASKED_SHARE", 0):
        for op in life[:stop]:
            done.do(op)
        bank.project()
        for op in life[stop:]:
            done.do(op)
        found = bank.read_models().stored_state(bank.log)
        if found is None:  # words were erased since
            bank.project()
            found = bank.read_models().stored_state(bank.log)
        assert found is not None
        with patch.object(StoredState, "whole", side_effect=AssertionError("the log was folded")):
            yield bank, found


def folded(bank: Bank, upto: int) -> State:
    return fold(bank.log.read(upto=upto, types=RELEVANT, resolve=RESOLVED), position=upto)


def comparable(value: Any) -> Any:
    """A value without the order in which facts of equal weight were recorded, and without words that nobody reads."""
    if not hasattr(value, "__struct_fields__"):
        return value
    facts = {name: getattr(value, name) for name in value.__struct_fields__}
    return {
        name: sorted(fact) if name in UNORDERED or name == "witnesses" else fact
        for name, fact in facts.items()
        if name not in ("why", "salt", "recent", "earlier")
    } | ({"acts": list(value.acts())} if hasattr(value, "acts") else {})


def assert_same(state: State, truth: State) -> None:
    """Every key of every mapping has the same value, and keys that there are not have none."""
    assert (state.position, state.policies, state.bounded) == (truth.position, truth.policies, truth.bounded)
    assert (state.due.pairs, state.due.items, state.due.runs) == (truth.due.pairs, truth.due.items, truth.due.runs)
    assert (state.due.whole, set(state.due.causes)) == (truth.due.whole, set(truth.due.causes))
    for name in MAPPINGS:
        known, looked_up = getattr(truth, name), getattr(state, name)
        for key, value in known.items():
            if name == "prepared":
                assert list(map(comparable, looked_up[key])) == list(map(comparable, value))
            # What is recorded of an id and says nothing has no rows.
            elif value and value != ItemRecord():
                assert comparable(looked_up[key]) == comparable(value), (name, key)
        assert ABSENT.get(name, UNKNOWN) not in looked_up


@settings(max_examples=examples(150), deadline=None)
@given(life=lives(ALL), stop=st.integers(0, 20))
def test_each_fact_of_a_bank_is_looked_up_as_a_fold_has_it(life: list[Op], stop: int) -> None:
    """Of a bank in which was learned, corrected, undone and erased."""
    with lived(life, stop) as (bank, found):
        assert_same(found.state(), folded(bank, found.position))


@settings(max_examples=examples(150), deadline=None)
@given(events=histories().map(stamped), share=st.floats(0, 1))
def test_each_fact_of_any_log_is_looked_up_as_a_fold_has_it(events: list[Event], share: float) -> None:
    """Also where the read models are behind the log."""
    log, upto = FakeLog(events), int(len(events) * share)
    with (
        tempfile.TemporaryDirectory() as folder,
        ReadModels.open(Path(folder, "p.sqlite")) as models,
        patch.object(stored_state, "ASKED_SHARE", 0),
        patch.object(StoredState, "whole", side_effect=AssertionError("the log was folded")),
    ):
        models.catch_up(log, upto=upto)  # type: ignore[arg-type]
        found = models.stored_state(log)  # type: ignore[arg-type]
        assert found is not None
        assert_same(found.state(), fold(events[:upto], position=upto))


@settings(max_examples=examples(150), deadline=None)
@given(
    life=lives(ALL),
    stop=st.integers(0, 20),
    batch=st.lists(candidates, min_size=1, max_size=4),
    policy=st.sampled_from((AppendV2(), DedupV2(), MergeV2())),
)
def test_what_goes_on_from_a_stored_state_is_what_a_fold_of_the_log_is(
    life: list[Op], stop: int, batch: list[Item], policy: AppendV2
) -> None:
    """Items and verdicts at the head, and the decisions about new candidates there."""
    with lived(life, stop) as (bank, found):
        truth, base = folded(bank, bank.position), found.state()
        live = LiveState(base)
        changed = live.advance(
            bank.log.read(after=found.position, types=RELEVANT, resolve=RESOLVED), position=bank.position
        )
        assert {id: comparable(live.state.items[id]) for id in truth.items} == {
            id: comparable(entry) for id, entry in truth.items.items()
        }
        assert {key: live.state.verdicts[key] for key in truth.verdicts} == truth.verdicts
        known, plain = known_by(found.statements, base), KnownItems.of(truth)
        known.update(live.state, changed)
        assert known.active == plain.active
        assert decisions(policy, live.state, batch, known) == decisions(policy, truth, batch, plain)


@settings(max_examples=examples(50), deadline=None)
@given(life=lives(ALL), stop=st.integers(0, 20), after=st.integers(0, 20))
def test_a_bank_that_decides_by_its_read_models_records_what_another_records(
    life: list[Op], stop: int, after: int
) -> None:
    """The same operations, with the read models written in between and the bank opened again."""
    states = []
    for folded_events in (10**9, 0):
        with patch.object(bank_decisions, "FOLDED_EVENTS", folded_events):
            done = Life()
            with done.bank as bank:
                for number, op in enumerate(life):
                    if number == stop:
                        bank.project()
                    if number == stop + after:
                        bank.close()  # it opens again, and keeps no state
                    done.do(op)
                states.append({id: (e.state, e.support, e.domains) for id, e in bank.state().items.items()})
    assert states[0] == states[1]
