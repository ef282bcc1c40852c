"""Three rollouts of a task beside one: runs of six steps by the loop, with a model that has a latency."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.sandboxes import kept
from benchmarks.scripted import ANSWER, LATENCY_S, QUESTION, STEPS, Scripted
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.loop import LoopSettings, Task, run_closed_loop
from rbank_es.models.model_choice import LmChoice
from rbank_es.sandbox.sandbox_pool import SandboxPool

K = 3
GOAL = 1.5


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row with running sandboxes (it has the goal), and one with a pool that starts others meanwhile."""
    with kept(K) as running, Bank.create(place / "kept") as bank:
        goal = Goal("≤", GOAL, "x one rollout")
        yield _row(bank, "in sandboxes that run", running, _nothing, sizes.latency_rounds, goal)
    with SandboxPool(K) as pool, Bank.create(place / "pool") as bank:
        yield _row(bank, "from a pool that starts as many again meanwhile", pool, pool.wait, sizes.sandbox_rounds)


def _nothing() -> None:
    """Do nothing: kept sandboxes are always ready."""


def _row(bank: Bank, where: str, interpreters: Any, ready: Any, rounds: int, goal: Goal | None = None) -> Row:
    numbers = itertools.count(1)

    def turn(k: int) -> float:
        ready()
        return timed(lambda: _ran(bank, interpreters, k, next(numbers)))()

    samples = interleave({"one": partial(turn, 1), "several": partial(turn, K)}, rounds)
    return Row(
        "rollouts",
        f"{K} rollouts of {STEPS} steps side by side, {LATENCY_S * 1e3:.0f} ms for each answer of the model; {where}",
        duration(samples.median("several")),
        peer=f"one rollout {duration(samples.median('one'))}",
        floor=f"the model alone {duration(STEPS * LATENCY_S)}",
        goal=goal,
        value=samples.ratio("several", "one") if goal else None,
    )


def _ran(bank: Bank, interpreters: Any, k: int, number: int) -> None:
    settings = LoopSettings(lm=LmChoice(model="test/scripted"), rollouts=k, judge="none", extract=False)
    task = Task(id=f"words-{number}", question=f"{QUESTION} ({number})")
    engine = Scripted(LATENCY_S, defined=True)
    [result] = run_closed_loop([task], bank, settings, interpreters=interpreters, model_for=lambda *_: engine)
    assert (result.outcome, result.answer, len(result.runs)) == ("submitted", ANSWER, k), result
