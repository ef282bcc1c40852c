"""A step of an agent: the prompt and the reply, the code that is run, and its calls of a sub-model. Loads dspy.

Executors share it. So it also has the forced answer, which takes the place of a step at a limit.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import dspy
from dspy.predict.rlm import _strip_code_fences
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events.codec import encodable
from rbank_es.events.run_events import RunBounds
from rbank_es.executors.executor import (
    FIELDS,
    Ending,
    Fault,
    Interpreters,
    Recorder,
    RunLimits,
    RunStep,
    Submission,
    failure_of,
)
from rbank_es.limits import sandbox_limits
from rbank_es.models.call_recorder import NO_WORD
from rbank_es.models.model_call import FATAL
from rbank_es.sandbox.interpreter import Sandbox, SandboxExhausted, SessionLost
from rbank_es.sandbox.session import SandboxSettings
from rbank_es.sandbox.step_outcome import ERROR, Measures, SubmissionRefused
from rbank_es.tools.runtime.run_meter import RunMeter
from rbank_es.tools.runtime.toolbox import Toolbox

_NO_ANSWER = frozenset({NO_WORD, "response_too_long", "cut"})
"""Failures of one answer: the next may be good."""

_PROMPT_TOO_LONG = frozenset({"context_too_long", "request_too_long"})
"""Failures after which a shorter history may succeed."""

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What dspy's parsing was seen to raise beside `AdapterParseError`."""

NO_OUTPUT = "(no output - did you forget to print?)"
"""What an agent is shown of a step that printed nothing (source: dspy.RLM)."""

NO_CODE = f"{ERROR}There was no code in your reply. Write Python code to go on, and SUBMIT to end."

_GAP_CHARS = 80  # room for the line that replaces what is left out


class AgentTask(dspy.Signature):
    """Answer the question from the data that the tools reach. `context` says how to work and what is known."""

    context: str = dspy.InputField(desc="How to work, and what is known so far")
    question: str = dspy.InputField(desc="What is to be answered")
    answer: str = dspy.OutputField(desc="The answer, in words")
    sparql: str = dspy.OutputField(desc="The SPARQL query that the answer rests on; empty if there is none", default="")
    evidence: dict[str, Any] = dspy.OutputField(
        desc="Keys of handles, and IRIs, that the answer rests on", default_factory=dict
    )


def tool_manual(tools: Toolbox) -> str:
    """Return the agent's manual of all tools, a line each, in the order of the toolbox."""
    lines = (f"- `{each.usage}` - {' '.join(each.doc.split())}" for each in tools.manual())
    return "\n".join(lines)


def shorten(output: str, most_chars: int) -> str:
    """Return an output as a prompt shows it: whole, or head and tail with the number of characters between."""
    if len(output) <= most_chars:
        return output
    head = most_chars // 2
    tail = most_chars - head
    left_out = f"\n... ({len(output) - most_chars:,} characters left out) ...\n"
    return output[:head] + left_out + (output[-tail:] if tail else "")


def signature_of(instructions: str) -> Any:
    """Return a signature with the task's inputs and these instructions, to append fields to."""
    fields: Any = AgentTask.input_fields
    return make_signature(fields, instructions)


def extract_signature(history: str, desc: str) -> Any:
    """Return the signature that forces an answer: the inputs and the `history`, then the answer's fields."""
    instructions = f"{AgentTask.instructions}\n\nYour steps are used up: give the answer that they lead to."
    fields: Any = AgentTask.fields
    return make_signature(fields, instructions).insert(2, history, dspy.InputField(desc=desc), str)


# ---------------------------------------------------------------- the agent's replies


class Unreadable(NamedTuple):
    """A reply without usable fields: its beginning, and the explanation for the agent.

    `code` tells whose fault it is: the agent's, or that of the provider, which gave no word of the model.
    """

    reply: str
    reason: str
    code: str = "unreadable"


