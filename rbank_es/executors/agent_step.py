"""A step of an agent on dspy: the prompt and the reply, and the code that is run. Executors share it. Loads dspy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import dspy
from dspy.predict.rlm import _strip_code_fences
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events.codec import encodable
from rbank_es.events.run_events import RunBounds
from rbank_es.executors.agent_reply import NO_ANSWER, Unreadable, ask_shortened, force_answer
from rbank_es.executors.executor import Ending, Interpreters, Recorder, RunLimits
from rbank_es.executors.run_step import NO_OUTPUT, UNREAD, Fault, RunStep
from rbank_es.executors.step_history import ShownSteps, StepForm
from rbank_es.executors.submission import FIELDS, Submission
from rbank_es.executors.tool_call import SUBMIT
from rbank_es.executors.tool_schema import ANSWER_SCHEMA
from rbank_es.limits import sandbox_limits
from rbank_es.models.call_recorder import NO_WORD
from rbank_es.models.dspy_adapter import adapter
from rbank_es.models.model_call import failed
from rbank_es.models.reply_syntax import whole_members
from rbank_es.sandbox.interpreter import Sandbox, SandboxExhausted, SessionLost
from rbank_es.sandbox.session import SandboxSettings
from rbank_es.sandbox.step_outcome import ERROR, Measures, SubmissionRefused
from rbank_es.system.text_cuts import cut, cut_middle

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What dspy's parsing was seen to raise beside `AdapterParseError`."""

NO_CODE = f"{ERROR}There was no code in your reply. Write Python code to go on, and SUBMIT to end."


class AgentTask(dspy.Signature):
    """Answer the question from the data that the tools reach. `context` says how to work and what is known."""

    context: str = dspy.InputField(desc="How to work, and what is known so far")
    question: str = dspy.InputField(desc="What is to be answered")
    answer: str = dspy.OutputField(desc="The answer, in words")
    sparql: str = dspy.OutputField(desc="The SPARQL query that the answer rests on; empty if there is none", default="")
    evidence: dict[str, Any] = dspy.OutputField(
        desc="Keys of handles, and IRIs, that the answer rests on", default_factory=dict
    )


def signature_of(instructions: str, history: str) -> Any:
    """Return a signature with the task's inputs, these instructions and the `history`, to append fields to."""
    fields: Any = AgentTask.input_fields
    made = make_signature(fields, f"{AgentTask.instructions}\n{instructions}")
    return made.append(history, dspy.InputField(desc="Your steps so far"), type_=str)


def code_signature(instructions: str, history: str) -> Any:
    """Return the signature of a step of code: the task's inputs, the `history`, the number of the step."""
    return (
        signature_of(instructions, history)
        .append("iteration", dspy.InputField(desc="Which step this is, of how many"), type_=str)
        .append("reasoning", dspy.OutputField(desc="What you know, what remains, what to do next"), type_=str)
        .append("code", dspy.OutputField(desc="Python code to run: ```python\\n<code>\\n```"), type_=str)
    )


def extract_signature(history: str) -> Any:
    """Return the signature that forces an answer: the inputs and the `history`, then the answer's fields."""
    instructions = f"{AgentTask.instructions}\n\nYour steps are used up: give the answer that they lead to."
    fields: Any = AgentTask.fields
    return make_signature(fields, instructions).insert(2, history, dspy.InputField(desc="Your steps"), str)


class ForcedAnswer:
    """A predictor of the answer that is forced: by a JSON schema where the server keeps one, else as dspy asks."""

    def __init__(self, history: str, lms: Lms, sampling: Mapping[str, Any]) -> None:
        """`history` is the field of the steps; `sampling` are temperature and rollout of the agent's calls."""
        self.signature = extract_signature(history)
        self._lms, self._sampling = lms, sampling

    def __call__(self, **inputs: Any) -> Any:
        """Return the fields of the answer. Raises what `ask` takes."""
        if not self._lms.keeps_schemas("agent"):
            return dspy.Predict(self.signature)(**inputs)
        form = adapter()
        messages = form.format(self.signature, [], inputs)
        reply = self._lms.ask("agent", messages, schema=ANSWER_SCHEMA, **self._sampling)
        if reply.cut:
            # Small models write the answer, and then repeat themselves in the fields that it rests on.
            whole = whole_members(reply.text)
            if "answer" not in whole:
                raise failed("cut", "it was cut at its bound: be shorter")
            return dspy.Prediction(**{name: whole.get(name) for name in FIELDS})
        return dspy.Prediction(**form.parse(self.signature, reply.text))


