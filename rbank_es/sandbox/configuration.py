"""What a sandbox is given, and what it tells when a session was lost."""

from __future__ import annotations

import msgspec

from rbank_es import limits

EXECUTION_INSTRUCTIONS = (
    "Python 3.13 in a sandbox (WebAssembly): the standard library is there, but no files of the host, no network, no "
    "processes, no threads, no packages. Variables last from step to step. Of a step you see what it printed, and the "
    "value of its last expression. A step that takes too long or too much memory loses all variables."
)
"""What a model is told of the sandbox."""

SUB_AGENT_TOOL = "__dspy_construct__"
"""A tool that dspy.RLM registers before it installs its stand-in for dspy."""

NO_SUB_AGENTS = "sub-agents are switched off: their calls would be under none of a run's limits"


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox may take.

    Args:
        step_time_s: how long a step may run, beside what its tools take.
        memory_bytes: what a session may take beside what it has mapped when it is ready.
        restarts: new sessions after the first was lost.
        sub_agents: whether dspy.RLM may install its stand-in for dspy, through which an agent's code makes further
            agents on the host. Their calls would be under none of a run's limits, so by default it may not: the sandbox
            refuses with `CodeExecutionError`, upon which dspy leaves them out of the prompt and logs a warning.
    """

    step_time_s: float = limits.STEP_TIME_S
    memory_bytes: int = limits.SANDBOX_MEMORY_BYTES
    restarts: int = limits.SANDBOX_RESTARTS
    sub_agents: bool = False


DEFAULT_SETTINGS = SandboxSettings()


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """A session was lost, and another takes its place. `number` counts from 1; `code` is that of `Lost`.

    `message` is what the agent is told. `detail` is the end of what the process wrote to its standard error; it may
    name paths of this machine.
    """

    number: int
    code: str
    message: str
    detail: str = ""
