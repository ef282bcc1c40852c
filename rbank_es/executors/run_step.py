"""A step of a run as it was recorded, and the standstill of several: a pure count over the latest steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

import msgspec

from rbank_es.limits import reply_limits
from rbank_es.sandbox.step_outcome import NOTHING, LossCode, Measures

Fault = (
    Literal["unreadable", "bad_response", "no_code", "syntax", "raised", "no_sandbox", "refused"]
    | Literal["unknown_tool", "tool_failed"]
    | LossCode
)
"""Why a step failed: the reply could not be parsed, was not the model's word, or held no code; its code can't be
parsed, raised, found no sandbox, or lost its session (named by the cause); its submission was refused; no such tool;
the tool returned an error.
"""

EXAMPLE_ANSWER, EXAMPLE_QUERY = "(your answer, in words)", "SELECT ... (the query that finds it)"
"""What stands in a submission that a prompt shows as an example. Small models hand it in as it is."""


ENDS = {
    1: "This is your last step: SUBMIT what you have found.",
    2: "Two steps are left: make the query that finds the answer now, and SUBMIT it in the last.",
}
"""What an agent is told at its last step, and at the one before."""

READ = "Two steps are left: look at the rows that you found now, and SUBMIT in the last."
"""What it is told at the one before, while it has not seen its result."""

UNREAD = "Your reply could not be read: "
"""How an agent is told that a reply of its was not read."""

NO_OUTPUT = "(no output - did you forget to print?)"
"""What an agent is shown of a step that printed nothing (source: dspy.RLM)."""


class RunStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step as it was recorded. `index` counts from 1.

    `code` is what ran: Python, or a tool call as JSON; empty where the reply held nothing to run. `output` is the whole
    text that the agent is shown. `measures` are sizes after the step. `fault` says why it failed, if it did. `answered`
    counts its calls of tools that succeeded; the recorder sets it.
    """

    index: int
    reasoning: str = ""
    code: str = ""
    output: str = ""
    measures: Measures = NOTHING
    fault: Fault | None = None
    answered: int = 0


class Stall(NamedTuple):
    """A standstill: what the latest `steps` steps have in common, and after how many of them the agent is told."""

    what: str
    steps: int
    told_after: int

    @property
    def is_final(self) -> bool:
        """Whether a step went on in the same way although the agent had been told."""
        return self.steps > self.told_after

    @property
    def warning(self) -> str:
        """What the agent is told before the run ends for it."""
        return f"Stop: {self.words}. If the next step does too, the run ends. Do something else."

    @property
    def words(self) -> str:
        """What stands still, in words for people and the agent."""
        return f"the last {self.steps} steps {self.what}"


def stall_of(steps: Sequence[RunStep]) -> Stall | None:
    """Return the standstill of a run's latest steps; None while it makes headway.

    It is one when `STALL_REPEATS` steps in a row failed in the same way, made the same call with the same outcome, or
    repeated calls of the few steps before; or when no tool answered in `STALL_BARREN` steps in a row: of these, steps
    that work on an earlier answer are none.
    """
    repeats, answered = reply_limits.STALL_REPEATS, [step.answered > 0 for step in steps]
    known = answered.index(True) if True in answered else len(steps)
    rules: tuple[tuple[str, int, Callable[[RunStep], Hashable]], ...] = (
        ("failed in the same way", repeats, _failure),
        ("made the same call", repeats, _call),
        ("only repeated earlier calls", repeats, lambda step: _repeats_lately(steps[: step.index])),
        ("had no answer of a tool", reply_limits.STALL_BARREN, lambda step: _is_barren(step, known)),
    )
    found = (Stall(what, _repeated(steps, key), most) for what, most, key in rules)
    long_enough = [each for each in found if each.steps >= each.told_after]
    return next((each for each in long_enough if each.is_final), long_enough[0] if long_enough else None)


def repeated_by(steps: Sequence[RunStep], after: int = 0) -> RunStep | None:
    """Return the first step behind the step `after` whose call the latest one repeats, with the same outcome."""
    call = _call(steps[-1]) if steps else None
    earlier = (step for step in steps[:-1] if step.index > after and _call(step) == call)
    return next(earlier, None) if call is not None else None


def _repeats_lately(steps: Sequence[RunStep]) -> bool:
    # Not of long ago: its answer may have been left out of the prompt since.
    return repeated_by(steps, len(steps) - 1 - reply_limits.STALL_REPEATS) is not None


def _repeated(steps: Sequence[RunStep], key: Callable[[RunStep], Hashable]) -> int:
    """Return the number of latest steps that have the same key; 0 if the last has none."""
    last = key(steps[-1]) if steps else None
    return sum(1 for _ in takewhile(lambda step: key(step) == last, reversed(steps))) if last else 0


_WORD = re.compile(r"[\w-]+")


def _sameness(text: str) -> str:
    # Numbers and keys of handles differ between two outcomes that say the same.
    return _WORD.sub(lambda word: "#" if any(map(str.isdigit, word[0])) else word[0], text)


def _failure(step: RunStep) -> Hashable:
    if step.fault in (None, "bad_response"):
        return None
    # Prose is prose, whatever it lacks.
    return (step.fault,) if step.fault in ("unreadable", "no_code") else (step.fault, _sameness(step.output))


def _call(step: RunStep) -> Hashable:
    return (step.code, _sameness(step.output)) if step.code else None


def _is_barren(step: RunStep, known: int) -> bool:
    """Return whether no tool answered in a step, and it did nothing with an answer of the step `known`, from 0."""
    if step.answered or step.fault == "bad_response":
        return False
    return step.fault is not None or step.index <= known
