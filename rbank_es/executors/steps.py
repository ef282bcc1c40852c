"""What a step of an agent was, and what became of it, as plain data."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["output", "final", "error", "syntax", "lost", "exhausted"]
"""It ran to its end; it submitted; it raised; it can't be parsed; its session was lost, and all variables with it; it
was lost, and there is no other."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool. `arguments` is their JSON, by name, only those that were given."""

    tool: str
    arguments: str = "{}"


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step: its code as the model wrote it, the tools it called in order, and how it came out.

    `output` is the text that the agent is given; after SUBMIT (`final`), it is the JSON of the submitted fields.
    """

    code: str
    kind: Kind = "output"
    output: str = ""
    calls: tuple[RecordedCall, ...] = ()


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """A step with its measures. `duration_s` is its own time, `tools_s` what the tools took beside it.

    Variables are those of the agent, without functions, classes, modules and names that begin with an underscore; their
    characters are counted up to 10,000 elements each. Of a session that was lost, there are none.
    """

    step: RecordedStep
    stdout_chars: int = 0
    variables_n: int = 0
    variables_chars: int = 0
    variable_types: dict[str, int] = {}
    duration_s: float = 0.0
    tools_s: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the sandbox tells of a step. Every field is data that an agent's code may have forged, within limits."""

    kind: Literal["output", "final", "error", "syntax"]
    calls: int
    stdout: str = ""
    stdout_chars: int = 0
    value: str = ""
    value_chars: int = 0
    final: str = ""
    message: str = ""
    variables_n: int = 0
    variables_chars: int = 0
    variable_types: dict[str, int] = {}
