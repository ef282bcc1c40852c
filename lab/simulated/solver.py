"""The simulated solver, its judge and its lessons: what stands in for a language model in every role.

    solver     makes one of the moves, by chances that the lessons given to it shift; right or wrong follows
    judge      says success or failure, and errs at given rates; a person does so too, at a rate of their own
    extractor  writes a lesson that names the move that was *made*: to make it after a success, to avoid it after a
               failure. So whether a lesson is right follows from the run and its verdict, and isn't set

A slip makes a right move fail, and so even a judge that never errs teaches some wrong lessons.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from typing import NamedTuple

from msgspec import Struct

from rbank_es.events.items import Item, Polarity
from rbank_es.lab.simulated.world import MOVES, Share, SimulatedTask, World, draw


class Lesson(NamedTuple):
    """The advice of an item to the solver: to make a move in a family of tasks (success), or to avoid it (failure).

    `task` is the id of the task that it was drawn from.
    """

    polarity: Polarity
    family: int
    move: int
    task: str = ""

    def is_right(self, world: World) -> bool:
        """Return whether the lesson is right for its own family."""
        return (self.move == world.families[self.family].right) is (self.polarity == "success")


class SimulatedOutcome(NamedTuple):
    """The move that the solver made, and whether its answer was right."""

    move: int
    right: bool


class JudgeErrors(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge's error rates: the share of failures that it calls a success, of successes that it calls a failure.

    The defaults are about the best that was reported of judging models: a precision of 70 % (AgentRewardBench,
    arXiv:2504.08942) at a base rate of .3 and an assumed recall of .75.
    """

    false_success: Share = 0.14
    false_failure: Share = 0.25


PERFECT = JudgeErrors(false_success=0.0, false_failure=0.0)
"""A judge that never errs."""


def skill(world: World, task: SimulatedTask, lessons: Iterable[Lesson]) -> float:
    """Return the probability, 0 to 1, that the solver answers a task rightly, given lessons."""
    return chances(world, task, lessons)[world.families[task.family].right] * (1 - world.assumptions.slip)


def chances(world: World, task: SimulatedTask, lessons: Iterable[Lesson]) -> list[float]:
    """Return the chance of each move: those without memory, multiplied by the effect of each lesson."""
    given, family = world.assumptions, world.families[task.family]
    rest = 1 - family.chance
    # Moves that are neither right nor the trap share alike what is left.
    weights = [rest * (1 - given.trap) / (len(MOVES) - 2)] * len(MOVES)
    weights[family.trap], weights[family.right] = rest * given.trap, family.chance
    for lesson in lessons:
        effect = given.follow if lesson.polarity == "success" else -given.avoid
        effect *= 1 if lesson.family == task.family else given.foreign
        if lesson.task == task.id:
            effect += given.same_task if lesson.polarity == "success" else -given.same_task
        weights[lesson.move] *= exp(effect)
    total = sum(weights)
    return [weight / total for weight in weights]


def solve(world: World, task: SimulatedTask, lessons: Iterable[Lesson]) -> SimulatedOutcome:
    """Return the outcome of the solver's work on a task."""
    right, left = world.families[task.family].right, draw("solve", *world.key, task.id)
    of_move = chances(world, task, lessons)
    # The right move first: a condition that makes it more likely then never turns a success into a failure.
    order = [right, *(move for move in range(len(MOVES)) if move != right)]
    # The last one, should rounding let the chances add up to less than was drawn.
    made = order[-1]
    for move in order:
        left -= of_move[move]
        if left < 0:
            made = move
            break
    slips = draw("slip", *world.key, task.id) < world.assumptions.slip
    return SimulatedOutcome(made, made == right and not slips)


def judged(world: World, task: SimulatedTask, outcome: SimulatedOutcome, errors: JudgeErrors) -> Polarity:
    """Return the verdict of a judge that errs at these rates."""
    wrong = draw("judge", *world.key, task.id) < (errors.false_failure if outcome.right else errors.false_success)
    return "success" if outcome.right is not wrong else "failure"


def checked(
    world: World, task: SimulatedTask, outcome: SimulatedOutcome, errors: float, person: str = "first"
) -> Polarity:
    """Return the verdict of a person who errs in this share of cases; of two persons, each has their own luck."""
    wrong = draw("person", person, *world.key, task.id) < errors
    return "success" if outcome.right is not wrong else "failure"


def lesson_of(task: SimulatedTask, outcome: SimulatedOutcome, verdict: Polarity) -> Lesson:
    """Return the lesson of a run under a verdict: the move that it made."""
    return Lesson(verdict, task.family, outcome.move, task.id)


def written(world: World, task: SimulatedTask, lesson: Lesson) -> Item:
    """Return a lesson as an item, in words of its own or as a near duplicate of the others that say the same.

    No two have the same words, because an item that an extraction repeats word by word would collapse under every
    policy.
    """
    advice = MOVES[lesson.move] if lesson.polarity == "success" else f"Do not {MOVES[lesson.move]}"
    own = [world.own_word(task.family, index) for index in range(6)]
    free = [world.free_word(task.id, index) for index in range(4)]
    if draw("loose", *world.key, task.id) < world.assumptions.loose:
        title = f"{' '.join(task.own)} ({task.id}): {advice}"
        content = f"Seen in: {task.question} There {advice}. {' '.join(free)}"
    else:
        clan = [world.clan_word(task.family, index) for index in range(3)]
        title = f"{' '.join(sorted(own[:2]))}: {advice}"
        content = f"Questions about {' '.join(own[:4])} and {' '.join(clan)}: {advice}. {' '.join(free[:2])}"
    return Item.make(title, content, lesson.polarity)
