"""Calls of an executor to its models: the agent's prompts and replies, the forced answer, sub-calls. Loads dspy."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import dspy
from dspy.primitives.code_interpreter import CodeInterpreterError
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError

from rbank_es import limits
from rbank_es.errors import LmFailed, RBankError, SandboxUnavailable
from rbank_es.executors.executor import FIELDS, Ending, Recorder, RunStopped, Submission
from rbank_es.models.model_call import FATAL
from rbank_es.sandbox.interpreter import SandboxExhausted
from rbank_es.sandbox.step_outcome import RecordingDiffers, SubmissionRefused
from rbank_es.tools.runtime.run_meter import RunMeter
from rbank_es.tools.runtime.toolbox import Toolbox

_NO_ANSWER = frozenset({"bad_response", "response_too_long"})
"""Failures of one answer: the next may be good."""

_PROMPT_TOO_LONG = frozenset({"context_too_long", "request_too_long"})
"""Failures after which a shorter history may succeed."""

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What dspy's parsing was seen to raise beside `AdapterParseError`."""


class AgentTask(dspy.Signature):
    """Answer the question from the data that the tools reach. `context` says how to work and what is known."""

    context: str = dspy.InputField(desc="How to work, and what is known so far")
    question: str = dspy.InputField(desc="What is to be answered")
    answer: str = dspy.OutputField(desc="The answer, in words")
    sparql: str = dspy.OutputField(desc="The SPARQL query that the answer rests on; empty if there is none")
    evidence: dict[str, Any] = dspy.OutputField(desc="Keys of handles, and IRIs, that the answer rests on")


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
    """A reply without usable fields: its beginning, and the explanation for the agent."""

    reply: str
    reason: str


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
        return Unreadable("", _explained(failure.message, predict))
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
        return Ending("forced_at_limit", None, "unreadable", given.reason)
    try:
        return Ending("forced_at_limit", Submission.of({name: given.get(name) for name in FIELDS}))
    except SubmissionRefused:
        return Ending("forced_at_limit", None, "unreadable", "the model gave no answer when it was asked for one")


def failure_of(error: BaseException) -> tuple[str, str]:
    """Return code and message of the error that ended a run."""
    # dspy wraps ours in an error of its own where it sends a batch.
    if not isinstance(error, LmFailed) and isinstance(error, dspy.LMError) and isinstance(error.__cause__, LmFailed):
        error = error.__cause__
    if isinstance(error, (RunStopped, LmFailed, SandboxUnavailable)):
        return error.code, str(error)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, str(error)
    return "unexpected", f"{type(error).__name__}: {error}"


# Special before general: the first class that fits decides.
_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (SandboxExhausted, "sandbox_exhausted"),
    (CodeInterpreterError, "sandbox_failed"),
    (RecordingDiffers, "replay_differs"),
    (RBankError, "unexpected"),
)


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
        self._take(prompts)
        workers = ThreadPoolExecutor(max_workers=limits.SUB_CALLS_AT_ONCE)
        try:
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
