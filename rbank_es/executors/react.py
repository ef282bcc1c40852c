"""The executor `react`: no code, one tool call a step. Importing this module loads dspy.

It extends dspy.ReAct instead of dspy.ReActV2, for two reasons. ReAct's history is text, which can show an unparsable
reply. Its tool name can become free text, which makes an unknown tool an error for the agent. ReActV2 keeps only
well-formed calls, and ends at the first other one. It sends two user messages in a row, which some servers refuse, and
may call several tools a step.

Differences from dspy 3.4: the loop records each step, and no reply ends the run; tools are called without validation,
and never show a traceback of the host; SUBMIT ends the run, so a second call that extracts the answer is made at the
limit only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import dspy

from rbank_es.executors.agent_reply import Unreadable, ask_shortened, force_answer
from rbank_es.executors.agent_step import AgentTask, ForcedAnswer, ask, signature_of
from rbank_es.executors.executor import Ending, Executor, Recorder, RunLimits
from rbank_es.executors.instructions import call_instructions
from rbank_es.executors.run_step import RunStep
from rbank_es.executors.step_history import ShownSteps, StepForm
from rbank_es.executors.sub_calls import SubCalls, sub_calls
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
        """Run a `RecordedReAct`."""
        forced = ForcedAnswer("trajectory", lms, self.sampling)
        agent = RecordedReAct(tools, recorder, sub_calls(lms, limits, tools.session), limits, forced)
        ending: Ending = agent(context=context, question=task).ending
        return ending


class RecordedReAct(dspy.ReAct):
    """One run of dspy.ReAct. Its prediction has one field, `ending`."""

    def __init__(
        self, tools: Toolbox, recorder: Recorder, subcalls: SubCalls, limits: RunLimits, forced: ForcedAnswer
    ) -> None:
        # No tools for dspy, because it would wrap and validate them.
        super().__init__(AgentTask, tools=[], max_iters=limits.iterations)
        self._recorder = recorder
        self._functions: dict[str, Callable[..., Any]] = {**tools.functions, **subcalls.functions}
        self._shown = ShownSteps(CALL_FORM, tools, limits)
        self._by_a_line = 0
        self.react = dspy.Predict(_signature(tools, limits))
        self.extract = forced

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Take steps until one submits or there are no more."""
        for _ in range(self.max_iters):
            if self._recorder.spent is not None:
                break
            submission = self._step(inputs)
            if submission is not None:
                return dspy.Prediction(ending=Ending("submitted", submission))
        return dspy.Prediction(
            ending=force_answer(self._recorder, lambda: self._ask(self.extract, inputs, advise=False))
        )

    def _step(self, inputs: Mapping[str, Any]) -> Submission | None:
        index = self._recorder.next_step()
        action = self._ask(self.react, inputs)
        if isinstance(action, Unreadable):
            thought, code = action.reply, ""
            turn = CallOutcome(f"{ERROR}{action.reason}", fault=action.code)
        else:
            thought = str(action.next_thought)
            name, arguments = named_call(
                str(action.next_tool_name), plain_arguments(action.next_tool_args), self._functions
            )
            code = json_text({"tool": name, "args": arguments})
            self._recorder.begin_code()
            turn = call_tool(self._functions, name, arguments, self._recorder.told())
        self._recorder.step(RunStep(index=index, reasoning=thought, code=code, output=turn.output, fault=turn.fault))
        return turn.submission

    def _ask(self, predict: Any, inputs: Mapping[str, Any], *, advise: bool = True) -> Any:
        """Ask the model about its steps so far."""
        steps = self._recorder.steps

        def ask_with(by_a_line: int) -> Any:
            return ask(predict, **inputs, trajectory=self._shown.text(steps, by_a_line, advise=advise))

        given, self._by_a_line = ask_shortened(ask_with, self._by_a_line, len(steps), self._recorder.giving_way)
        return given


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
