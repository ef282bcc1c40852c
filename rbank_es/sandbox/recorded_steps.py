"""What a rerun takes from a run's events: the outcomes of its code, and the keys of its handles."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events import Event, LmCalled, RunFinished, StepTaken, ToolCalled
from rbank_es.executors.submission import submitted_fields
from rbank_es.sandbox.step_outcome import ERROR, Kind, Measures, RecordedCall, RecordedStep

FAILED: dict[str, Kind] = {
    "raised": "error",
    "syntax": "syntax",
    "refused": "refused",
    "lost": "lost",
    "exhausted": "exhausted",
}
"""How code came out, by the `error_code` of its step."""


def recorded_keys(events: Iterable[Event]) -> tuple[str, ...]:
    """The keys of the handles that a run's tools gave out, in order: see `build_tools(new_id=...)`."""
    return tuple(event.id for event in events if isinstance(event, ToolCalled) and event.result is not None)


def recorded_steps(events: Iterable[Event]) -> tuple[RecordedStep, ...]:
    """The steps of a run in which code ran, for a `RecordedInterpreter`, with the calls of tools and the sub-calls made
    in each. Steps that held no code are none of an interpreter. Loads dspy.

    A step comes out with what the agent was shown of it: played again, its event is the same. Raises `BadInput` where
    a text was erased, or arguments were too long to be kept.
    """
    events = tuple(events)
    submitted = any(isinstance(event, RunFinished) and event.outcome == "submitted" for event in events)
    last = max((event.index for event in events if isinstance(event, StepTaken)), default=0)
    made: list[RecordedStep] = []
    calls: list[RecordedCall] = []
    for event in events:
        if isinstance(event, StepTaken):
            if _ran(event):
                made.append(_step(event, tuple(calls), "final" if submitted and event.index == last else "output"))
            calls = []
        else:
            calls += _calls(event)
    return tuple(made)


def _ran(step: StepTaken) -> bool:
    """Whether the code of a step reached the interpreter."""
    from rbank_es.executors.code_step import code_of

    try:
        return bool(code_of(_text(step.code)).strip())
    except SyntaxError:
        return False


def _step(step: StepTaken, calls: tuple[RecordedCall, ...], otherwise: Kind) -> RecordedStep:
    """The step; how it came out where it did not fail is `otherwise`."""
    kind, output = FAILED.get(step.error_code or "", otherwise), _text(step.output)
    if kind == "final":
        output = submitted_fields(output) or "{}"
    if kind in FAILED.values():
        output = output.removeprefix(ERROR)
    return RecordedStep(code=_text(step.code), kind=kind, output=output, calls=calls, measures=_measures(step))


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
        return [RecordedCall(tool="llm_query", arguments=msgspec.json.encode({"prompt": _prompt(event)}).decode())]
    return []


def _prompt(call: LmCalled) -> str:
    """The prompt of a sub-call: the words of its one message."""
    request = msgspec.json.decode(_text(call.request))
    parts = request["messages"][-1]["parts"]
    return "".join(part.get("text", "") for part in parts)


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput("a text of this run was erased, so it can't be played")
    return value
