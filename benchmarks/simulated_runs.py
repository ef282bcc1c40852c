"""Runs of the simulated learner: how many fit into minutes, and whether a run costs more in a long simulation.

Processor time, because an experiment shares two cores among its simulations.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Goal, Row
from benchmarks.sizes import Sizes
from rbank_es.context.layer_text import LayerText
from rbank_es.lab.simulated.learner_memory import LearnerMemory
from rbank_es.lab.simulated.simulation import SimulationPlan, simulate
from rbank_es.lab.simulated.world import Assumptions, World

RUNS, CORES = 6_000, 2
PARTS = 5
GOAL_MINUTES, GOAL_GROWTH = 3, 1.5


class Timed(LearnerMemory):
    """A memory that notes the processor time whenever a run begins."""

    times: list[float]

    def found(self, question: str, without_task: str | None = None) -> LayerText:
        """Return the items for a question."""
        self.times.append(time.process_time())
        return super().found(question, without_task)


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the time of 6,000 runs on two cores, and the growth within a simulation."""
    world, plan = World(Assumptions(tasks=sizes.loop_tasks)), SimulationPlan()
    memory = Timed.create({})
    memory.times = []
    simulate(world, plan, lambda: memory)
    parts = sizes.loop_tasks // PARTS
    first, last = (_each(memory.times, start, parts) for start in (0, sizes.loop_tasks - parts))
    each = _each(memory.times, 0, sizes.loop_tasks)
    minutes = each * RUNS / CORES / 60
    what = f"SIMULATED: {RUNS:,} runs, {CORES} cores, by a simulation of {sizes.loop_tasks:,} tasks"
    ours = f"{minutes:.1f} min ({each * 1e3:.1f} ms a run)"
    yield Row("simulated runs", what, ours, goal=Goal("≤", GOAL_MINUTES, "min"), value=minutes)
    what = f"SIMULATED: the last fifth of {sizes.loop_tasks:,} runs beside the first"
    goal = Goal("≤", GOAL_GROWTH, "x the first")
    yield Row("simulated runs", what, f"{last * 1e3:.1f} ms", f"{first * 1e3:.1f} ms", goal=goal, value=last / first)


def _each(times: list[float], start: int, count: int) -> float:
    """Return the mean processor time of so many runs, in seconds."""
    return (times[start + count] - times[start]) / count
