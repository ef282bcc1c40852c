"""Simulations: in memory they are equal to those in banks on disk, to the last digit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es.bank import Bank
from rbank_es.context.layer_text import LayerText
from rbank_es.context.procedures import procedures
from rbank_es.events import BankCreated, ContextBuilt, JudgmentOverruled, MemoriesRetrieved, RunJudged, RunStarted
from rbank_es.lab.simulated.learner_memory import SIMULATED, LearnerMemory
from rbank_es.lab.simulated.poisoned_bank import BY_SUPPORT
from rbank_es.lab.simulated.simulation import Simulation, SimulationPlan, VerdictCheck, simulate
from rbank_es.lab.simulated.solver import PERFECT, JudgeErrors
from rbank_es.lab.simulated.world import Assumptions, World
from tests.policies.proven_rank import PROVEN

SMALL = Assumptions(families=4, clan=2, tasks=24, unseen=1)
BAD = JudgeErrors(false_success=0.5, false_failure=0.3)
ERRING = VerdictCheck(at=12, verdicts=6, errors=0.3, second=True, vouch=True, relearn=True)
PLANS: dict[str, SimulationPlan] = {
    "append": SimulationPlan(judge=BAD, checks=(ERRING,), policies={"consolidation": {"name": "append"}}),
    "dedup, by review": SimulationPlan(
        judge=BAD,
        checks=(VerdictCheck(at=8, verdicts=3, pick="review"), VerdictCheck(at=24, pick="review", errors=0.5)),
        policies={"consolidation": {"name": "dedup"}, "retrieval": PROVEN},
        measured_every=12,
    ),
    "bounded, emptied": SimulationPlan(
        judge=BAD,
        judge_changes_at=12,
        later_judge=PERFECT,
        checks=(VerdictCheck(at=8, verdicts=4), VerdictCheck(at=20)),
        emptied_at=12,
        policies={"forgetting": {"name": "bounded", "max_items": 5, "grace": 2}, "retrieval": BY_SUPPORT},
    ),
}


class DiskMemory(LearnerMemory):
    """The same in a bank on disk, searched as layer L2 of a context searches it."""

    def found(self, question: str, without_task: str | None = None) -> LayerText:
        self.bank.project()
        with self.bank.as_of() as view:
            return procedures(view, question, without_task=without_task)


def in_memory(world: World, plan: SimulationPlan) -> Simulation:
    return simulate(world, plan, lambda: LearnerMemory.create(plan.policies))


def in_banks(world: World, plan: SimulationPlan, place: Path) -> Simulation:
    made: list[LearnerMemory] = []

    def new_memory() -> LearnerMemory:
        made.append(DiskMemory.create(plan.policies, str(place / f"bank-{len(made)}")))
        return made[-1]

    return simulate(world, plan, new_memory)


def test_a_life_in_memory_is_that_in_a_bank_on_disk_to_the_last_digit(tmp_path: Path) -> None:
    world, plan = World(replace(SMALL, tasks=14), 2), PLANS["append"]
    assert in_memory(world, plan) == in_banks(world, plan, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_a_long_life_in_memory_is_that_in_a_bank_on_disk(name: str, tmp_path: Path) -> None:
    world = World(Assumptions(tasks=60, unseen=1), 5)
    assert in_memory(world, PLANS[name]) == in_banks(world, PLANS[name], tmp_path)


@pytest.mark.slow
def test_a_life_is_recorded_as_the_loop_records_runs_and_marked(tmp_path: Path) -> None:
    in_banks(World(SMALL, 1), PLANS["append"], tmp_path)
    with Bank.open(tmp_path / "bank-0") as bank:
        events = [*bank.events()]
        assert isinstance(events[0], BankCreated)
        assert SIMULATED in events[0].purpose
        assert [each.simulated for each in events if isinstance(each, RunStarted)] == [True] * 24
        judgments = [each for each in events if isinstance(each, RunJudged)]
        assert [each.purpose for each in judgments] == ["learning"] * 24
        assert {each.by for each in events if isinstance(each, JudgmentOverruled)} == {"simulated person"}
        for built in (each for each in events if isinstance(each, ContextBuilt)):
            retrieved = (each for each in events if isinstance(each, MemoriesRetrieved) and each.run == built.run)
            assert set(built.items) <= {hit.id for each in retrieved for hit in each.hits}
        bank.check(retrievals=True, decisions=True)


@pytest.mark.slow
def test_leave_one_out_keeps_the_lesson_of_the_very_task_from_it_in_memory_and_on_disk_alike(tmp_path: Path) -> None:
    """With an effect of its own for such a lesson, a memory that may repeat itself looks better than it is."""
    skills = {}
    for left_out in (True, False):
        plan = SimulationPlan(judge=PERFECT, measured_again=True, leave_one_out=left_out)
        world = World(replace(SMALL, tasks=16, same_task=3.0), 3)
        simulation = in_memory(world, plan)
        assert simulation == in_banks(world, plan, tmp_path / str(left_out))
        skills[left_out] = simulation.again
    assert skills[False] is not None and skills[True] is not None and skills[False] > skills[True]
    plain = World(replace(SMALL, tasks=16), 3)
    assert in_memory(plain, SimulationPlan()).again is None


def changed(plan: SimulationPlan, **fields: Any) -> SimulationPlan:
    return replace(plan, **fields)


def test_without_memory_skill_is_the_assumed_one_and_nothing_is_learned() -> None:
    simulation = in_memory(World(Assumptions(tasks=30), 0), SimulationPlan(memory=False))
    assert simulation.skill == simulation.without == pytest.approx(0.36)
    assert (simulation.items, simulation.hurt, simulation.wrong_lessons) == (0, 0, None)


def test_checking_every_verdict_gives_the_verdicts_of_a_perfect_judge_and_an_emptied_bank_nothing() -> None:
    world = World(Assumptions(tasks=48, unseen=2), 0)
    check = SimulationPlan(judge=BAD, checks=(VerdictCheck(at=48),), measured_every=48)
    simulation = in_memory(world, check)
    assert simulation.checked == 48
    assert simulation.overruled == round(48 * (1 - simulation.judged_right))
    _, (before, low), (after, high), _ = simulation.curve
    assert (before, after) == (48, 48)
    assert high > low
    emptied = in_memory(world, changed(check, checks=(), emptied_at=48))
    assert (emptied.skill, emptied.items) == (pytest.approx(0.36), 0)
