"""The record of a run: each step is appended as it happens, and a rerun reads steps and handles back from the events.

A rerun makes the same requests if it provides:

- The same task, context, limits, tool policy and executor, and the bank as it was before the run. Prompts hold these,
  and nothing of the machine, the time or the process.
- The same handles, because tools return their keys, which so get into prompts: `recorded_keys`.
- The same outcomes of code: `recorded_steps`, for a `RecordedInterpreter`.
- The models' answers: `lm_called` events by request key. Parallel sub-calls are recorded in the order in which they
  ended, so those of one step must be compared in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, RBankError
from rbank_es.events import Event, LmCalled, RunFinished, StepTaken, ToolCalled
from rbank_es.events.codec import encodable
from rbank_es.events.redaction import redact_event
from rbank_es.executors.executor import RunResult, RunStep, submitted_fields
from rbank_es.sandbox.step_outcome import ERROR, LOSSES, Kind, Measures, RecordedCall, RecordedStep

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.runtime.run_meter import Excess
    from rbank_es.tools.runtime.toolbox import Toolbox


class RunStopped(Exception):
    """The end of a run that can't go on. `code` is stable, for programs."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class Recorder:
    """The recorder of one run's steps and end. It sets the current step of tools and models.

    `steps` are those that were recorded.
    """

    def __init__(self, bank: Bank, run: str, tools: Toolbox, *, clock: Callable[[], float] = time.perf_counter) -> None:
        """Record in `bank` as part of `run`; `clock` returns seconds."""
        self.bank, self.run, self.tools = bank, run, tools
        self.steps: list[RunStep] = []
        self._lms: Lms | None = None
        self._meter = tools.session.meter
        self._bound: str | None = None
        self._clock = clock
        self._began = clock()

    def begin(self, lms: Lms) -> None:
        """Begin the run with these models."""
        self._lms = lms
        lms.calls.on_record = self._meter.wrote
        self._meter.begin()
        self._began = self._clock()

    def next_step(self) -> int:
        """Begin a step, and return its index, from 1, which is recorded with calls of tools and models.

        Raises `RunStopped` where an event of this run could not be recorded, no more calls may be made, or a bound of
        the run is spent: look at `spent` before.
        """
        self._check()
        spent = self.spent
        if spent is not None:
            self._bound = spent.bound
            raise RunStopped("bound_spent", spent.message)
        index = len(self.steps) + 1
        self._set_step(index)
        return index

    def after_steps(self) -> None:
        """End the last step, because a limit is reached: later calls belong to none.

        Raises `RunStopped` where an event of this run could not be recorded, or no more calls may be made.
        """
        self._check()
        spent = self.spent
        self._bound = spent.bound if spent is not None else "iterations"
        self._set_step(None)

    def begin_code(self) -> float:
        """Begin the time of the step's code and tools, because the model has replied; return the seconds it has."""
        self._meter.begin_code()
        return self._meter.step_left_s

    @property
    def spent(self) -> Excess | None:
        """The bound of the run that is spent, so that no further step may begin; None if there is room for one."""
        return self._meter.spent

    def step(self, step: RunStep) -> None:
        """Record a step; it is on disk on return. Raises `RunStopped` if it, or a call in it, can't be recorded."""
        event = StepTaken(
            run=self.run,
            index=step.index,
            prompt_chars=self._lms.calls.prompt_chars if self._lms is not None else None,
            stdout_chars=step.measures.stdout_chars,
            variables_n=step.measures.variables_n,
            variables_chars=step.measures.variables_chars,
            variable_types=step.measures.variable_types,
            error_code=step.fault,
            reasoning=encodable(step.reasoning) or None,
            code=encodable(step.code) or None,
            output=encodable(step.output),
        )
        try:
            # Redacted, because code can print a key of the environment that a tool returned.
            event = redact_event(event)
            self.bank.append(event)
        except (RBankError, OSError) as error:
            raise RunStopped("not_recorded", f"step {step.index} could not be recorded: {error}") from error
        self._meter.wrote(event)
        self.steps.append(step)
        self._check()

    def finished(self, result: RunResult) -> RunResult:
        """Record the end, and return the result with its steps. If that can't be recorded, the run failed."""
        self._set_step(None)
        result = msgspec.structs.replace(result, iterations=len(self.steps), steps=tuple(self.steps), bound=self._bound)
        try:
            self.bank.append(redact_event(self._end(result)))
        except (RBankError, OSError) as error:
            kept = msgspec.structs.replace(result, answer="", sparql="", evidence={}, outcome="failed")
            reason = result.error or f"the end of the run could not be recorded: {error}"
            return msgspec.structs.replace(kept, error_code="not_recorded", error=reason)
        return result

    def _end(self, result: RunResult) -> RunFinished:
        # A failed run has no answer, which differs from an empty one.
        answered = result.outcome != "failed"
        return RunFinished(
            run=self.run,
            outcome=result.outcome,
            bound=result.bound,
            iterations=result.iterations,
            answer_chars=len(result.answer) if answered else None,
            duration_s=max(0.0, round(self._clock() - self._began, 6)),
            error_code=result.error_code,
            answer=result.answer if answered else None,
            sparql=result.sparql if answered else None,
            evidence=_json(result.evidence) if answered else None,
            error=encodable(result.error)[: limits.ERROR_CHARS] if result.error is not None else None,
        )

    def _set_step(self, index: int | None) -> None:
        self.tools.session.step = index
        self._meter.begin_step(index)
        if self._lms is not None:
            self._lms.calls.step = index

    def _check(self) -> None:
        if self.tools.session.unrecorded:
            error = self.tools.session.unrecorded[0]
            raise RunStopped("not_recorded", f"a call of a tool could not be recorded: {error}") from error
        broken = self._lms.calls.broken if self._lms is not None else None
        if broken is not None:
            raise RunStopped(broken.code, broken.message) from broken


