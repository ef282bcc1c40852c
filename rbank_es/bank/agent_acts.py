"""Acts of agents of one's own on a bank: they record their runs, and learn from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from rbank_es.bank.verdict_acts import VerdictActs
from rbank_es.system.registry import Registry

# Loaded when used: who records needs no policies, who only asks no recorder.
if TYPE_CHECKING:
    from rbank_es.bank.agent_run import AgentRun
    from rbank_es.law.lessons_to_draw import LateLessons


class LeftRun(Struct, frozen=True, kw_only=True):
    """A run from which there is nothing to draw, and why."""

    run: str
    reason: str


class Learned(Struct, frozen=True, kw_only=True):
    """What was learned: the lessons that were drawn with what was decided about each, and the runs that were left."""

    bank: str
    lessons: tuple[LateLessons, ...] = ()
    left: tuple[LeftRun, ...] = ()

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of all candidates that were drawn."""
        return tuple(title for each in self.lessons for title in each.titles)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why nothing was drawn, or less than the model gave, for each run where that is so."""
        drawn = (f"{', '.join(each.runs)}: {each.reason}" for each in self.lessons if each.reason)
        return (*drawn, *(f"{each.run}: {each.reason}" for each in self.left))


_HOMES: Registry[Any] = Registry("way to learn", {"learn": "rbank_es.agents.learned_lessons:learn"})


class AgentActs(VerdictActs):
    """The part of `Bank` for agents of one's own."""

    def record(
        self,
        task: str,
        *,
        model: str | None = None,
        task_id: str | None = None,
        level: int | None = None,
        family: str | None = None,
        domain: str | None = None,
        executor: str = "recorder",
        scripted: bool = False,
    ) -> AgentRun:
        """Return a run of an agent on a task, to be recorded in a `with`. `bank.run(id)` asks, `record` records.

        Args:
            task: the question, as the agent gets it.
            model: name of the agent's model.
            task_id: id of the task, the same for each run of it.
            level: difficulty of the task, 1 to 5; the bank's policy may leave out items that only harder ones taught.
            family: tasks of one family are solved in one way.
            domain: what the task is about; the bank's policy may prefer its items, and what is learned has it.
            executor: name of the loop that works on it.
            scripted: whether a script stands in for the model.

        Raises `BadInput` for a task that is no text, or a fact that no event can hold.
        """
        from rbank_es.bank.agent_run import AgentRun

        facts: dict[str, Any] = {
            "model": model,
            "task_id": task_id,
            "level": level,
            "family": family,
            "ontology": domain,
            "executor": executor,
            "scripted": scripted,
        }
        return AgentRun(self, task, facts)

    def learn(
        self,
        run: AgentRun | str | None = None,
        *,
        complete: Callable[[str], str] | None = None,
        lm: str | None = None,
        api_base: str | None = None,
    ) -> Learned:
        """Draw lessons from a judged run, or from all that are due, and let the bank's policies decide about them.

        Args:
            run: a run or its id; rollouts of its task are learned from together. None for all from which nothing that
                stands was drawn.
            complete: a function that returns a model's reply to a prompt.
            lm: the name of a model in its place: `openai/…`, or `script:FILE`.
            api_base: the URL of a server of one's own for it.

        The model reads the run as it was recorded, and its verdict with the reason. What is recorded is on disk when
        this returns, and a correction that was due is made. Raises `BadInput` unless there is one of `complete` and
        `lm`, and for a run that nobody decided about; `NotInBank`; `LmFailed` if every later call would fail too.
        """
        id = run if run is None or isinstance(run, str) else run.id
        return cast("Learned", _HOMES.get("learn")(self, id, complete, lm, api_base))
