"""An interpreter that plays recorded steps again: same outcomes, same calls of tools, no process and no code run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

from rbank_es.sandbox.session import EXECUTION_INSTRUCTIONS, SUB_AGENT_TOOL
from rbank_es.sandbox.step_outcome import RecordedCall, RecordedStep, RecordingDiffers, StepReport

SHOWN_CHARS = 200
"""What a difference shows of a line of code."""


class RecordedInterpreter:
    """Plays the steps of one run, in order, to whoever knows dspy's interpreters.

    Each step must have the code that was recorded. Its calls are made again, in order, through the given tools; what
    they return is not looked at, for it is they that record it. Then the step comes out as it did. dspy's sub-agents
    are refused, as by the sandbox; a run that had them can't be played.
    """

    execution_instructions = EXECUTION_INSTRUCTIONS

    def __init__(
        self,
        steps: Sequence[RecordedStep],
        *,
        tools: dict[str, Callable[..., Any]] | None = None,
        output_fields: list[dict[str, Any]] | None = None,
    ) -> None:
        self.tools = dict(tools or {})
        self.output_fields = output_fields
        self.position = 0
        self.report: StepReport | None = None
        """What the last step did when it was recorded; None where it did not begin."""
        self._steps = tuple(steps)

    @property
    def remaining(self) -> int:
        """Steps that were recorded and not asked for yet."""
        return len(self._steps) - self.position

    def start(self) -> None:
        """Nothing needs to."""

    def shutdown(self) -> None:
        """Nothing needs to."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Play the next step; the variables are not looked at.

        Returns and raises what the step did, and:

        Raises:
            RecordingDiffers: the code, a tool or its arguments can't be what was recorded, or all steps were played.
        """
        from rbank_es.sandbox.interpreter import result_of, sub_agents_refused

        self.report = None
        if SUB_AGENT_TOOL in self.tools:
            raise sub_agents_refused()
        number = self.position + 1
        if not self.remaining:
            raise RecordingDiffers(number, f"only {len(self._steps)} steps were recorded")
        step = self._steps[self.position]
        if code != step.code:
            raise RecordingDiffers(number, difference(step.code, code))
        self.position = number
        for call in step.calls:
            self._call(number, call)
        self.report = StepReport(step=step)
        return result_of(step)

    def _call(self, number: int, call: RecordedCall) -> None:
        """Make a call again. A tool that raises did so before, and the outcome holds what came of it.

        A tool that checks its arguments itself, and records what is wrong with them, is left to do so.
        """
        tool = self.tools.get(call.tool)
        if tool is None:
            raise RecordingDiffers(number, f"it called the tool {call.tool}, which is not there now")
        arguments = json.loads(call.arguments)
        try:
            tool(**arguments)
        except RecordingDiffers:
            raise
        except TypeError as error:
            if not _takes(tool, arguments):
                reason = (
                    f"it called {call.tool} with {call.arguments[:SHOWN_CHARS]}, which that no longer takes: {error}"
                )
                raise RecordingDiffers(number, reason) from None
        except Exception:
            return


def _takes(tool: Callable[..., Any], arguments: dict[str, Any]) -> bool:
    try:
        inspect.signature(tool).bind(**arguments)
    except TypeError:
        return False
    return True


def difference(recorded: str, now: str) -> str:
    """Where two texts begin to differ, by line."""
    before, after = recorded.splitlines(), now.splitlines()
    for line, (was, is_) in enumerate(zip(before, after, strict=False), 1):
        if was != is_:
            return f"line {line} of the code was {was[:SHOWN_CHARS]!r} and is {is_[:SHOWN_CHARS]!r}"
    if len(before) == len(after):
        return "the code ends otherwise, in blank space"
    return f"the code had {len(before)} lines and has {len(after)}"