def _json(value: Mapping[str, object]) -> str:
    return msgspec.json.encode(value).decode()


FAILED: dict[str, Kind] = {
    "raised": "error",
    "syntax": "syntax",
    "refused": "refused",
    "no_sandbox": "exhausted",
    **dict.fromkeys(LOSSES, "lost"),
}
"""Outcomes of code that failed, by the `error_code` of its step."""


def recorded_keys(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the keys of the handles that a run's tools returned, in order, for `build_tools(new_id=...)`."""
    return tuple(event.id for event in events if isinstance(event, ToolCalled) and event.result is not None)


def recorded_steps(events: Iterable[Event]) -> tuple[RecordedStep, ...]:
    """Return the steps of a run that ran code, with their tool calls and sub-calls, for a `RecordedInterpreter`.

    Their output is what the agent was shown, so a replayed step has the same event. Loads dspy. Raises `BadInput`
    where a text was erased, or arguments were too long to be kept.
    """
    events = tuple(events)
    made: list[RecordedStep] = []
    calls: list[RecordedCall] = []
    for event in events:
        if isinstance(event, StepTaken):
            if _ran(event):
                made.append(_step(event, tuple(calls)))
            calls = []
        elif isinstance(event, RunFinished):
            made[-1:] = [_last(each, event) for each in made[-1:]]
        else:
            calls += _calls(event)
    return tuple(made)


def _ran(step: StepTaken) -> bool:
    """Return whether the code of a step reached the interpreter."""
    from rbank_es.executors.code_step import code_of

    try:
        return bool(code_of(_text(step.code)).strip())
    except SyntaxError:
        return False


def _step(step: StepTaken, calls: tuple[RecordedCall, ...]) -> RecordedStep:
    fault, output = step.error_code or "", _text(step.output)
    return RecordedStep(
        code=_text(step.code),
        kind=FAILED.get(fault, "output"),
        loss=LOSSES.get(fault),
        output=output.removeprefix(ERROR) if fault in FAILED else output,
        calls=calls,
        measures=_measures(step),
    )


def _last(step: RecordedStep, end: RunFinished) -> RecordedStep:
    """Return the last step that ran code, whose outcome the end of the run tells from that of other steps."""
    if end.outcome == "submitted" and step.kind == "output":
        return msgspec.structs.replace(step, kind="final", output=submitted_fields(step.output) or "{}")
    if end.error_code == "sandbox_exhausted" and step.kind == "lost":
        return msgspec.structs.replace(step, kind="exhausted")
    return step


def _measures(step: StepTaken) -> Measures:
    return Measures(
        stdout_chars=step.stdout_chars,
        variables_n=step.variables_n,
        variables_chars=step.variables_chars,
        variable_types=step.variable_types,
    )


def _calls(event: Event) -> list[RecordedCall]:
    if isinstance(event, ToolCalled):
        if "arguments" in event.previews:
            raise BadInput(f"the arguments of {event.call} were too long to be kept, so its step can't be played")
        return [RecordedCall(tool=event.tool, arguments=_text(event.arguments) or "{}")]
    if isinstance(event, LmCalled) and event.role == "sub" and event.attempt in (None, 1):
        # Retries are left out, because the recorded model repeats them by itself.
        return [RecordedCall(tool="llm_query", arguments=msgspec.json.encode({"prompt": _prompt(event)}).decode())]
    return []


def _prompt(call: LmCalled) -> str:
    request = msgspec.json.decode(_text(call.request))
    parts = request["messages"][-1]["parts"]
    return "".join(part.get("text", "") for part in parts)


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput("a text of this run was erased, so it can't be played")
    return value
