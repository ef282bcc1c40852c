"""Rollouts: which is the best, what they come to, how they differ, and threads that can be stopped."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import NoteLogged
from rbank_es.loop.rollouts import (
    Rollout,
    RolloutStopped,
    StoppableLog,
    diversity_of,
    side_by_side,
    spread_of,
)
from rbank_es.policies import BestOf
from rbank_es.system.error_messages import message_of


def rollout(index: int, **facts: object) -> Rollout:
    return Rollout(**{"index": index, "run": f"r{index}", "outcome": "submitted", **facts})  # type: ignore[arg-type]


rollouts = st.lists(
    st.builds(
        Rollout,
        index=st.integers(0, 15),
        run=st.just("r"),
        outcome=st.sampled_from(["submitted", "forced_at_limit", "failed"]),
        verdict=st.sampled_from(["success", "failure", "undecided", None]),
        scored=st.sampled_from(["success", "failure", "undecided", None]),
        iterations=st.integers(0, 12),
        answer=st.text(max_size=20),
        sparql=st.text(max_size=20),
    ),
    min_size=1,
    max_size=6,
)


def test_the_best_is_a_success_then_the_shortest_then_the_first() -> None:
    failed_fast = rollout(0, verdict="failure", iterations=1)
    slow, fast, also_fast = (rollout(n, verdict="success", iterations=i) for n, i in ((1, 5), (2, 3), (3, 3)))
    assert BestOf().best([failed_fast, slow, also_fast, fast]) == fast
    undecided, unjudged = rollout(5, verdict="undecided", iterations=9), rollout(6, iterations=9)
    assert BestOf().best([failed_fast, undecided, slow]) == slow
    assert BestOf().best([failed_fast, undecided]) == undecided and BestOf().best([failed_fast, unjudged]) == unjudged
    assert BestOf().best([failed_fast, rollout(4, outcome="forced_at_limit", verdict="failure")]) == failed_fast


@given(rollouts)
def test_what_rollouts_come_to_agrees_with_itself(given: list[Rollout]) -> None:
    spread = spread_of(given)
    judged = [one for one in given if one.verdict not in (None, "undecided")]
    # None of those decided about, and another one may have: not known.
    won = any(one.verdict == "success" for one in judged)
    assert spread.pass_at_k is (True if won else False if len(judged) == len(given) else None)
    if judged:
        assert spread.pass_at_1 is not None and 0 <= spread.pass_at_1 <= 1
        assert won is (spread.pass_at_1 > 0)
        assert spread.best_of_n is True or not spread.pass_at_k
    assert (spread.diversity is None) == (len(given) < 2)
    if spread.diversity is not None:
        assert 0 <= spread.diversity <= 1


@given(rollouts, st.randoms())
def test_the_order_in_which_rollouts_ended_does_not_count(given: list[Rollout], random: object) -> None:
    told = [*given]
    random.shuffle(told)  # type: ignore[attr-defined]
    one, other = diversity_of(given), diversity_of(told)
    assert one[1] == other[1] and one[0] == pytest.approx(other[0])


def test_diversity_is_that_of_the_queries_or_else_of_the_answers() -> None:
    same = [rollout(0, sparql="ASK {  }", answer="x"), rollout(1, sparql="ASK { }", answer="y")]
    assert diversity_of(same) == (0.0, "sparql")
    assert diversity_of([*same, rollout(2, answer="z")])[1] == "answer"
    assert diversity_of([rollout(0, answer="abc"), rollout(1, answer="xyz")]) == (1.0, "answer")
    assert diversity_of(same[:1]) == (None, None)


def test_of_a_group_of_errors_each_says_what_it_is(tmp_path: Path) -> None:
    """Also of a group within a group; what several say alike is said once."""
    inner = ExceptionGroup("two", [KeyError("x"), BadInput("no such layer")])
    assert message_of(ExceptionGroup("some", [inner, BadInput("no such layer")])) == "KeyError: 'x'; no such layer"


def test_what_is_stopped_records_nothing_more(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank") as bank:
        stoppable = StoppableLog(bank.log)
        stoppable.append([NoteLogged()])
        before = bank.position
        stoppable.stop()
        with pytest.raises(RolloutStopped):
            stoppable.append([NoteLogged()])
        stoppable.close()
        assert bank.position == before and bank.append(NoteLogged()).last == before + 1


def test_an_interruption_goes_on_at_once_and_silences_the_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tried = threading.Event(), threading.Event()

    def work(bank: Bank) -> None:
        gate.wait(60)
        try:
            bank.append(NoteLogged())
        finally:
            tried.set()

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with Bank.create(tmp_path / "bank") as bank:
        before = bank.position
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(threading.Thread, "join", interrupted)
            side_by_side(bank, [work])
        gate.set()
        assert tried.wait(60)
        assert bank.position == before
