"""Acts of people: verdicts that no judge outranks, ends and returns of items, and what each of them brings about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.bank.item_acts import Remembered
from rbank_es.bank.verdict_acts import Ruling
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import (
    ContextBuilt,
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunJudged,
    RunStarted,
)
from rbank_es.events.items import Item
from rbank_es.events.memory_events import Action
from rbank_es.events.run_events import JudgeKind, VerdictValue
from rbank_es.law import active
from rbank_es.log import Appended
from rbank_es.policies import changed, default_policies
from tests.differences import states_in

WORDS = "one two three four five six seven eight"
"""Contents that begin so, with one word more or less, are near duplicates."""


def began(bank: Bank, run: str, verdict: VerdictValue | None = "success", kind: JudgeKind = "lm") -> str:
    """Record a run, judged unless told otherwise."""
    bank.append(RunStarted(run=run))
    if verdict is not None:
        judged(bank, run, verdict, kind)
    return run


def judged(bank: Bank, run: str, verdict: VerdictValue, kind: JudgeKind = "lm") -> None:
    """Record a judgment, as a judge does: nothing else is appended."""
    bank.append(RunJudged(run=run, purpose="learning", verdict=verdict, judge="j", judge_version="1", kind=kind))


def learn(bank: Bank, run: str | None, content: str, title: str = "Ask for its classes first") -> Remembered:
    """Learn an item from a run."""
    return bank.remember(title, content, src="success", runs=() if run is None else (run,))


def given(bank: Bank, run: str, *items: str) -> None:
    """Record that a run was given items."""
    bank.append(ContextBuilt(run=began(bank, run, None), items=items, chars=1))


def states(bank: Bank) -> dict[str, tuple[str, int]]:
    """Every item with its state and support; those without support left out."""
    entries = bank.state().items.items()
    return {id: (entry.state, entry.support) for id, entry in entries if entry.state != "unsupported"}


@pytest.fixture
def bank() -> Bank:
    """A bank of `dedup-1`, to which likeness isn't transitive, with three judged runs."""
    made = Bank.create("memory:", policies=changed(default_policies(), {"consolidation": {"version": 1}}))
    for run in ("r1", "r2", "r3"):
        began(made, run)
    return made


@pytest.fixture
def abc(bank: Bank) -> tuple[str, str, str]:
    """A, near to B; B, near to C; A isn't near to C."""
    a = learn(bank, "r1", WORDS)
    b = learn(bank, "r2", "one two three four five six seven")
    c = learn(bank, "r3", "one two three four five six")
    return a.item, b.item, c.item


def test_what_is_recorded_is_no_id(bank: Bank) -> None:
    with bank.record("Which lamps are lit?") as run:
        run.finish("All.")
    with pytest.raises(BadInput, match=r"AgentRun was given; whatever is recorded has it as \.id"):
        bank.overrule(run, True, reason="All are.")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["bad", None, 1, "Success"])
def test_what_is_no_verdict_is_refused_with_those_that_there_are(bank: Bank, given: Any) -> None:
    position = bank.position
    with pytest.raises(BadInput, match="is no verdict: give success, failure or undecided"):
        bank.overrule("r1", given, reason="I looked")
    assert bank.position == position


def test_runs_that_were_misled_and_what_was_drawn_from_them_are_named_and_set_aside_if_asked(bank: Bank) -> None:
    a = learn(bank, "r1", WORDS).item
    given(bank, "r4", a)
    judged(bank, "r4", "success")
    d = learn(bank, "r4", "nine ten eleven twelve", "Something else").item
    given(bank, "r5", d)
    judged(bank, "r5", "success")
    e = learn(bank, "r5", "thirteen fourteen fifteen", "A third thing").item
    made = bank.overrule("r1", "failure", reason="wrong")
    assert [(each.run, each.items) for each in made.misled] == [("r4", (a,))]
    assert [(each.id, each.run) for each in made.tainted] == [(d, "r4")]
    assert states(bank) == {d: ("active", 1), e: ("active", 1)}
    # The same again, now with what it influenced: of both generations.
    wide = bank.overrule("r1", "failure", reason="wrong", influence=True)
    assert states(bank) == {} and {each.id for each in wide.left} == {d, e} and len(wide.aside) == 2
    bank.overrule("r1", "success", reason="right after all")
    assert states(bank) == {id: ("active", 1) for id in (a, d, e)}


def test_many_verdicts_are_one_correction(bank: Bank, abc: tuple[str, str, str]) -> None:
    made = bank.overrule_many([Ruling("r1", "failure", "wrong"), Ruling("r2", "undecided", "nobody knows")])
    assert states(bank) == {abc[2]: ("active", 1)} and len(made.verdicts) == 2
    position = bank.position
    with pytest.raises(BadInput, match="two verdicts on run 'r3'"):
        bank.overrule_many([Ruling("r3", "failure", "a"), Ruling("r3", "success", "b")])
    with pytest.raises(NotInBank):
        bank.overrule_many([Ruling("r3", "failure", "a"), Ruling("r9", "success", "b")])
    assert bank.position == position


# ---------------------------------------------------------------- items


def test_restore_exempts_one_near_duplicate_of_what_is_rejected(bank: Bank, abc: tuple[str, str, str]) -> None:
    a, b, _ = abc
    bank.reject(a, because="it is wrong")
    bank.restore(b, because="this one is right", by="ann")
    assert states(bank)[b][0] == "active" and states(bank)[a][0] == "rejected"
    with pytest.raises(BadInput, match="is rejected"):
        bank.restore(a, because="why not")
    bank.restore(a, because="it was right", even_rejected=True)
    assert states(bank)[a][0] == "active"


