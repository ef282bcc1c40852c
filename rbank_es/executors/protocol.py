"""Executors: what each takes, what each gives back, and their names.

    rlm         code, step by step, with the whole history in every prompt (dspy.RLM)
    react       no code: one call of a tool a step (dspy.ReAct)
    scratchpad  code in a namespace that lasts, with only the latest steps whole in the prompt

All have the same tools, the same context, the same limits, and record the same events. Where a prompt is too long for
the model, all leave out earlier steps. Nothing here loads dspy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from rbank_es import limits as lim
from rbank_es.errors import BadInput
from rbank_es.events.run import Outcome

if TYPE_CHECKING:
    from rbank_es.executors.recorder import Recorder
    from rbank_es.lms.lms import Lms
    from rbank_es.tools.toolbox import Toolbox

Interpreters = Callable[[], Any]
"""Makes an interpreter for one run, as dspy knows them (`CodeInterpreter`): a `SandboxPool`, for one. Whoever takes one
shuts it down. May have `execution_instructions`, which the agent is told."""

Fault = Literal[
    "unreadable", "no_code", "syntax", "raised", "lost", "exhausted", "refused", "unknown_tool", "tool_failed"
]
"""Why a step came to nothing: the reply could not be read, or held no code; its code can't be parsed, raised, cost the
session, or the last session; its submission was refused; no such tool; the tool answered with an error."""

EXECUTORS = ("rlm", "react", "scratchpad")


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
    what the agent is shown of it, whole. `stdout_chars` counts what was printed, and the last value, as far as the
    sandbox kept them; `fault` says why it came to nothing, if it did.
    """

    index: int
    reasoning: str = ""
    code: str = ""
    output: str = ""
    stdout_chars: int = 0
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


class Executor(Protocol):
    """Sets an agent to a task, and lets it work until it submits, its iterations are used up, or something fails."""

    name: str

    def execute(
        self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits
    ) -> RunResult:
        """Run to the end, and record it: every step as it happens, and how it ended. Doesn't raise for what an agent,
        a model, a sandbox or the bank does; whatever interrupts it (`KeyboardInterrupt`) goes on up.

        `context` is what the agent is told before it begins; it stands in the prompt once.
        """
        ...


def executor_named(
    name: str,
    *,
    interpreters: Interpreters | None = None,
    temperature: float | None = None,
    rollout_id: int | None = None,
) -> Executor:
    """The executor of that name: rlm, react or scratchpad. Loads dspy. Raises `BadInput` for another name.

    Args:
        interpreters: where the agent's code runs; None for a sandbox that each run starts.
        temperature: of the agent's calls, where it isn't that of the model's choice.
        rollout_id: recorded with the agent's calls, so that the samples of rollouts are told apart.
    """
    if name not in EXECUTORS:
        raise BadInput(f"no executor is called {name!r}; there are: {', '.join(EXECUTORS)}")
    from rbank_es.lms.serialising import load_dspy

    load_dspy()
    if name == "react":
        from rbank_es.executors.react import React

        return React(temperature=temperature, rollout_id=rollout_id)
    if name == "rlm":
        from rbank_es.executors.rlm import Rlm

        return Rlm(interpreters, temperature=temperature, rollout_id=rollout_id)
    from rbank_es.executors.scratchpad import Scratchpad

    return Scratchpad(interpreters, temperature=temperature, rollout_id=rollout_id)
