"""Executors: what each can do, and their names.

    rlm         code, step by step, with the whole history in every prompt (dspy.RLM)
    react       no code: one call of a tool a step (dspy.ReAct)
    scratchpad  code in a namespace that lasts, with only the latest steps whole in the prompt

All have the same tools, the same context, the same limits, and record the same events. Nothing here loads dspy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rbank_es.errors import BadInput

if TYPE_CHECKING:
    from rbank_es.executors.executor import Interpreters, RunLimits, RunResult
    from rbank_es.executors.run_recorder import Recorder
    from rbank_es.models.router import Lms
    from rbank_es.tools.runtime.toolbox import Toolbox

EXECUTORS = ("rlm", "react", "scratchpad")


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
    from rbank_es.models.serialization import load_dspy

    load_dspy()
    if name == "react":
        from rbank_es.executors.react import React

        return React(temperature=temperature, rollout_id=rollout_id)
    if name == "rlm":
        from rbank_es.executors.rlm import Rlm

        return Rlm(interpreters, temperature=temperature, rollout_id=rollout_id)
    from rbank_es.executors.scratchpad import Scratchpad

    return Scratchpad(interpreters, temperature=temperature, rollout_id=rollout_id)
