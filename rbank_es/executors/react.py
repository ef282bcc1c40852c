"""The executor `react`: no code, one tool call a step. Importing this module loads dspy.

Its history is text, which can show an unparsable reply. The name of a tool may be any text, which makes an unknown tool
an error for the agent. Tools are called without dspy's validation, and never show a traceback of the host.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import dspy

from rbank_es.executors.agent_reply import Unreadable, take_steps
from rbank_es.executors.agent_step import StepQuestions, signature_of
from rbank_es.executors.executor import Ending, Executor, Recorder, RunLimits
from rbank_es.executors.instructions import call_instructions
from rbank_es.executors.run_step import RunStep
from rbank_es.executors.step_history import ShownSteps, StepForm
from rbank_es.executors.sub_calls import sub_calls
from rbank_es.executors.submission import Submission
from rbank_es.executors.tool_call import CallOutcome, call_tool, json_text, named_call, plain_arguments
from rbank_es.sandbox.step_outcome import ERROR

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.shared.toolbox import Toolbox


class React(Executor):
    """The executor `react`: single tool calls, with the whole history in every prompt."""

    runs_code = False
    frame_chars = 2_000

    def work(self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits) -> Ending:
        """Take steps of one call."""
        subcalls = sub_calls(lms, limits, tools.session)
        functions: dict[str, Callable[..., Any]] = {**tools.functions, **subcalls.functions}
        questions = StepQuestions("trajectory", ShownSteps(CALL_FORM, tools, limits), recorder, lms, self.sampling)
        inputs: dict[str, Any] = {"context": context, "question": task}
        predict = dspy.Predict(_signature(tools, limits))

        def step(_: int) -> Submission | None:
            index = recorder.next_step()
            return _take_call_step(recorder, index, questions.ask(predict, **inputs), functions)

        return take_steps(recorder, limits.iterations, step, lambda: questions.force(**inputs))


def _take_call_step(
    recorder: Recorder, index: int, action: Any, functions: Mapping[str, Callable[..., Any]]
) -> Submission | None:
    """Make the call that a reply asks for, and record the step. Return what it submitted."""
    if isinstance(action, Unreadable):
        thought, code = action.reply, ""
        turn = CallOutcome(f"{ERROR}{action.reason}", fault=action.code)
    else:
        thought = str(action.next_thought)
        name, arguments = named_call(str(action.next_tool_name), plain_arguments(action.next_tool_args), functions)
        code = json_text({"tool": name, "args": arguments})
        recorder.begin_code()
        turn = call_tool(functions, name, arguments, recorder.told())
    recorder.step(RunStep(index=index, reasoning=thought, code=code, output=turn.output, fault=turn.fault))
    return turn.submission


def _fields_of(step: RunStep) -> dict[str, str]:
    call = json.loads(step.code)
    return {"next_thought": step.reasoning, "next_tool_name": call["tool"], "next_tool_args": json_text(call["args"])}


CALL_FORM = StepForm(_fields_of, lambda tool, arguments: json_text({"tool": tool, "args": arguments}))
"""How an agent writes a step of one call."""


def _signature(tools: Toolbox, limits: RunLimits) -> Any:
    return (
        signature_of(call_instructions(tools, limits.subcalls), "trajectory")
        .append("next_thought", dspy.OutputField(desc="What you know, what remains, what to do next"), type_=str)
        .append("next_tool_name", dspy.OutputField(desc="Name of the tool to call"), type_=str)
        .append("next_tool_args", dspy.OutputField(desc="Its arguments, a JSON object"), type_=dict[str, Any])
    )
