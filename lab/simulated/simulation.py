"""One simulation of a learner: tasks one after the other, each with what the bank gives to it and what it teaches.

Skill is the solver's *probability* of a right answer, averaged over siblings of the tasks that are never learned from:
no coin is thrown for it, so it varies four times less than a share of successes would. It is measured without
recording anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from rbank_es.events.items import Polarity
from rbank_es.lab.simulated.learner_memory import LearnerMemory
from rbank_es.lab.simulated.solver import (
    JudgeErrors,
    Lesson,
    SimulatedOutcome,
    checked,
    judged,
    lesson_of,
    skill,
    solve,
    written,
)
from rbank_es.lab.simulated.world import Share, SimulatedTask, World, draw
from rbank_es.limits import experiment_limits

HURT = 0.02
"""A family whose skill is lower by more than this than without memory is hurt. Below, chance would do: our choice."""

RANKING: dict[str, dict[str, Any]] = {"retrieval": {"name": "bm25", "version": 1}}
"""The policy under which the studies in `docs/studies` were made, now no longer that of a new bank."""

Done = Annotated[int, Meta(ge=0, le=experiment_limits.SIMULATED_TASKS)]
Pick = Literal["random", "review"]


class VerdictCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check of verdicts by a person, after `at` tasks.

    Up to `verdicts` of those that nobody checked yet (None: all), picked at `random` or as `review` proposes. The
    person errs in the share `errors`. `relearn`: a new lesson is drawn from each run whose verdict changed. `second`:
    another person, as careful, checks what the first one changed, and overrules back. `vouch`: the person looks at the
    lessons that left, and restores those that seem right, with the same share of errors.
    """

    at: Done
    verdicts: Annotated[int, Meta(ge=0)] | None = None
    pick: Pick = "random"
    errors: Share = 0.0
    relearn: bool = False
    second: bool = False
    vouch: bool = False


class SimulationPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The condition of a simulation. `policies` are tables by kind, as `Bank.set_policies` takes them.

    The judge errs by `judge`; from task `judge_changes_at` on (0: never) by `later_judge`. After `emptied_at` tasks (0:
    never) it goes on with an empty bank. From task `measured_from` on, skill is measured every so many tasks (0: at the
    end alone), and before and after what happens between two tasks. `measured_again`: at the end, skill is measured on
    the tasks that were learned from too, with `leave_one_out` without the lessons drawn from each.
    """

    memory: bool = True
    policies: dict[str, dict[str, Any]] = field(default_factory=lambda: dict(RANKING))
    judge: JudgeErrors = JudgeErrors()
    judge_changes_at: Done = 0
    later_judge: JudgeErrors = JudgeErrors()
    checks: tuple[VerdictCheck, ...] = ()
    emptied_at: Done = 0
    measured_from: Done = 0
    measured_every: Done = 0
    measured_again: bool = False
    leave_one_out: bool = True


class Simulation(Struct, frozen=True, kw_only=True):
    """The results of a simulation. Skills are probabilities, 0 to 1, on unseen tasks.

    `skill` at the end, `without` memory, `curve` as pairs (tasks done, skill); `families` are the gains over no memory,
    from the hardest family to the easiest; `training` is the mean skill on the tasks while they were done.
    `judged_right` is the share of the judge's verdicts that were right, `wrong_lessons` that of the lessons given at
    the end that are wrong for the task, None if none was given. `again` is the skill on the tasks that were
    learned from, None unless it was measured. `checked` and `overruled` count verdicts, `items` the
    active items.
    """

    skill: float
    without: float
    families: tuple[float, ...]
    curve: tuple[tuple[int, float], ...]
    training: float
    judged_right: float
    wrong_lessons: float | None
    checked: int
    overruled: int
    items: int
    again: float | None = None

    @property
    def gain(self) -> float:
        """The skill over that without memory."""
        return self.skill - self.without

    @property
    def hurt(self) -> float:
        """The share of families that memory hurts."""
        return sum(gain < -HURT for gain in self.families) / len(self.families)


class _Run(Struct):
    """A run of a simulation, with the verdict that its judge or the last person gave."""

    task: SimulatedTask
    outcome: SimulatedOutcome
    judged: Polarity
    verdict: Polarity


def simulate(world: World, plan: SimulationPlan, new_memory: Callable[[], LearnerMemory]) -> Simulation:
    """Simulate a learner in a world. `new_memory` makes its empty bank, and another one if that is emptied."""
    work = _Work(world, plan, new_memory)
    try:
        return work.whole()
    finally:
        work.memory.close()


class _Work:
    def __init__(self, world: World, plan: SimulationPlan, new_memory: Callable[[], LearnerMemory]) -> None:
        self.world, self.plan, self.new_memory = world, plan, new_memory
        self.memory = new_memory()
        self.lessons: dict[str, tuple[Lesson, SimulatedTask]] = {}
        self.runs: dict[str, _Run] = {}
        self.checked: set[str] = set()
        self.curve: list[tuple[int, float]] = []
        self.overruled = self.judged_right = 0
        self.training = 0.0

    def whole(self) -> Simulation:
        count = len(self.world.tasks)
        for done, task in enumerate(self.world.tasks):
            self._between(done)
            self._do(task, done)
        self._between(count)
        skills, wrong = self._skills()
        without = {task.id: skill(self.world, task, ()) for task in self.world.unseen}
        return Simulation(
            skill=_mean(list(skills.values())),
            without=_mean(list(without.values())),
            families=self._gains(skills, without),
            curve=(*self.curve, (count, _mean(list(skills.values())))),
            training=self.training / count,
            judged_right=self.judged_right / count,
            wrong_lessons=wrong,
            checked=len(self.checked),
            overruled=self.overruled,
            items=self.memory.active(),
            again=self._again() if self.plan.measured_again else None,
        )

    # ---------------------------------------------------------------- a task

    def _do(self, task: SimulatedTask, done: int) -> None:
        found = self.memory.found(task.question)
        lessons = self._told(found.packed.items)
        self.training += skill(self.world, task, lessons)
        outcome = solve(self.world, task, lessons)
        changes = self.plan.judge_changes_at
        errors = self.plan.later_judge if changes and done >= changes else self.plan.judge
        verdict = judged(self.world, task, outcome, errors)
        self.judged_right += outcome.right is (verdict == "success")
        self.runs[task.id] = _Run(task, outcome, verdict, verdict)
        self.memory.run(task, found, outcome, verdict)
        if self.plan.memory:
            self._learn(task, outcome, verdict)

    def _learn(self, task: SimulatedTask, outcome: SimulatedOutcome, verdict: Polarity) -> None:
        lesson = lesson_of(task, outcome, verdict)
        item = written(self.world, task, lesson)
        self.lessons[item.id] = lesson, task
        self.memory.learn(task.id, verdict, item)

    def _told(self, items: Sequence[str]) -> list[Lesson]:
        return [self.lessons[id][0] for id in items] if self.plan.memory else []

    # ---------------------------------------------------------------- between two tasks

    def _between(self, done: int) -> None:
        plan = self.plan
        checks = [each for each in plan.checks if each.at == done]
        emptied = bool(plan.emptied_at) and plan.emptied_at == done
        happens = bool(checks) or emptied
        if happens or self._is_measured(done):
            self._measure(done)
        if emptied:
            self.memory.close()
            self.memory, self.runs = self.new_memory(), {}
        for check in checks:
            self._check(check)
        if happens:
            self._measure(done)

    def _is_measured(self, done: int) -> bool:
        # At the end it is measured anyway.
        begun = self.plan.measured_every and self.plan.measured_from <= done < len(self.world.tasks)
        return bool(begun) and done % self.plan.measured_every == 0

    def _measure(self, done: int) -> None:
        if not self.plan.measured_every:
            return
        skills, _ = self._skills()
        self.curve.append((done, _mean(list(skills.values()))))

    def _check(self, check: VerdictCheck) -> None:
        runs = self._picked(check)
        self.checked.update(runs)
        given: dict[str, Polarity] = {run: self._opinion(run, check) for run in runs}
        changed = [run for run, verdict in given.items() if verdict != self.runs[run].verdict]
        self.overruled += len(changed)
        left = [change.id for change in self._overrule(given).left]
        if check.second:
            second: dict[str, Polarity] = {run: self._opinion(run, check, "second") for run in changed}
            self._overrule(second)
        if check.vouch:
            self.memory.restore([id for id in left if self._seems_right(id, check)])
        for run in changed if check.relearn else ():
            known = self.runs[run]
            # A verdict that was changed back to the judge's has its lesson already.
            if known.verdict != known.judged:
                self._learn(known.task, known.outcome, known.verdict)

    def _picked(self, check: VerdictCheck) -> list[str]:
        if check.pick == "review":
            # Those of which nothing active rests on one verdict alone aren't proposed.
            runs = [run for run in self.memory.doubtful() if run not in self.checked]
        else:
            left = (run for run in self.runs if run not in self.checked)
            # By a draw for each run, so that a person picks the same runs under all conditions.
            runs = sorted(left, key=lambda run: draw("pick", *self.world.key, run))
        return runs[: check.verdicts]

    def _opinion(self, run: str, check: VerdictCheck, person: str = "first") -> Polarity:
        known = self.runs[run]
        return checked(self.world, known.task, known.outcome, check.errors, person)

    def _overrule(self, given: Mapping[str, Polarity]) -> Any:
        for run, verdict in given.items():
            self.runs[run].verdict = verdict
        return self.memory.overrule(given)

    def _seems_right(self, item: str, check: VerdictCheck) -> bool:
        lesson, task = self.lessons[item]
        wrong = draw("vouch", *self.world.key, task.id) < check.errors
        return lesson.is_right(self.world) is not wrong

    # ---------------------------------------------------------------- the skill

    def _skills(self) -> tuple[dict[str, float], float | None]:
        """Return the skill on each unseen task, and the share of wrong lessons among those given to them."""
        skills: dict[str, float] = {}
        right: list[bool] = []
        for task in self.world.unseen:
            lessons = self._told(self.memory.found(task.question).packed.items) if self.plan.memory else []
            skills[task.id] = skill(self.world, task, lessons)
            needed = self.world.families[task.family].right
            right += [(lesson.move == needed) is (lesson.polarity == "success") for lesson in lessons]
        return skills, 1 - sum(right) / len(right) if right else None

    def _again(self) -> float:
        """Return the mean skill on the tasks that were learned from."""
        skills = []
        for task in self.world.tasks:
            own = task.id if self.plan.leave_one_out else None
            lessons = self._told(self.memory.found(task.question, own).packed.items)
            skills.append(skill(self.world, task, lessons))
        return _mean(skills)

    def _gains(self, skills: Mapping[str, float], without: Mapping[str, float]) -> tuple[float, ...]:
        of_family: dict[int, list[float]] = {}
        for task in self.world.unseen:
            of_family.setdefault(task.family, []).append(skills[task.id] - without[task.id])
        hardest_first = sorted(self.world.families, key=lambda family: family.chance)
        return tuple(_mean(of_family[family.number]) for family in hardest_first)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
