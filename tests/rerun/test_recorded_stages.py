"""What a loop made of a run, done again: verdicts, scores, lessons, alone or of several rollouts, cut off anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.errors import LoopStopped
from rbank_es.events import (
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunJudged,
    RunStarted,
    ToolCalled,
)
from rbank_es.extraction import consolidate
from rbank_es.rerun.event_comparison import EventDifference
from rbank_es.rerun.execution import Rerun, rerun
from rbank_es.rerun.recorded_run import recorded_run, runs_of
from tests.loop.loops import SCRIPT, TASKS, CutOff, cut_off, looped, quick, scripted
from tests.loop.test_matts import SCRIPT as ROLLOUTS
from tests.rerun.banks import Change, changing, quick_code, reruns, retold, run_in, shipped
from tests.sandbox.sandboxes import require_dspy

require_dspy()


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """Three rollouts of a task, two of them right, and what comparing them taught."""
    settings: Any = {"rollouts": 3, "extract_from": "contrastive"}
    with run_in(tmp_path_factory.mktemp("several"), ROLLOUTS, TASKS[:1], **settings) as bank:
        yield bank


def only(came: Iterator[Rerun]) -> Rerun:
    [one] = came
    return one


def differing(bank: Bank, place: Path, change: Change) -> list[EventDifference]:
    """The differences of the runs of a bank that was told otherwise."""
    with retold(bank, place / "retold", change) as other:
        return [came.difference for came in reruns(other) if came.difference is not None]


def of(kind: type, /, *fields: Any, **changes: Any) -> Change:
    """A change of the events of a type that have these values in these fields."""
    wanted = dict(zip(fields[::2], fields[1::2], strict=True))

    def change(event: Any) -> Any:
        fits = type(event) is kind and all(getattr(event, name) == value for name, value in wanted.items())
        return msgspec.structs.replace(event, **changes) if fits else event

    return change


# ---------------------------------------------------------------- scores


@pytest.mark.slow
def test_a_verdict_by_the_right_answer_is_compared_like_a_score(tmp_path: Path) -> None:
    script = SCRIPT.replace("[[task.judge]]\nfields = { success = false", "[[task.sub]]\nfields = { success = false")
    with run_in(tmp_path, script, TASKS[:1], supervised=True) as bank:
        assert only(reruns(bank)).identical
        assert any("it was judged by the right answer" in note for note in only(reruns(bank, tasks=())).notes)
        [found] = differing(bank, tmp_path, of(RunJudged, "purpose", "learning", verdict="success"))
        assert found.field.startswith("verdict")


@pytest.mark.slow
def test_a_person_s_verdict_on_a_run_that_nobody_was_to_judge_is_none_of_the_loop_s(tmp_path: Path) -> None:
    with run_in(tmp_path, SCRIPT, TASKS[:1], judge="none", extract=False) as bank:
        run = runs_of(bank)[0]
        facts: Any = {"verdict": "failure", "judge_version": "1", "reason": "I looked."}
        bank.append(RunJudged(run=run, purpose="learning", judge="ann", kind="human", **facts))
        bank.append(RunJudged(run=run, purpose="learning", judge="checks", kind="check", **facts))
        assert only(reruns(bank)).identical


# ---------------------------------------------------------------- several rollouts


@pytest.mark.slow
def test_what_rollouts_taught_together_is_compared_with_the_best_of_them(several: Bank) -> None:
    came = list(reruns(several))
    assert [each.difference for each in came] == [None, None, None]
    best = came[2].run
    assert [best in "".join(each.notes) for each in came] == [True, True, False]
    lesson = recorded_run(several, best).stages[-1]
    kinds = [event.kind for event in lesson.events if isinstance(event, MemoriesExtracted)]
    assert kinds[:2] == ["contrastive", "pattern"]
    assert sum(isinstance(event, LmCalled) for event in lesson.events) == 2
    assert came[2].events == len(recorded_run(several, best).whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (of(MemoriesExtracted, "kind", "contrastive", kind="pattern"), "kind"),
        (of(MemoriesExtracted, "kind", "pattern", kind="failure"), "kind"),
        (of(LmCalled, "role", "extractor", tokens_in=0), "tokens_in"),
        (changing(MemoriesConsolidated, policy="append-1"), "policy"),
    ],
)
def test_a_lesson_of_several_that_was_changed_is_found_there(
    several: Bank, tmp_path: Path, change: Change, field: str
) -> None:
    [found] = differing(several, tmp_path, change)
    assert found.field.partition(",")[0] == field


@pytest.mark.slow
def test_a_verdict_of_one_rollout_that_was_changed_changes_the_lesson(several: Bank, tmp_path: Path) -> None:
    found = differing(several, tmp_path, of(RunJudged, "reason", "rollout 0", reason="otherwise"))
    assert [(each.type, each.field.partition(",")[0]) for each in found] == [
        ("run_judged", "reason"), ("lm_called", "request.messages[0].parts[0].text"),
    ]  # fmt: skip


@pytest.mark.slow
def test_what_the_best_of_several_taught_alone_is_compared_too(tmp_path: Path) -> None:
    with run_in(tmp_path, ROLLOUTS, TASKS[:1], rollouts=3, extract_from="best") as bank:
        assert all(came.identical for came in reruns(bank))
        [found] = differing(bank, tmp_path, changing(MemoriesExtracted, extractor="another-1"))
        assert found.field.startswith("extractor")


def test_a_lesson_from_a_rollout_that_was_erased_is_not_compared(several: Bank, tmp_path: Path) -> None:
    with retold(several, tmp_path / "retold", lambda event: event) as bank:
        first, _, best = runs_of(bank)
        called = bank.events(types={"tool_called"}, run=first, resolve=True)
        bank.erase(text=next(event.result for event in called if isinstance(event, ToolCalled) and event.result))
        came = rerun(bank, best, ontologies=shipped(), tasks=TASKS)
    assert came.identical and any(f"texts of {first} were erased" in note for note in came.notes)


# ---------------------------------------------------------------- cut off, and resumed

UNREAD = SCRIPT.replace("[[task.judge]]", '[[task.judge]]\ntext = "Hm."\n\n[[task.judge]]', 1).replace(
    "[[task.extractor]]", '[[task.extractor]]\ntext = "Well."\n\n[[task.extractor]]', 1
)
"""The judge, and then the extractor, are each asked twice, for their first replies can't be read."""


