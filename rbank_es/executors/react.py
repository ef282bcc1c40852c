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

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import dspy

from rbank_es import limits as lim
from rbank_es.events.codec import encodable
from rbank_es.executors.agent_reply import Unreadable, ask_shortened, force_answer, shorten
from rbank_es.executors.agent_step import AgentTask, ask, extract_signature, signature_of, tool_manual
from rbank_es.executors.executor import Ending, Executor, Fault, Recorder, RunLimits, RunStep, Submission
from rbank_es.executors.sub_calls import SubCalls, sub_calls
from rbank_es.sandbox.step_outcome import ERROR, SubmissionRefused

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.runtime.toolbox import Toolbox

SUBMIT = "SUBMIT"

_INSTRUCTIONS = """{task}

You work in steps. In each you think, then call one tool, and see what it answers. There is no Python here: where
instructions speak of code or variables, call the tools one by one. Besides the tools below there are:
- `llm_query(prompt)`, `llm_query_batched(prompts)` - ask a sub-model what takes reading; {subcalls} prompts in all
- `SUBMIT(answer, sparql, evidence)` - hand in the result and end

Tools:
{manual}

`next_tool_name` is the name alone; `next_tool_args` is a JSON object of its arguments by name, `{{}}` for none."""


class React(Executor):
    """The executor `react`: single tool calls, with the whole history in every prompt."""

    runs_code = False
    frame_chars = 2_200

    def work(self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits) -> Ending:
        """Run a `RecordedReAct`."""
        agent = RecordedReAct(tools, recorder, sub_calls(lms, limits, tools.session.meter), limits)
        ending: Ending = agent(context=context, question=task).ending
        return ending


class CallOutcome(NamedTuple):
    """The outcome of a tool call: the reply as JSON, the submission, the fault."""

    output: str
    submission: Submission | None = None
    fault: Fault | None = None


class RecordedReAct(dspy.ReAct):
    """One run of dspy.ReAct. Its prediction has one field, `ending`."""

    def __init__(self, tools: Toolbox, recorder: Recorder, subcalls: SubCalls, limits: RunLimits) -> None:
        # No tools for dspy, because it would wrap and validate them.
        super().__init__(AgentTask, tools=[], max_iters=limits.iterations)
        self._recorder, self._output_chars = recorder, limits.output_chars
        self._functions: dict[str, Callable[..., Any]] = {**tools.functions, **subcalls.functions}
        self._trajectory: list[dict[str, Any]] = []
        self._left_out = 0
        self.react = dspy.Predict(_signature(tools, limits))
        self.extract = dspy.Predict(extract_signature("trajectory", "Your steps"))

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Take steps until one submits or there are no more."""
        for _ in range(self.max_iters):
            if self._recorder.spent is not None:
                break
            submission = self._step(inputs)
            if submission is not None:
                return dspy.Prediction(ending=Ending("submitted", submission))
        return dspy.Prediction(ending=force_answer(self._recorder, lambda: self._ask(self.extract, inputs)))

    def _step(self, inputs: Mapping[str, Any]) -> Submission | None:
        index = self._recorder.next_step()
        action = self._ask(self.react, inputs)
        if isinstance(action, Unreadable):
            thought, name, code = action.reply, "", ""
            arguments: dict[str, Any] = {}
            turn = CallOutcome(f"{ERROR}{action.reason}", fault="unreadable")
        else:
            thought = str(action.next_thought)
            name, arguments = named_call(str(action.next_tool_name), _clean(action.next_tool_args))
            code = _json({"tool": name, "args": arguments})
            self._recorder.begin_code()
            turn = self._call(name, arguments)
        step = RunStep(index=index, reasoning=thought, code=code, output=turn.output, fault=turn.fault)
        self._recorder.step(step)
        seen = shorten(turn.output, self._output_chars)
        self._trajectory.append({"thought": thought, "tool_name": name, "tool_args": arguments, "observation": seen})
        return turn.submission

    def _ask(self, predict: Any, inputs: Mapping[str, Any]) -> Any:
        """Ask the model about its steps so far."""

        def ask_with(left_out: int) -> Any:
            steps = enumerate(self._trajectory[left_out:], left_out)
            shown = {f"{name}_{number}": value for number, step in steps for name, value in step.items()}
            return ask(predict, **inputs, trajectory=self._format_trajectory(shown))

        given, self._left_out = ask_shortened(ask_with, self._left_out, len(self._trajectory))
        return given

    def _call(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        """Call a tool. Errors become replies for the agent."""
        # Models write it in any case.
        if name.upper() == SUBMIT:
            return _submitted(arguments)
        function = self._functions.get(name)
        if function is None:
            there = ", ".join([*self._functions, SUBMIT])
            shown = name[: lim.GIVEN_CHARS]
            return _failed("unknown_tool", f"no tool is called {shown!r}", f"call one of: {there}", "unknown_tool")
        try:
            answer = function(**arguments)
        # Tools return their failures with ok=false, so this is a sub-call's.
        except Exception as error:
            words = f"{name}: {error}"[: lim.ERROR_CHARS]
            return _failed("sub_call_failed", words, "give other arguments, or go on without it", "tool_failed")
        failed = isinstance(answer, Mapping) and answer.get("ok") is False
        return CallOutcome(_json(answer), fault="tool_failed" if failed else None)


_CALL = re.compile(r"`?([A-Za-z_]\w*)`?\s*\(")
"""The beginning of a call, or of a line of the manual, where a tool's name belongs."""


