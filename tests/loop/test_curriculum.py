"""Curricula: the order of tasks is a pure function of recorded outcomes, and a loop that goes on has the same order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import JudgmentOverruled, RunStarted
from rbank_es.events.run_events import TaskChoice, VerdictValue
from rbank_es.loop.curriculum import Curriculum, CurriculumPlace, TaskOutcome, departures
from rbank_es.loop.tasks import Task
from tests.loop.loops import CutOff, cut_off, looped, quick, scripted
from tests.sandbox.sandboxes import require_dspy

VERDICTS: list[VerdictValue | None] = ["success", "failure", "undecided", None]
levels = st.lists(st.one_of(st.none(), st.integers(1, 4)), min_size=1, max_size=14)


def tasks_of(numbers: list[int | None]) -> list[Task]:
    return [Task(id=f"t{at}", question="?", level=number) for at, number in enumerate(numbers)]


def next_task(tasks: list[Task], done: list[TaskOutcome], rule: Curriculum) -> tuple[Task, TaskChoice]:
    """The task after those that are done, and why it is."""
    place = CurriculumPlace(tasks, rule)
    for outcome in done:
        place.take(outcome)
    return place.next()


def plain_order(tasks: list[Task], verdicts: dict[str, VerdictValue | None], rule: Curriculum) -> list[str]:
    """The definition in other words: levels are emptied, from the lowest on, unless the last tasks let one be left."""
    left: dict[float, list[str]] = {}
    for task in tasks:
        left.setdefault(math.inf if task.level is None else task.level, []).append(task.id)
    order: list[str] = []
    level = min(left)
    while any(left.values()):
        decided: list[VerdictValue | None] = []
        while left[level]:
            order.append(left[level].pop(0))
            decided += [each for each in [verdicts[order[-1]]] if each in ("success", "failure")]
            last = decided[-rule.last :]
            higher = [each for each in left if each > level and left[each]]
            if len(last) == rule.last and last.count("success") >= rule.won and higher:
                break
        rest = sorted(each for each in left if left[each])
        level = next((each for each in rest if each > level), rest[0] if rest else level)
    return order


@given(levels, st.randoms(use_true_random=False), st.integers(1, 4), st.integers(0, 3))
def test_the_order_is_a_pure_function_of_outcomes_at_every_point(
    numbers: list[int | None], random: Any, won: int, more: int
) -> None:
    """Each task once, those of one level as given; the same whether it is decided at once or after each task."""
    tasks, rule = tasks_of(numbers), Curriculum(won=won, last=won + more)
    verdicts = {task.id: random.choice(VERDICTS) for task in tasks}
    done: list[TaskOutcome] = []
    for _ in tasks:
        task, chosen = next_task(tasks, done, rule)
        assert next_task(tasks, done, rule) == (task, chosen)
        assert (chosen.level, chosen.rise_won, chosen.rise_last) == (task.level, won, won + more)
        assert chosen.decided <= rule.last and chosen.won <= chosen.decided
        assert (chosen.why == "first") == (not done)
        assert chosen.why != "mastered" or (chosen.won >= rule.won and chosen.decided == rule.last)
        done.append(TaskOutcome(task.id, verdicts[task.id]))
    assert [each.task for each in done] == plain_order(tasks, verdicts, rule)
    assert sorted(each.task for each in done) == sorted(task.id for task in tasks)
    assert not [*departures(tasks, done, rule)]
    with pytest.raises(ValueError, match="no task is left"):
        next_task(tasks, done, rule)


@given(levels, st.randoms(use_true_random=False))
def test_what_departs_from_the_order_is_found_where_it_does(numbers: list[int | None], random: Any) -> None:
    tasks = tasks_of(numbers)
    verdicts = {task.id: random.choice(VERDICTS) for task in tasks}
    order = plain_order(tasks, verdicts, Curriculum())
    shuffled = random.sample(order, len(order))
    first = next((at for at, (one, other) in enumerate(zip(order, shuffled, strict=True)) if one != other), None)
    found = next(departures(tasks, [TaskOutcome(id, verdicts[id]) for id in shuffled], Curriculum()), None)
    assert (found is None) == (first is None)
    if found is not None and first is not None:
        assert (found[0].id, found[1].task) == (order[first], shuffled[first])


def test_levels_rise_when_four_of_the_last_five_succeeded() -> None:
    """By the defaults, worked by hand: failures stay, the window moves on, and who is left behind comes last."""
    assert (limits.CURRICULUM_WON, limits.CURRICULUM_LAST) == (4, 5)
    tasks = tasks_of([1] * 8 + [2] * 2)
    came = ["failure", "failure", "success", "success", "undecided", "success", "success", "success", "success"]
    done: list[TaskOutcome] = []
    told = []
    for verdict in came:
        task, chosen = next_task(tasks, done, Curriculum())
        told.append((task.id, chosen.why, chosen.won, chosen.decided))
        done.append(TaskOutcome(task.id, verdict))  # type: ignore[arg-type]
    assert told == [
        ("t0", "first", 0, 0),
        ("t1", "stays", 0, 1),
        ("t2", "stays", 0, 2),
        ("t3", "stays", 1, 3),
        ("t4", "stays", 2, 4),
        ("t5", "stays", 2, 4),  # undecided counts neither way
        ("t6", "stays", 3, 5),
        ("t8", "mastered", 4, 5),
        ("t9", "stays", 1, 1),
    ]
    last, chosen = next_task(tasks, done, Curriculum())
    assert (last.id, chosen.why) == ("t7", "left_over")


@pytest.mark.parametrize(("won", "last"), [(0, 5), (6, 5), (1, limits.CURRICULUM_LAST_MOST + 1), (-1, -1)])
def test_an_impossible_rule_is_refused(won: int, last: int) -> None:
    with pytest.raises(BadInput, match="levels rise when"):
        Curriculum(won=won, last=last)


# ---------------------------------------------------------------- loops

SCRIPT = """\
name = "five tasks"
[[task]]
id = "*"
[[task.agent]]
reasoning = "Submit it."
code = '''
SUBMIT(answer="49 metres", sparql="", evidence={})
'''
[[task.judge]]
fields = { success = true, reason = "So it is." }
"""
TASKS = [Task(id=f"t{at}", question=f"What is {at}?", level=level) for at, level in enumerate((2, 1, 2, 1, 1))]
RULE = Curriculum(won=2, last=2)
EXPECTED = ["t1", "t3", "t0", "t2", "t4"]
"""Two of level 1, which is mastered by them; both of level 2; the one that was left behind."""


def run(bank: Bank, place: Path, tasks: list[Task] = TASKS, **options: Any) -> list[str]:
    settings = scripted(place, SCRIPT, layers=(), extract=False)
    return [each.task for each in looped(bank, settings, tasks, curriculum=RULE, **options)]


def begun(bank: Bank) -> list[tuple[str, str]]:
    """The tasks in the order in which they were begun, each with why; a repeated one once."""
    runs = (event for event in bank.events(types={"run_started"}) if isinstance(event, RunStarted))
    return [*{str(event.task_id): (str(event.task_id), event.chosen.why) for event in runs if event.chosen}.values()]


@pytest.mark.slow
def test_a_loop_takes_its_tasks_by_the_curriculum_and_records_why(tmp_path: Path) -> None:
    require_dspy()
    with quick(tmp_path / "bank") as bank:
        assert run(bank, tmp_path) == EXPECTED
        assert begun(bank) == [
            ("t1", "first"), ("t3", "stays"), ("t0", "mastered"), ("t2", "stays"), ("t4", "left_over")
        ]  # fmt: skip
        position = bank.position
        assert run(bank, tmp_path) == EXPECTED and bank.position == position
        assert run(bank, tmp_path, again=True) == EXPECTED and bank.position > position


@pytest.mark.parametrize(
    "groups", [pytest.param(n, marks=() if n in (4, 9) else pytest.mark.slow) for n in range(2, 16)]
)
def test_a_loop_that_was_cut_off_anywhere_ends_in_the_same_order(tmp_path: Path, groups: int) -> None:
    require_dspy()
    with quick(tmp_path / "bank") as bank:
        with pytest.raises(CutOff):
            run(cut_off(bank, groups), tmp_path)
        assert run(bank, tmp_path) == EXPECTED
        whole = begun(bank)
    with quick(tmp_path / "other") as other:
        run(other, tmp_path)
        assert whole == begun(other)


@pytest.mark.slow
def test_what_was_begun_keeps_its_order_though_a_verdict_on_it_changed(tmp_path: Path) -> None:
    """Of what comes, the verdict that stands now decides."""
    require_dspy()
    with quick(tmp_path / "bank") as bank:
        assert run(bank, tmp_path, TASKS[:4]) == EXPECTED[:4]
        [first] = [
            event.run for event in bank.events(types={"run_started"})
            if isinstance(event, RunStarted) and event.task_id == "t3"
        ]  # fmt: skip
        facts: dict[str, Any] = {"run": first, "purpose": "learning", "judge": "me", "judge_version": "1"}
        bank.append(JudgmentOverruled(verdict="failure", kind="human", by="me", reason="No.", **facts))
        more = [*TASKS, Task(id="t5", question="What is 5?", level=3)]
        # Without that failure, level 1 would be mastered, and what is left of it come last.
        assert run(bank, tmp_path, more) == [*EXPECTED[:4], "t4", "t5"]