@pytest.mark.slow
@pytest.mark.parametrize("after", range(6, 13))
def test_a_loop_that_was_cut_off_anywhere_and_resumed_comes_out_the_same(tmp_path: Path, after: int) -> None:
    """Runs that were cut off are refused; of judging and learning that began twice, the attempt that counts is told."""
    settings, bank = scripted(tmp_path, UNREAD), quick(tmp_path / "bank")
    with pytest.raises(CutOff):
        looped(cut_off(bank, after), settings, TASKS[:1], interpreters=quick_code)
    cut = bank.position
    with bank:
        finished = {event.run for event in bank.events(types={"run_finished"})}  # type: ignore[attr-defined]
        assert all(came.identical for came in reruns(bank, finished)), "before it was resumed"
        looped(bank, settings, TASKS[:1], interpreters=quick_code)
        last = runs_of(bank)[-1]
        came = rerun(bank, last, ontologies=shipped(), tasks=TASKS)
        assert came.difference is None and not came.notes
        assert {type(event) for event in recorded_run(bank, last).whole} >= {RunJudged, MemoriesConsolidated}
        # Up to where it was cut off, it still is as it was then.
        for run in finished:
            assert rerun(bank, run, point=cut, ontologies=shipped(), tasks=TASKS).identical


def test_judging_that_came_to_nothing_is_compared_as_far_as_it_went(tmp_path: Path) -> None:
    silent = 'error = "timeout"\n[[task.judge]]\n' * 3
    script = SCRIPT.replace("fields = { success = false", silent + "fields = { x = 1", 1)
    with run_in(tmp_path, script, TASKS[:1]) as bank:
        assert not list(bank.events(types={"memories_extracted"}))
        came = only(reruns(bank))
        assert came.identical and any("came to no verdict" in note for note in came.notes)
        [found] = differing(bank, tmp_path, of(LmCalled, "role", "judge", model="another"))
        assert (found.type, found.field.partition(",")[0]) == ("lm_called", "model")


@pytest.mark.parametrize("role", ["judge", "extractor"])
def test_a_loop_that_stopped_for_a_model_and_went_on_later_comes_out_the_same(tmp_path: Path, role: str) -> None:
    turn = f"[[task.{role}]]"
    settings = scripted(tmp_path, SCRIPT.replace(turn, f'{turn}\nerror = "no_credit"\n{turn}', 1))
    with quick(tmp_path / "bank") as bank:
        with pytest.raises(LoopStopped, match="no_credit|account"):
            looped(bank, settings, TASKS[:1], interpreters=quick_code)
        stopped = only(reruns(bank))
        assert stopped.identical and any("as far as it went" in note for note in stopped.notes)
        (tmp_path / "script.toml").write_text(SCRIPT)
        looped(bank, settings, TASKS[:1], interpreters=quick_code)
        assert (only(reruns(bank)).difference, only(reruns(bank)).notes) == (None, ())


@pytest.mark.slow
def test_another_s_events_in_between_change_nothing(tmp_path: Path) -> None:
    """What is learnt is weighed against the bank as it was then, not as it was when the run began."""
    settings, bank = scripted(tmp_path, SCRIPT), quick(tmp_path / "bank")
    other = quick(tmp_path / "other")
    with other:
        looped(other, settings, TASKS[:1], interpreters=quick_code)
        item = next(iter(other.state().items.values())).item
    with bank:
        with pytest.raises(CutOff):
            looped(cut_off(bank, 9), settings, TASKS[:1], interpreters=quick_code)
        assert list(bank.events(types={"run_judged"})) and not list(bank.events(types={"memories_extracted"}))
        bank.append(RunStarted(run="other", task="Which?"))
        consolidate(bank, [item])
        looped(bank, settings, TASKS[:1], interpreters=quick_code)
        [first, *_] = runs_of(bank)
        recording = recorded_run(bank, first)
        [decided] = [event for event in recording.whole if isinstance(event, MemoriesConsolidated)]
        assert decided.decisions[0].action == "skip"
        assert rerun(bank, first, ontologies=shipped(), tasks=TASKS).difference is None
