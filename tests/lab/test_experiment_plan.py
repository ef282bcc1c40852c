"""Plans: the same shuffled orders for all conditions, all trials, and estimates that are those of each run summed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.lab.experiment_definition import load_experiment
from rbank_es.lab.experiment_plan import Prices, ordered_tasks, planned
from rbank_es.loop.call_estimate import ANSWER_TOKENS
from rbank_es.loop.tasks import Task
from tests.lab.trials import materials, pair
from tests.sandbox.sandboxes import require_dspy

TASKS = tuple(Task(id=f"t{number}", question="?") for number in range(60))


@given(st.integers(), st.integers(0, 100), st.sets(st.sampled_from(TASKS), max_size=20))
def test_an_order_is_a_permutation_that_other_tasks_do_not_change(seed: int, order: int, some: set[Task]) -> None:
    whole = ordered_tasks(TASKS, seed, order)
    assert Counter(whole) == Counter(TASKS)
    assert ordered_tasks(some, seed, order) == tuple(task for task in whole if task in some)


def test_orders_differ_from_each_other_and_by_the_seed() -> None:
    orders = {ordered_tasks(TASKS, seed, order) for seed in range(5) for order in range(5)}
    assert len(orders) == 25
    # Each task comes early and late over many orders, because a shuffle that isn't one would favour some tasks.
    places = [ordered_tasks(TASKS, 0, order).index(TASKS[0]) for order in range(200)]
    assert 25 < sum(places) / 200 < 34


def test_a_plan_sums_what_every_run_may_need_and_prices_it(tmp_path: Path) -> None:
    require_dspy()
    plan = planned(materials(tmp_path, pair(3)), Prices(usd_in=1.0, usd_out=2.0))
    assert (plan.trials, plan.tasks, plan.runs) == (6, 2, 12)
    without, with_memory = plan.conditions
    roles = {role.role: role for role in with_memory.roles}
    assert [role.role for role in without.roles] == ["agent", "sub", "judge"]
    assert {*roles} == {"agent", "sub", "judge", "extractor"}
    # 3 orders of 2 tasks; at most 12 steps and one more call for the answer.
    assert (roles["agent"].calls_least, roles["agent"].calls_most) == (6, 6 * 13)
    assert roles["agent"].chars_out_most == 6 * 13 * ANSWER_TOKENS * 4
    for role in plan.roles:
        assert role.usd_most == pytest.approx((role.chars_in_most * 1.0 + role.chars_out_most * 2.0) / 4 / 1e6)
    assert plan.usd_most == pytest.approx(sum(role.usd_most or 0 for role in plan.roles))


def test_a_guide_is_counted_once_whatever_the_number_of_trials(tmp_path: Path) -> None:
    require_dspy()
    plan = planned(materials(tmp_path, load_experiment("E4")))
    assert plan.guide[0].calls_least == 1 and plan.usd_most is None
    none, lean = (each.roles[0].chars_in_most for each in plan.conditions if each.condition != "L3")
    assert lean > none
