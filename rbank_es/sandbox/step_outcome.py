"""A step of code as plain data, live or recorded, and the errors of a step that are not the sandbox's own."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from rbank_es.errors import CheckFailed

Kind = Literal["output", "final", "refused", "error", "syntax", "lost", "exhausted"]
"""The step ran to its end; submitted; submitted and was refused; raised; can't be parsed; lost its session with all
variables; lost the last session."""

LossCode = Literal["timeout", "wall_timeout", "memory", "died", "flood", "forged", "too_long", "broken"]
"""Why a session was lost: the step's code took too long, or the step with its tools did; the memory is used up; the
process died; it wrote or called without end; it sent a message that no tool made, or one that is too long; what runs it
is disturbed."""

LOSSES: dict[str, LossCode] = {code: code for code in get_args(LossCode)}
"""All of them, to look up one that was read."""

ERROR = "[Error] "
"""The prefix of the output of a step that failed."""


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a step's output and of the variables after it; None where the interpreter doesn't measure.

    `stdout_chars` are all printed characters, the last value's included, before truncation. Variables exclude
    functions, classes, modules and names that begin with an underscore; of each, 10,000 elements are counted at most.
    A lost session has none.
    """

    stdout_chars: int | None = None
    variables_n: int | None = None
    variables_chars: int | None = None
    variable_types: dict[str, int] = {}


NOTHING = Measures(stdout_chars=0, variables_n=0, variables_chars=0)
"""No output, and no variables."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call. `arguments` is the JSON object of those that were given, by name."""

    tool: str
    arguments: str = "{}"


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step: its code as the model wrote it, its tool calls in order, and its outcome.

    `output` is the text for the agent; after SUBMIT (`final`) it is the JSON of the submitted fields. `loss` is the
    cause where the session was lost.
    """

    code: str
    kind: Kind = "output"
    loss: LossCode | None = None
    output: str = ""
    calls: tuple[RecordedCall, ...] = ()
    measures: Measures = NOTHING


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """A step with its times: `duration_s` of its own code, `tools_s` of its tools."""

    step: RecordedStep
    duration_s: float = 0.0
    tools_s: float = 0.0


class SubmissionRefused(ValueError):
    """A submission without an answer. The message is for the agent."""


class RecordingDiffers(CheckFailed):
    """The first difference of a rerun from its recording, and its step, from 1."""

    def __init__(self, step: int, what: str) -> None:
        self.step, self.what = step, what
        super().__init__(f"step {step} differs from its recording: {what}")