def ask(predict: Any, **inputs: Any) -> Any:
    """Return the model's fields as a `dspy.Prediction`, or `Unreadable`.

    Raises `LmFailed`, and other errors of dspy, where the call itself failed.
    """
    try:
        return predict(**inputs)
    except AdapterParseError as error:
        reply, most = str(error.lm_response or ""), limits.REPLY_SHOWN_CHARS
        return Unreadable(reply if len(reply) <= most else reply[:most] + "…", _reason(error, predict))
    except LmFailed as failure:
        if failure.code not in _NO_ANSWER:
            raise
        code = NO_WORD if failure.code == NO_WORD else "unreadable"
        return Unreadable("", _explained(failure.message, predict), code)
    except dspy.LMError:
        raise
    except _UNREADABLE as error:
        return Unreadable("", _explained(f"it can't be parsed ({type(error).__name__})", predict))


def ask_shortened(ask_with: Callable[[int], Any], left_out: int, steps: int) -> tuple[Any, int]:
    """Call `ask_with(left_out)` until the prompt fits: each retry leaves out half of the remaining history.

    `steps` is the length of the history, `left_out` the number of its first steps that are left out from the start.
    Returns the result, and the final `left_out`. Raises what `ask_with` raises; for a prompt that is too long, only
    when no step is left.
    """
    while True:
        try:
            return ask_with(left_out), left_out
        except LmFailed as failure:
            if failure.code not in _PROMPT_TOO_LONG or left_out >= steps:
                raise
        # Rounded up, so that each retry leaves out one step at least.
        left_out += (steps - left_out + 1) // 2


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
    headings = ", ".join(f"[[ ## {name} ## ]]" for name in predict.signature.output_fields)
    return f"Your reply could not be read: {what}. Write {headings}, each on a line of its own, its text below it."


def force_answer(recorder: Recorder, ask_once: Callable[[], Any]) -> Ending:
    """Ask once for the answer, because a limit is reached. If that fails, the outcome has no answer.

    `ask_once` returns fields as `ask` does. Raises `RunStopped` and `LmFailed` where no more calls may be made.
    """
    recorder.after_steps()
    try:
        given = ask_once()
    except (LmFailed, dspy.LMError) as error:
        code, message = failure_of(error)
        # The run must fail, because no later call of it could be recorded or repeated.
        if code in FATAL:
            raise
        return Ending("forced_at_limit", None, code, message)
    if isinstance(given, Unreadable):
        return Ending("forced_at_limit", None, given.code, given.reason)
    try:
        return Ending("forced_at_limit", Submission.of({name: given.get(name) for name in FIELDS}))
    except SubmissionRefused:
        return Ending("forced_at_limit", None, "unreadable", "the model gave no answer when it was asked for one")


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


def take_code_step(recorder: Recorder, index: int, action: Any, run: RunReply) -> tuple[RunStep, Submission | None]:
    """Run the code of a parsed reply, or explain an unreadable one; record the step, and return it.

    Raises the terminal error of an interpreter.
    """
    if isinstance(action, Unreadable):
        reasoning, code, ran = action.reply, "", CodeOutcome(ERROR + action.reason, fault="unreadable")
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
    return step, ran.submission


def code_of(reply: str) -> str:
    """Return the code of a reply: its first code block, or all of it. Raises SyntaxError for other languages."""
    code: str = _strip_code_fences(reply)
    return code


def run_code(interpreter: Any, reply: str, wall_s: float, variables: Mapping[str, Any]) -> tuple[str, CodeOutcome]:
    """Run the code of a reply with these variables, and return the code and its outcome.

    A sandbox stops it after `wall_s` seconds with its tools. Errors of the code and of the interpreter are in the
    outcome.
    """
    try:
        code = code_of(reply)
    except SyntaxError as error:
        return reply, CodeOutcome(f"{ERROR}{error}", fault="no_code")
    if not code.strip():
        return "", CodeOutcome(NO_CODE, fault="no_code")
    if isinstance(interpreter, Sandbox):
        interpreter.wall_s = wall_s
    ran = _execute(interpreter, code, variables)
    report = getattr(interpreter, "report", None)
    return code, ran if report is None else ran._replace(measures=report.step.measures)


def _execute(interpreter: Any, code: str, variables: Mapping[str, Any]) -> CodeOutcome:
    try:
        return _outcome_of(interpreter.execute(code, variables=dict(variables)))
    except SyntaxError as error:
        return _failure(str(error), "syntax")
    except SubmissionRefused as error:
        return _failure(str(error), "refused")
    except CodeExecutionError as error:
        return _failure(str(error), error.loss if isinstance(error, SessionLost) else "raised")
    except CodeInterpreterError as error:
        fault = error.loss if isinstance(error, SandboxExhausted) else "no_sandbox"
        return _failure(str(error), fault)._replace(terminal=error)


