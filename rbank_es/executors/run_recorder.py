"""The record of a run: each step an event as it happens, so that a run that dies keeps all it did.

What a rerun from these events must provide, to get the same requests and so the same keys of requests:

- The same task, context, limits, tool policy and executor, and the bank as it was before the run: prompts hold these,
  and nothing of the machine, the time or the process.
- The same handles. A handle's key is an id that is made once for each payload, and it is in what a tool returns and so
  in prompts. `playback.recorded_keys` has them in order, for `build_tools(new_id=...)`.
- The same outcomes of code: `playback.recorded_steps` makes them out of the events, for a `RecordedInterpreter`.
- The models' answers: `lm_called` events by key of request. Sub-calls that were made side by side are recorded in the
  order in which they ended, so those of one step are to be compared in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.errors import RBankError
from rbank_es.events import RunFinished, StepTaken
from rbank_es.events.redaction import redact_event
from rbank_es.executors.executor import RunResult, Step
from rbank_es.tools.runtime.encoder import text_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.router import Lms
    from rbank_es.tools.runtime.toolbox import Toolbox


class RunStopped(Exception):
    """The run can't go on. `code` is stable, for programs."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class Recorder:
    """Writes the events of one run's steps and end, and tells tools and models which step is being made.

    One run, one recorder. `steps` are those that were recorded.
    """

    def __init__(self, bank: Bank, run: str, tools: Toolbox, *, clock: Callable[[], float] = time.perf_counter) -> None:
        """A recorder of `run`; `clock` measures how long it takes, in seconds."""
        self.bank, self.run, self.tools = bank, run, tools
        self.steps: list[Step] = []
        self._lms: Lms | None = None
        self._clock = clock
        self._began = clock()

    def begin(self, lms: Lms) -> None:
        """The run begins with these models."""
        self._lms = lms
        self._began = self._clock()

    def next_step(self) -> int:
        """A step begins: its index, from 1, which calls of tools and models are recorded with from now on.

        Raises `RunStopped` where something of this run could not be recorded, or a model may not be asked any more.
        """
        self._check()
        index = len(self.steps) + 1
        self._set_step(index)
        return index

    def after_steps(self) -> None:
        """No more steps come: what is still asked belongs to none. Raises `RunStopped` as `next_step`."""
        self._check()
        self._set_step(None)

    def step(self, step: Step) -> None:
        """Record a step, on disk when this returns. Raises `RunStopped` where it, or a call in it, can't be."""
        event = StepTaken(
            run=self.run,
            index=step.index,
            prompt_chars=self._lms.last_prompt_chars if self._lms is not None else None,
            stdout_chars=step.measures.stdout_chars,
            variables_n=step.measures.variables_n,
            variables_chars=step.measures.variables_chars,
            variable_types=step.measures.variable_types,
            error_code=step.fault,
            reasoning=text_of(step.reasoning) or None,
            code=text_of(step.code) or None,
            output=text_of(step.output),
        )
        try:
            self.bank.append(redact_event(event))
        except (RBankError, OSError) as error:
            raise RunStopped("not_recorded", f"step {step.index} could not be recorded: {error}") from error
        self.steps.append(step)
        self._check()

    def finished(self, result: RunResult) -> RunResult:
        """Record the end; the result with its steps. Where that can't be recorded, the run failed."""
        self._set_step(None)
        result = msgspec.structs.replace(result, iterations=len(self.steps), steps=tuple(self.steps))
        try:
            self.bank.append(redact_event(self._end(result)))
        except (RBankError, OSError) as error:
            kept = msgspec.structs.replace(result, answer="", sparql="", evidence={}, outcome="failed")
            told = result.error or f"the end of the run could not be recorded: {error}"
            return msgspec.structs.replace(kept, error_code="not_recorded", error=told)
        return result

    def _end(self, result: RunResult) -> RunFinished:
        answered = result.outcome != "failed"
        return RunFinished(
            run=self.run,
            outcome=result.outcome,
            iterations=result.iterations,
            answer_chars=len(result.answer) if answered else None,
            duration_s=max(0.0, round(self._clock() - self._began, 6)),
            error_code=result.error_code,
            answer=result.answer if answered else None,
            sparql=result.sparql if answered else None,
            evidence=_json(result.evidence) if answered else None,
            error=text_of(result.error)[: limits.ERROR_CHARS] if result.error is not None else None,
        )

    def _set_step(self, index: int | None) -> None:
        self.tools.desk.step = index
        if self._lms is not None:
            self._lms.step = index

    def _check(self) -> None:
        if self.tools.desk.unrecorded:
            error = self.tools.desk.unrecorded[0]
            raise RunStopped("not_recorded", f"a call of a tool could not be recorded: {error}") from error
        broken = self._lms.broken if self._lms is not None else None
        if broken is not None:
            raise RunStopped(broken.code, broken.message) from broken


def _json(value: Mapping[str, object]) -> str:
    return msgspec.json.encode(value).decode()
