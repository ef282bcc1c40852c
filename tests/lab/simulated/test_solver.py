"""The simulated world and its solver: assumptions in, known chances out, and luck that no condition changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.errors import BadInput
from rbank_es.lab.simulated.solver import (
    JudgeErrors,
    Lesson,
    SimulatedOutcome,
    chances,
    checked,
    judged,
    solve,
)
from rbank_es.lab.simulated.world import MOVES, Assumptions, World
from tests.effort import examples

WORLD = World(Assumptions(), 7)
TASK = WORLD.tasks[0]
RIGHT = WORLD.families[TASK.family].right
LESSONS = st.lists(
    st.builds(Lesson, st.sampled_from(("success", "failure")), st.integers(0, 11), st.integers(0, len(MOVES) - 1)),
    max_size=4,
)


def test_worlds_differ_and_no_task_is_learned_from_and_unseen() -> None:
    other = World(Assumptions(), 8)
    assert {task.question for task in WORLD.tasks}.isdisjoint(task.question for task in other.tasks)
    assert set(WORLD.unseen).isdisjoint(WORLD.tasks)


@settings(max_examples=examples(100), deadline=None)
@given(LESSONS)
def test_a_lesson_moves_its_own_move_and_a_foreign_one_by_half_the_log_odds(lessons: list[Lesson]) -> None:
    before = chances(WORLD, TASK, lessons)
    assert sum(before) == pytest.approx(1)
    for family, odds in ((TASK.family, 1.5), ((TASK.family + 1) % 12, 0.75)):
        after = chances(WORLD, TASK, [*lessons, Lesson("success", family, RIGHT)])
        moved = after[RIGHT] / (1 - after[RIGHT]) / (before[RIGHT] / (1 - before[RIGHT]))
        assert moved == pytest.approx(2.718281828459045**odds)
    less = chances(WORLD, TASK, [*lessons, Lesson("failure", TASK.family, RIGHT)])
    assert less[RIGHT] < before[RIGHT]


@settings(max_examples=examples(100), deadline=None)
@given(LESSONS, st.sampled_from(WORLD.tasks))
def test_a_better_chance_never_turns_a_success_into_a_failure(lessons: list[Lesson], task: object) -> None:
    """The luck of a task is the same under every condition."""
    assert isinstance(task, type(TASK))
    better = [*lessons, Lesson("success", task.family, WORLD.families[task.family].right)]
    assert solve(WORLD, task, better).right >= solve(WORLD, task, lessons).right


@pytest.mark.slow
def test_a_judge_and_a_person_err_at_their_rates() -> None:
    world = World(Assumptions(tasks=1_200, families=120), 3)
    errors = JudgeErrors(false_success=0.3, false_failure=0.1)
    for right, rate in ((False, 0.3), (True, 0.1)):
        outcomes = [(task, SimulatedOutcome(task.family % len(MOVES), right)) for task in world.tasks]
        wrong = [(judged(world, task, each, errors) == "success") is not right for task, each in outcomes]
        assert sum(wrong) / len(wrong) == pytest.approx(rate, abs=0.05)
        wrong = [(checked(world, task, each, rate) == "success") is not right for task, each in outcomes]
        assert sum(wrong) / len(wrong) == pytest.approx(rate, abs=0.05)


def test_assumptions_that_contradict_or_can_t_be_are_refused() -> None:
    with pytest.raises(BadInput, match="easiest"):
        World(Assumptions(hardest=0.6, easiest=0.5))
    for wrong in (Assumptions(families=1), Assumptions(clan=7), Assumptions(trap=1.5), Assumptions(tasks=0)):
        with pytest.raises(BadInput, match="can't be"):
            World(wrong)