def _outcome_of(result: Any) -> CodeOutcome:
    if isinstance(result, FinalOutput):
        submission = Submission.of(result.output)
        return CodeOutcome(submission.output, Measures(), submission=submission)
    printed = "\n".join(map(str, result)) if isinstance(result, list) else str(result or "")
    return CodeOutcome(_truncate(encodable(printed)) or NO_OUTPUT, Measures(stdout_chars=len(printed)))


def _failure(message: str, fault: Fault) -> CodeOutcome:
    return CodeOutcome(_truncate(encodable(ERROR + message)), Measures(), fault=fault)


def _truncate(output: str) -> str:
    if len(output) <= sandbox_limits.OTHER_OUTPUT_CHARS:
        return output
    half = (sandbox_limits.OTHER_OUTPUT_CHARS - _GAP_CHARS) // 2
    return f"{output[:half]}\n... {len(output) - 2 * half:,} characters left out ...\n{output[-half:]}"


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


# ---------------------------------------------------------------- sub-calls


class SubCalls:
    """`llm_query` and `llm_query_batched` of one run, with one limit of prompts. Safe for several threads."""

    def __init__(self, lm: Callable[[str], Any], allowed: int, meter: RunMeter | None = None) -> None:
        """Send at most `allowed` prompts to `lm`, a `dspy.LM`, within the bounds that `meter` counts against."""
        self.allowed = allowed
        self._meter = meter or RunMeter()
        self.used = 0
        self._lm = lm
        self._mutex = threading.Lock()

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions that an agent may call, by name."""
        return {"llm_query": self.llm_query, "llm_query_batched": self.llm_query_batched}

    def llm_query(self, prompt: str) -> str:
        """Send one prompt to the sub-model, and return its answer."""
        _check(prompt)
        self._take([prompt])
        return self._answer(prompt)

    def llm_query_batched(self, prompts: list[str]) -> list[str]:
        """Send prompts side by side, and return the answers in order; "[ERROR] why" for one that failed."""
        if isinstance(prompts, str) or not isinstance(prompts, list | tuple):
            raise TypeError("llm_query_batched takes a list of texts")
        for prompt in prompts:
            _check(prompt)
        # After all prompts were checked, so that a refused batch costs no sub-calls.
        self._take(prompts)
        workers = ThreadPoolExecutor(max_workers=limits.SUB_CALLS_AT_ONCE)
        try:
            # dspy's settings are in context variables, which a thread of a pool doesn't inherit.
            asked = [
                workers.submit(contextvars.copy_context().run, self._answer_or_error, prompt) for prompt in prompts
            ]
            return [each.result() for each in asked]
        finally:
            # Cancel, because an interrupted run must not wait, or pay, for prompts that were not sent yet.
            workers.shutdown(cancel_futures=True)

    def _take(self, prompts: Sequence[str]) -> None:
        number = len(prompts)
        excess = self._meter.room_for_text("".join(prompts))
        if excess is not None:
            raise RuntimeError(f"{excess.message}; {excess.hint}")
        with self._mutex:
            if self.used + number > self.allowed:
                left = self.allowed - self.used
                raise RuntimeError(f"{number} more sub-calls are over the limit of {self.allowed}; {left} are left")
            self.used += number

    def _answer_or_error(self, prompt: str) -> str:
        # Prompts of a batch wait for each other, each as long as a model may take.
        if self._meter.step_left_s <= 0:
            return "[ERROR] the time of this step is over"
        try:
            return self._answer(prompt)
        except dspy.LMError as error:
            return f"[ERROR] {error}"

    def _answer(self, prompt: str) -> str:
        # dspy returns a text, or a list of texts, of dicts or of objects with `text`.
        given = self._lm(prompt)
        first = given[0] if isinstance(given, list) and given else given
        text = first.get("text") if isinstance(first, dict) else getattr(first, "text", first)
        return text if isinstance(text, str) else ""


def _check(prompt: object) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("a prompt is a text with words in it")