class StepQuestions:
    """The questions to a run's model about its steps so far. A history that was shortened stays so."""

    def __init__(
        self,
        history: str,
        shown: ShownSteps,
        recorder: Recorder,
        lms: Lms,
        sampling: Mapping[str, Any],
        most_whole: int | None = None,
    ) -> None:
        """`history` is the field of the steps, of which at most the latest `most_whole` are shown whole."""
        self._history, self._shown, self._recorder, self._most_whole = history, shown, recorder, most_whole
        self._forced = ForcedAnswer(history, lms, sampling)
        self._by_a_line = 0

    def ask(self, predict: Any, *, advise: bool = True, **inputs: Any) -> Any:
        """Return the model's fields, as `ask` does."""
        steps = self._recorder.steps

        def ask_with(by_a_line: int) -> Any:
            return ask(predict, **inputs, **{self._history: self._shown.text(steps, by_a_line, advise=advise)})

        if self._most_whole is not None:
            self._by_a_line = max(self._by_a_line, len(steps) - self._most_whole)
        given, self._by_a_line = ask_shortened(ask_with, self._by_a_line, len(steps), self._recorder.giving_way)
        return given

    def force(self, **inputs: Any) -> Ending:
        """Ask for the answer, because a limit is reached, and return the run's end."""
        return force_answer(self._recorder, lambda: self.ask(self._forced, advise=False, **inputs))


# ---------------------------------------------------------------- the agent's replies


def ask(predict: Any, **inputs: Any) -> Any:
    """Return the model's fields as a `dspy.Prediction`, or `Unreadable`.

    Raises `LmFailed`, and other errors of dspy, where the call itself failed.
    """
    try:
        return predict(**inputs)
    except AdapterParseError as error:
        reply, most = str(error.lm_response or ""), limits.REPLY_SHOWN_CHARS
        return Unreadable(cut(reply, most), _reason(error, predict))
    except LmFailed as failure:
        if failure.code not in NO_ANSWER:
            raise
        code: Fault = "bad_response" if failure.code == NO_WORD else "unreadable"
        return Unreadable("", _explained(failure.message, predict), code)
    except dspy.LMError:
        raise
    except _UNREADABLE:
        return Unreadable("", _explained("it can't be parsed", predict))


def _reason(error: AdapterParseError, predict: Any) -> str:
    if error.parsed_result is not None:
        lacking = [f"`{name}`" for name in predict.signature.output_fields if name not in error.parsed_result]
        return _explained(f"it lacks {', '.join(lacking)}", predict)
    if not str(error.lm_response or "").strip():
        return _explained("it is empty", predict)
    # dspy appends the whole reply to its message; the agent has just written that.
    words = str(error).split("\n\n", 1)[0].split("Error message: ")[-1]
    return _explained(" ".join(words.split())[: limits.REPLY_REASON_CHARS], predict)


def _explained(what: str, predict: Any) -> str:
    # The headers themselves would be imitated, with this sentence around them.
    fields = ", ".join(f"`{name}`" for name in predict.signature.output_fields)
    return f"{UNREAD}{what}. Write {fields}, each below its header, as you are asked to."


# ---------------------------------------------------------------- code


class CodeOutcome(NamedTuple):
    """The outcome of a step's code: output for the agent, sizes, submission, and fault.

    `terminal` is the error of an interpreter that is gone, which ends the run.
    """

    output: str
    measures: Measures = Measures(stdout_chars=0)
    submission: Submission | None = None
    fault: Fault | None = None
    terminal: CodeInterpreterError | None = None


RunReply = Callable[[str, float], tuple[str, CodeOutcome]]
"""Runs the code of a reply, within so many seconds with its tools; returns the code and its outcome."""


