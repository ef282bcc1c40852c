"""What a run of an agent may take, the steps it is made of, and how it ended. Nothing here loads dspy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from rbank_es import limits as lim
from rbank_es.errors import BadInput
from rbank_es.events.run_events import Outcome
from rbank_es.sandbox.step_outcome import NOTHING, Measures

Interpreters = Callable[[], Any]
"""Makes an interpreter for one run, as dspy knows them (`CodeInterpreter`): a `SandboxPool`, for one. Whoever takes one
shuts it down. May have `execution_instructions`, which the agent is told."""

Fault = Literal[
    "unreadable", "no_code", "syntax", "raised", "lost", "exhausted", "refused", "unknown_tool", "tool_failed"
]
"""Why a step came to nothing: the reply could not be read, or held no code; its code can't be parsed, raised, cost the
session, or the last session; its submission was refused; no such tool; the tool answered with an error."""


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may take. Raises `BadInput` for less than one iteration, or a number below 0.

    Args:
        iterations: steps; when they are used up, one more call asks for the answer.
        subcalls: prompts that the agent may send to the sub-model, batched or not.
        output_chars: what the agent is shown again of each earlier step's output.
        step_time_s: how long one step's code may run, beside its tools; for interpreters that the executor makes.
        history_entries: latest steps that the scratchpad shows whole.
    """

    iterations: int = lim.RUN_ITERATIONS
    subcalls: int = lim.RUN_SUBCALLS
    output_chars: int = lim.STEP_OUTPUT_CHARS
    step_time_s: float = lim.STEP_TIME_S
    history_entries: int = lim.HISTORY_ENTRIES

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.step_time_s <= 0:
            raise BadInput("a run needs at least one iteration, and time for it")
        if min(self.subcalls, self.output_chars, self.history_entries) < 0:
            raise BadInput("limits of a run can't be below 0")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step as it was recorded. `index` counts from 1.

    `code` is what ran; of `react`, the call of a tool as JSON; empty where the reply held nothing to run. `output` is
    what the agent is shown of it, whole. `measures` are what it printed and what the agent holds after it; `fault` says
    why it came to nothing, if it did.
    """

    index: int
    reasoning: str = ""
    code: str = ""
    output: str = ""
    measures: Measures = NOTHING
    fault: Fault | None = None


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended.

    `submitted`: the agent called SUBMIT. `forced_at_limit`: its iterations were used up, and one more call asked for
    the answer; where that failed, `error_code` says so and the answer is empty. `failed`: it ended otherwise.
    `error_code` is stable, for programs: the codes of `LmFailed` and `SandboxUnavailable`, and unreadable,
    sandbox_exhausted, sandbox_failed, replay_differs, not_recorded, unexpected.
    """

    run: str
    outcome: Outcome
    answer: str = ""
    sparql: str = ""
    evidence: dict[str, Any] = {}
    iterations: int = 0
    steps: tuple[Step, ...] = ()
    error_code: str | None = None
    error: str | None = None
