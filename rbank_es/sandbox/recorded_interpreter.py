"""An interpreter for reruns: it repeats recorded tool calls and outcomes, and runs no code."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

from rbank_es import limits
from rbank_es.sandbox.session import EXECUTION_INSTRUCTIONS, SUB_AGENT_TOOL
from rbank_es.sandbox.step_outcome import RecordedCall, RecordedStep, RecordingDiffers, StepReport


class RecordedInterpreter:
    """A dspy interpreter that replays the steps of one run, in order.

    Each step must have the recorded code. Its tool calls are repeated in order, with their results ignored, because
    the tools record them; then the step has its recorded outcome. dspy's sub-agents are refused, as by the sandbox.
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
        """The recorded report of the last step; None if that did not begin."""
        self._steps = tuple(steps)

    @property
    def remaining(self) -> int:
        """The number of recorded steps that were not replayed yet."""
        return len(self._steps) - self.position

    def start(self) -> None:
        """Do nothing."""

    def shutdown(self) -> None:
        """Do nothing."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Replay the next step, and return or raise what it did. Variables are ignored.

        Raises `RecordingDiffers` where code, tool or arguments differ from the recording, or no step is left.
        """
        from rbank_es.sandbox.interpreter import result_of, sub_agents_refused

        self.report = None
        # As the sandbox does, or the prompts of the rerun would describe sub-agents.
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
        """Repeat a tool call. Errors are ignored, because the recorded outcome holds them.

        A TypeError counts only where the signature rejects the arguments: tools that check them raise too.
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
                given = call.arguments[: limits.DIFFERENCE_CHARS]
                reason = f"it called {call.tool} with {given}, which that no longer takes: {error}"
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
    """Return the first difference of two texts of code, by line."""
    before, after = recorded.splitlines(), now.splitlines()
    for line, (was, is_) in enumerate(zip(before, after, strict=False), 1):
        if was != is_:
            most = limits.DIFFERENCE_CHARS
            return f"line {line} of the code was {was[:most]!r} and is {is_[:most]!r}"
    if len(before) == len(after):
        return "the code ends otherwise, in blank space"
    return f"the code had {len(before)} lines and has {len(after)}"
