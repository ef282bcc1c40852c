"""The loop goes by the verdict that stands, and learns nothing from one that is undecided or not confident enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.events import (
    LmCalled,
    MemoriesExtracted,
    PolicySet,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
)
from rbank_es.loop.task_history import History
from rbank_es.policies import LmJudging
from tests.loop.loops import SCRIPT, TASKS, looped, quick, scripted

ALONE = SCRIPT.partition('[[task]]\nid = "again"')[0]
VERDICT = '{ success = false, reason = "That is the height of the building." }'


def extractions(bank: Bank) -> list[MemoriesExtracted]:
    """Return what a model was asked to extract, without what tools proposed."""
    drawn = (event for event in bank.events() if isinstance(event, MemoriesExtracted))
    return [event for event in drawn if str(event.extractor).startswith("success-failure")]


def judged(bank: Bank, run: str, verdict: str, kind: str, **more: Any) -> None:
    facts = {"purpose": "learning", "judge": "x", "judge_version": "1", "reason": "r"}
    bank.append(RunJudged(run=run, verdict=verdict, kind=kind, **facts, **more))  # type: ignore[arg-type]


def test_nothing_is_learned_from_an_undecided_run_until_somebody_decides(tmp_path: Path) -> None:
    script = ALONE.replace(VERDICT, '{ verdict = "undecided", confidence = 0.4, reason = "Hard to tell." }')
    with quick(tmp_path / "bank") as bank:
        [first] = looped(bank, scripted(tmp_path, script), TASKS[:1])
        assert (first.verdict, first.candidates, first.unjudged) == ("undecided", 0, ()) and not extractions(bank)
        [known] = looped(bank, scripted(tmp_path, script), TASKS[:1])
        assert known.how == "known"
        judged(bank, first.run, "failure", "human")
        [again] = looped(bank, scripted(tmp_path, script), TASKS[:1])
        assert (again.how, again.verdict, len(again.added)) == ("continued", "failure", 1)
        assert [(each.run, each.verdict) for event in extractions(bank) for each in event.relied] == [
            (first.run, "failure")
        ]


@pytest.mark.slow
@pytest.mark.parametrize(("said", "learns"), [("confidence = 0.7, ", False), ("", False), ("confidence = 0.8, ", True)])
def test_a_verdict_that_is_less_confident_than_the_policy_requires_teaches_nothing(
    tmp_path: Path, said: str, learns: bool
) -> None:
    """The verdict is recorded as it is, and the reason why nothing is learned too; a person's word is enough then."""
    script = ALONE.replace(VERDICT, f'{{ verdict = "failure", {said}reason = "It is the building." }}')
    with quick(tmp_path / "bank") as bank:
        bank.append(PolicySet(policies=(*bank.state().policies.values(), LmJudging(confidence_min=0.8).choice), by="x"))
        [first] = looped(bank, scripted(tmp_path, script), TASKS[:1])
        [event] = extractions(bank)
        assert first.verdict == "failure" and bool(event.heads) is learns
        if not learns:
            assert str(event.reason).startswith("unsure: ") and "0.80" in str(event.reason)
            judged(bank, first.run, "failure", "human")
            assert looped(bank, scripted(tmp_path, script), TASKS[:1])[0].added


def test_gold_for_learning_does_not_stand_where_no_policy_is_supervised(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        [first] = looped(bank, scripted(tmp_path, ALONE, extract=False), TASKS[:1])
        judged(bank, first.run, "success", "gold")
        assert looped(bank, scripted(tmp_path, ALONE, extract=False), TASKS[:1])[0].verdict == "failure"


@given(
    st.lists(
        st.tuples(
            st.booleans(), st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), st.integers(0, 9)),
            st.one_of(st.none(), st.sampled_from([0.25, 0.5])),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_what_a_run_spent_is_what_the_bank_says_and_unknown_is_not_0(calls: list[tuple[Any, ...]]) -> None:
    """Calls before the beginning of the run count too; figures that no call names are unknown."""
    made = [
        (early, LmCalled(run="r", role="agent", model="m", tokens_in=one, tokens_out=two, cost_usd=usd))
        for early, one, two, usd in calls
    ]
    with Bank.create("memory:") as bank:
        before, after = ([event for early, event in made if early is wanted] for wanted in (True, False))
        bank.append([*before, RunStarted(run="r"), *after, RunFinished(run="r", outcome="submitted")])
        spent = msgspec.structs.asdict(History(bank).catch_up().spent(["r"]))
        with bank.as_of() as view:
            [row] = view.rows("runs")
    assert spent == {name: row[name] for name in spent}
    for at, name in enumerate(("tokens_in", "tokens_out", "cost_usd"), 1):
        known = [each[at] for each in calls if each[at] is not None]
        assert spent[name] == (sum(known) if known else None)
    assert spent["lm_calls"] == (len(calls) or None)


def test_a_rollout_whose_end_names_no_iterations_has_those_of_its_steps() -> None:
    """As in the bank: so the shortest of several is the same for a loop and for lessons drawn late."""
    with Bank.create("memory:") as bank:
        steps = [StepTaken(run="r", index=index) for index in (1, 2, 2)]
        bank.append([RunStarted(run="r", rollout_index=1), *steps, RunFinished(run="r", outcome="submitted")])
        rollout = History(bank).catch_up().runs["r"].rollout(bank)
        assert (rollout.index, rollout.iterations) == (1, 2) and bank.state().runs["r"].iterations == 2
