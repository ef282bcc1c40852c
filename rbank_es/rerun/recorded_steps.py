"""Steps and handles of a run, read back from its events.

A rerun makes the same requests if it provides:

- The same task, context, limits, tool policy and executor, and the bank as it was before the run. Prompts hold these,
  and nothing of the machine, the time or the process.
- The same handles, because tools return their keys, which so get into prompts: `recorded_keys`.
- The same outcomes of code: `recorded_steps`, for a `RecordedInterpreter`.
- The models' answers: `lm_called` events by request key. Parallel sub-calls are recorded in the order in which they
  ended, so those of one step must be compared in any order.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events import Event, LmCalled, RunFinished, StepTaken, ToolCalled
from rbank_es.executors.submission import submitted_fields
from rbank_es.sandbox.step_outcome import ERROR, LOSSES, Kind, Measures, RecordedCall, RecordedStep

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
        # The calls that a step made are recorded before the step itself.
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
    from rbank_es.executors.agent_step import code_of

    try:
        return bool(code_of(_text(step.code)).strip())
    except SyntaxError:
        # A reply without readable code ran nothing.
        return False


def _step(step: StepTaken, calls: tuple[RecordedCall, ...]) -> RecordedStep:
    fault, output = step.error_code or "", _text(step.output)
    return RecordedStep(
        code=_text(step.code),
        kind=FAILED.get(fault, "output"),
        loss=LOSSES.get(fault),
        # The executor puts this prefix before the interpreter's words, and will do so again.
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
