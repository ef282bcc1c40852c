"""Attempts: runs as an extractor sees them, and what a judge said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import RunFinished, RunStarted
from rbank_es.events.run_events import Outcome
from rbank_es.extraction.trajectory import Step, told, trajectory_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task. `domain` is the id of the ontology that it was about."""

    task: str
    run: str = ""
    answer: str = ""
    sparql: str = ""
    outcome: Outcome = "submitted"
    error: str = ""
    domain: str | None = None
    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, result: Any, task: str) -> Attempt:
        """What can be told of a result by its attributes or keys: `answer`, `sparql`, `steps` or `trajectory`,
        `outcome` or `converged`, `run`, `error`, `domain`. What it is itself, if it is an `Attempt`.
        """
        if isinstance(result, Attempt):
            return msgspec.structs.replace(result, task=task)
        steps = told(result, "steps") or told(result, "trajectory") or ()
        converged = told(result, "converged") is not False
        return cls(
            task=task,
            run=_text(result, "run"),
            answer=_text(result, "answer"),
            sparql=_text(result, "sparql"),
            outcome=told(result, "outcome") or ("submitted" if converged else "forced_at_limit"),
            error=_text(result, "error"),
            domain=_text(result, "domain") or None,
            steps=tuple(Step.of(step, number) for number, step in enumerate(steps, 1)),
        )

    @property
    def empty(self) -> bool:
        """Whether the agent did nothing that could be learnt from."""
        return not (self.steps or self.answer.strip() or self.sparql.strip())

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.outcome == "failed":
            return f"it failed: {self.error or 'no reason was recorded'}"
        if self.outcome == "forced_at_limit":
            return "it used up its steps, and was made to answer"
        return "the agent submitted an answer"


def attempt_of(bank: Bank, run: str) -> Attempt:
    """A run as its events tell it; one that didn't finish counts as failed. Texts that were erased are empty.

    Raises `NotInBank` if no such run began.
    """
    events = list(bank.events(types={"run_started", "run_finished"}, run=run))
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    finished = next((event for event in reversed(events) if isinstance(event, RunFinished)), None)
    if started is None:
        raise NotInBank(run, bank.position)
    return Attempt(
        task=bank.text(started.task) or "",
        run=run,
        answer=_said(bank, finished, "answer"),
        sparql=_said(bank, finished, "sparql"),
        outcome=finished.outcome if finished else "failed",
        error=_said(bank, finished, "error") if finished else "the run did not finish",
        domain=started.ontology,
        steps=trajectory_of(bank, run),
    )


def _said(bank: Bank, finished: RunFinished | None, name: str) -> str:
    return (bank.text(getattr(finished, name)) or "") if finished else ""


def _text(result: Any, name: str) -> str:
    value = told(result, name)
    return value if isinstance(value, str) else ""


class Judgment(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict for learning. `learnable` is False where the run is no ground to learn from, though it succeeded: its
    query or answer names what the ontology doesn't have. `event` is the id of the event that records the verdict.
    """

    success: bool
    reason: str = ""
    learnable: bool = True
    event: str | None = None

    @classmethod
    def of(cls, given: Any, event: str | None = None) -> Judgment:
        """What can be told of a verdict by its attributes, or by its keys if it is a mapping.

        Raises `BadInput` without a `success` that is true or false, and for a verdict whose `purpose` is scoring:
        nothing is ever learnt from that.
        """
        if isinstance(given, Judgment):
            return given if event is None else msgspec.structs.replace(given, event=event)
        if told(given, "purpose") == "scoring":
            raise BadInput("a scoring judgment only measures; give the judgment that was made for learning")
        success, reason = told(given, "success"), told(given, "reason")
        if not isinstance(success, bool):
            raise BadInput("a judgment must say whether the run was a success: True or False")
        return cls(
            success=success,
            reason=reason if isinstance(reason, str) else "",
            learnable=told(given, "learnable") is not False,
            event=event,
        )
