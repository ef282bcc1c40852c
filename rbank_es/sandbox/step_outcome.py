"""What a step of an agent was, and what became of it, as plain data."""

from __future__ import annotations

from typing import Literal

import msgspec

from rbank_es.errors import CheckFailed
from rbank_es.events.event import MOST_COUNT, Count

Kind = Literal["output", "final", "refused", "error", "syntax", "lost", "exhausted"]
"""It ran to its end; it submitted; what it submitted was refused; it raised; it can't be parsed; its session was lost,
and all variables with it; it was lost, and there is no other."""

ERROR = "[Error] "
"""How the output of a step begins whose code failed."""

COMMON_TYPES = frozenset(
    {"bool", "int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset",
     "range", "NoneType", "Counter", "OrderedDict", "defaultdict", "deque", "date", "datetime", "time", "timedelta",
     "Decimal", "Fraction", "UUID", "Match", "DataFrame", "Series", "ndarray"}
)  # fmt: skip
"""Types of variables that are told by name. A class of the agent's own is named as it likes, which may be with words
from what it read; facts outlive erasure, so such are `other`."""


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """What a step printed, and what the agent holds after it. None: the interpreter doesn't tell.

    `stdout_chars` are all characters that it printed, those of its last value included, before anything was cut.
    Variables are those of the agent, without functions, classes, modules and names that begin with an underscore; their
    characters are counted up to 10,000 elements each. Of a session that was lost, there are none.
    """

    stdout_chars: int | None = None
    variables_n: int | None = None
    variables_chars: int | None = None
    variable_types: dict[str, int] = {}


NOTHING = Measures(stdout_chars=0, variables_n=0, variables_chars=0)
"""Nothing was printed, and there are no variables."""


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
    measures: Measures = NOTHING


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """A step with its measures. `duration_s` is its own time, `tools_s` what the tools took beside it."""

    step: RecordedStep
    duration_s: float = 0.0
    tools_s: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the sandbox tells of a step. Every field is data that an agent's code may have forged, within limits."""

    kind: Literal["output", "final", "error", "syntax"]
    calls: int
    stdout: str = ""
    stdout_chars: Count = 0
    value: str = ""
    value_chars: Count = 0
    final: str = ""
    message: str = ""
    variables_n: Count = 0
    variables_chars: Count = 0
    variable_types: dict[str, Count] = {}

    @property
    def measures(self) -> Measures:
        """What it printed and holds, in numbers."""
        return Measures(
            stdout_chars=min(self.stdout_chars + self.value_chars, MOST_COUNT),
            variables_n=self.variables_n,
            variables_chars=self.variables_chars,
            variable_types=by_name(self.variable_types),
        )


def by_name(types: dict[str, int]) -> dict[str, int]:
    """Numbers of variables by the names of their types, of which those that are not common are `other`."""
    told: dict[str, int] = {}
    for name, number in sorted(types.items()):
        known = name if name in COMMON_TYPES else "other"
        told[known] = min(told.get(known, 0) + number, MOST_COUNT)
    return told


class SubmissionRefused(ValueError):
    """A submission without an answer; the message is for the agent."""


class RecordingDiffers(CheckFailed):
    """What is asked of a recording is not what was recorded: the first difference, and the step it is in, from 1."""

    def __init__(self, step: int, what: str) -> None:
        self.step, self.what = step, what
        super().__init__(f"step {step} differs from its recording: {what}")