def named_call(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a tool and its arguments, as models write them: in quotes, or with the whole call."""
    name = name.strip().strip("`'\"")
    call = _CALL.match(name)
    return (name, arguments) if call is None else (call[1], arguments or _clean(_arguments_of(name)))


def _arguments_of(call: str) -> dict[str, Any]:
    """Return the named arguments of a call that are values; none of a text that is no call, or holds other arguments.

    A manual's line has names in the place of values: they are not taken for values.
    """
    try:
        tree = ast.parse(call, mode="eval").body
        if not isinstance(tree, ast.Call) or tree.args:
            return {}
        return {str(each.arg): ast.literal_eval(each.value) for each in tree.keywords if each.arg}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return {}


def _submitted(arguments: Mapping[str, Any]) -> CallOutcome:
    try:
        submission = Submission.of(arguments)
    except SubmissionRefused as refused:
        return _failed("empty_answer", str(refused), "call SUBMIT with answer, sparql and evidence", "refused")
    return CallOutcome(submission.output, submission)


def _failed(code: str, message: str, hint: str, fault: Fault) -> CallOutcome:
    return CallOutcome(_json({"ok": False, "error": {"code": code, "message": message, "hint": hint}}), fault=fault)


def _clean(arguments: Mapping[str, Any]) -> dict[str, Any]:
    # Twice through JSON: values become what JSON and UTF-8 can hold.
    clean: dict[str, Any] = json.loads(_json(arguments))
    return clean


def _json(value: Any) -> str:
    return encodable(json.dumps(value, ensure_ascii=False, default=str))


def _signature(tools: Toolbox, limits: RunLimits) -> Any:
    instructions = _INSTRUCTIONS.format(
        task=AgentTask.instructions, subcalls=limits.subcalls, manual=tool_manual(tools)
    )
    return (
        signature_of(instructions)
        .append("trajectory", dspy.InputField(desc="Your steps so far"), type_=str)
        .append("next_thought", dspy.OutputField(desc="What you know, what remains, what to do next"), type_=str)
        .append("next_tool_name", dspy.OutputField(desc="Name of the tool to call"), type_=str)
        .append("next_tool_args", dspy.OutputField(desc="Its arguments, a JSON object"), type_=dict[str, Any])
    )