def test_a_retracted_item_ends_and_its_twins_are_free(bank: Bank, abc: tuple[str, str, str]) -> None:
    a, _, _ = abc
    bank.retract(a, because="too long")
    assert states(bank)[a][0] == "withdrawn"
    twin = learn(bank, None, f"{WORDS} nine")
    assert (twin.action, twin.state) == ("add", "active")
    same = learn(bank, None, WORDS)
    assert same.reason == "withdrawn" and same.because.startswith(f"somebody withdrew {a}")
    assert same.because.endswith("too long")


def test_what_has_ended_can_still_be_rejected_which_bars_its_words(bank: Bank, abc: tuple[str, str, str]) -> None:
    bank.forget(abc[0])
    bank.retract(abc[1], because="tidied")
    for id in abc[:2]:
        assert states_in(bank.reject(id, because="wrong"))[id][1] == "rejected"
    assert learn(bank, "r3", WORDS.upper()).reason == "rejected"


def test_retracting_what_is_rejected_is_refused(bank: Bank, abc: tuple[str, str, str]) -> None:
    bank.reject(abc[0], because="wrong")
    with pytest.raises(BadInput, match="would lift"):
        bank.retract(abc[0], because="too long")


def test_who_vouched_keeps_an_item_and_is_named(bank: Bank, abc: tuple[str, str, str]) -> None:
    a, _, _ = abc
    bank.retract(a, because="too long")
    bank.restore(a, because="I need it", by="ann")
    made = bank.overrule("r1", "failure", reason="wrong")
    assert states(bank)[a][0] == "active" and [each.id for each in made.stays] == [a]


@pytest.mark.parametrize("action", ["add", "skip", "merge", "supersede"])
def test_a_decision_that_names_an_item_that_never_was_can_be_undone_and_taken_back(bank: Bank, action: Action) -> None:
    """Written by hand under the policy's name: it is made again without the item."""
    item = Item.make("Count with DISTINCT", "A light may be typed twice.", src="success")
    extracted = MemoriesExtracted(kind="manual", heads=(item.head,), candidates=(item.text,))
    extraction = bank.append(extracted).events[0].id
    by_hand = Decision(candidate=0, action=action, item=item.id, targets=("never",))
    decided = bank.append(MemoriesConsolidated(extraction=extraction, policy="dedup-1", decisions=(by_hand,)))
    undone = bank.undo(decided.first, 0, because="x")
    assert item.id not in states(bank) and bank.undo(decided.first, 0, because="x").last_seq is None
    bank.undo(undone.first_seq or 0, 0, because="x")
    assert set(active(bank.state())) == {item.id}
    assert not bank.check(decisions=True).canonical.decisions


def test_forgetting_by_hand_holds_and_what_is_not_active_is_refused(bank: Bank, abc: tuple[str, str, str]) -> None:
    assert states_in(bank.forget(abc[0]))[abc[0]] == ("active", "forgotten")
    assert states(bank)[abc[0]][0] == "forgotten" and bank.correct().last_seq is None
    with pytest.raises(BadInput, match="not active"):
        bank.forget(abc[0])
    bank.restore(abc[0], because="needed")
    assert states(bank)[abc[0]][0] == "active"


ACTS: dict[str, Callable[[Bank, str], Any]] = {
    "overrule": lambda bank, id: bank.overrule(id, "failure", reason="x"),
    "reject": lambda bank, id: bank.reject(id, because="x"),
    "retract": lambda bank, id: bank.retract(id, because="x"),
    "restore": lambda bank, id: bank.restore(id, because="x"),
    "admit": lambda bank, id: bank.admit(id),
    "forget": lambda bank, id: bank.forget(id),
    "remember": lambda bank, id: bank.remember("a", "b", runs=[id]),
}


@pytest.mark.parametrize("act", [act for act in ACTS if act != "admit"])
def test_an_act_is_made_again_where_another_writer_was_faster(
    bank: Bank, abc: tuple[str, str, str], act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, first = bank.log.append, iter((True,))

    def late(events: Sequence[Event], **options: Any) -> Appended:
        if next(first, False):
            append([RunStarted(run="of another writer")])
        return append(events, **options)

    monkeypatch.setattr(bank.log, "append", late)
    position = bank.position
    ACTS[act](bank, "r1" if act in ("overrule", "remember") else abc[0])
    assert bank.position > position + 1


@pytest.mark.parametrize("act", ACTS)
def test_an_unknown_id_is_refused_with_the_nearest_and_nothing_is_appended(
    bank: Bank, abc: tuple[str, str, str], act: str
) -> None:
    position = bank.position
    of_run = act in ("overrule", "remember")
    with pytest.raises(NotInBank, match="did you mean" if not of_run else "no run 'r9'"):
        ACTS[act](bank, "r9" if of_run else abc[0][:-1] + "x")
    with pytest.raises(NotInBank):
        ACTS[act](bank, "r" if of_run else "")
    assert bank.position == position


@pytest.mark.parametrize("act", ("overrule", "reject", "retract", "restore"))
def test_a_reason_is_asked_for(bank: Bank, abc: tuple[str, str, str], act: str) -> None:
    name = "reason" if act == "overrule" else "because"
    arguments = ("r1", "failure") if act == "overrule" else (abc[0],)
    with pytest.raises(BadInput, match="a reason is missing"):
        getattr(bank, act)(*arguments, **{name: " "})


def test_nothing_is_learned_by_hand_from_an_undecided_run(bank: Bank) -> None:
    began(bank, "r4", "undecided")
    with pytest.raises(BadInput, match="undecided"):
        learn(bank, "r4", WORDS)