def take_code_step(recorder: Recorder, index: int, action: Any, run: RunReply) -> Submission | None:
    """Run the code of a parsed reply, or explain an unreadable one; record the step, and return what it submitted.

    Raises the terminal error of an interpreter.
    """
    if isinstance(action, Unreadable):
        reasoning, code, ran = action.reply, "", CodeOutcome(ERROR + action.reason, fault=action.code)
    else:
        reasoning = str(action.reasoning)
        code, ran = run(str(action.code), recorder.begin_code())
    step = RunStep(
        index=index, reasoning=reasoning, code=code, output=ran.output, measures=ran.measures, fault=ran.fault
    )
    recorder.step(step)
    # Raised after the step is recorded, because its output shows what ended the interpreter.
    if ran.terminal is not None:
        raise ran.terminal
    return ran.submission


def _code_of_call(tool: str, arguments: Mapping[str, Any]) -> str:
    call = f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    return call if tool == SUBMIT else f"print({call})"


CODE_FORM = StepForm(
    lambda step: {"reasoning": step.reasoning, "code": f"```python\n{step.code}\n```"},
    _code_of_call,
)
"""How an agent writes a step of code."""


def code_of(reply: str) -> str:
    """Return the code of a reply: its first code block, or all of it. Raises SyntaxError for other languages."""
    code: str = _strip_code_fences(reply)
    return code


def run_code(
    interpreter: Any, reply: str, wall_s: float, variables: Mapping[str, Any], told: Iterable[str] = ()
) -> tuple[str, CodeOutcome]:
    """Run the code of a reply with these variables, and return the code and its outcome.

    A sandbox stops it after `wall_s` seconds with its tools. Errors of the code and of the interpreter are in the
    outcome. What it submits is none of the texts `told`, which are read after it ran.
    """
    try:
        code = code_of(reply)
    except SyntaxError as error:
        return reply, CodeOutcome(f"{ERROR}{error}", fault="no_code")
    if not code.strip():
        return "", CodeOutcome(NO_CODE, fault="no_code")
    if isinstance(interpreter, Sandbox):
        interpreter.wall_s = wall_s
    ran = _execute(interpreter, code, variables, told)
    report = getattr(interpreter, "report", None)
    return code, ran if report is None else ran._replace(measures=report.step.measures)


def _execute(interpreter: Any, code: str, variables: Mapping[str, Any], told: Iterable[str]) -> CodeOutcome:
    try:
        return _outcome_of(interpreter.execute(code, variables=dict(variables)), told)
    except SyntaxError as error:
        return _failure(str(error), "syntax")
    except SubmissionRefused as error:
        return _failure(str(error), "refused")
    except CodeExecutionError as error:
        return _failure(str(error), error.loss if isinstance(error, SessionLost) else "raised")
    except CodeInterpreterError as error:
        fault = error.loss if isinstance(error, SandboxExhausted) else "no_sandbox"
        return _failure(str(error), fault)._replace(terminal=error)


def _outcome_of(result: Any, told: Iterable[str]) -> CodeOutcome:
    if isinstance(result, FinalOutput):
        submission = Submission.of(result.output, told)
        return CodeOutcome(submission.output, Measures(), submission=submission)
    printed = "\n".join(map(str, result)) if isinstance(result, list) else str(result or "")
    return CodeOutcome(_cut(printed) or NO_OUTPUT, Measures(stdout_chars=len(printed)))


def _failure(message: str, fault: Fault) -> CodeOutcome:
    return CodeOutcome(_cut(ERROR + message), Measures(), fault=fault)


def _cut(output: str) -> str:
    return cut_middle(encodable(output), sandbox_limits.OTHER_OUTPUT_CHARS)


def sandbox_settings(bounds: RunBounds) -> SandboxSettings:
    """Return the settings of a run's sandboxes."""
    return SandboxSettings(step_code_s=bounds.step_code_s, step_wall_s=bounds.step_wall_s)


def make_sandboxes(run_limits: RunLimits) -> Interpreters:
    """Return a factory of sandboxes that start with their first step."""
    made: Any = partial(Sandbox, settings=sandbox_settings(run_limits.bounds))
    made.execution_instructions = Sandbox.execution_instructions
    return made  # type: ignore[no-any-return]


@contextmanager
def open_interpreter(interpreters: Interpreters, functions: Mapping[str, Any]) -> Iterator[Any]:
    """Open an interpreter with these functions and the fields of SUBMIT; shut it down on exit."""
    interpreter = interpreters()
    try:
        interpreter.tools.update(functions)
        if hasattr(interpreter, "output_fields"):
            interpreter.output_fields = [{"name": name} for name in FIELDS]
        yield interpreter
    finally:
        interpreter.shutdown()
