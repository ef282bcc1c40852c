"""What every executor tells its agent: the task's fields, and the tools. Importing this module loads dspy."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import dspy
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.tools.runtime.toolbox import Toolbox


class AgentTask(dspy.Signature):
    """Answer the question from the data that the tools reach. `context` says how to work and what is known."""

    context: str = dspy.InputField(desc="How to work, and what is known so far")
    question: str = dspy.InputField(desc="What is to be answered")
    answer: str = dspy.OutputField(desc="The answer, in words")
    sparql: str = dspy.OutputField(desc="The SPARQL query that the answer rests on; empty if there is none")
    evidence: dict[str, Any] = dspy.OutputField(desc="Keys of handles, and IRIs, that the answer rests on")


def tool_manual(tools: Toolbox) -> str:
    """Every tool as the agent is told about it, a line each, in the order of the toolbox."""
    lines = (f"- `{each.usage}` - {' '.join(each.doc.split())}" for each in tools.manual())
    return "\n".join(lines)


def shorten(output: str, most_chars: int) -> str:
    """An output as a prompt shows it: whole, or its head and tail with what is left out named."""
    if len(output) <= most_chars:
        return output
    head = most_chars // 2
    tail = most_chars - head
    left_out = f"\n... ({len(output) - most_chars:,} characters left out) ...\n"
    return output[:head] + left_out + (output[-tail:] if tail else "")


def signature_of(told: str) -> Any:
    """A signature with the task's inputs and these instructions, to which fields are appended."""
    fields: Any = AgentTask.input_fields
    return make_signature(fields, told)


def extract_signature(history: str, desc: str) -> Any:
    """The signature of the last call of a run without a submission: the inputs and the `history`, then the answer."""
    told = f"{AgentTask.instructions}\n\nYour steps are used up: give the answer that they lead to."
    fields: Any = AgentTask.fields
    return make_signature(fields, told).insert(2, history, dspy.InputField(desc=desc), str)


_NO_ANSWER = frozenset({"bad_response", "response_too_long"})
"""Failures of a model that are about this one answer: the next may be good."""

_PROMPT_TOO_LONG = frozenset({"context_too_long", "request_too_long"})
"""Failures of a model that a shorter history may mend."""

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What dspy's parsing was seen to raise for answers that it did not foresee; `AdapterParseError` is for the others."""

_REASON_CHARS = 300


class Unreadable(NamedTuple):
    """A reply that holds no fields that can be used: its beginning, and why, for the agent."""

    reply: str
    reason: str


def ask(predict: Any, **inputs: Any) -> Any:
    """The fields that the model gives, as a `dspy.Prediction`, or `Unreadable`.

    Raises what dspy raises where the model could not be asked, `LmFailed` among it.
    """
    try:
        return predict(**inputs)
    except AdapterParseError as error:
        return Unreadable(_beginning(str(error.lm_response or "")), _reason(error, predict))
    except LmFailed as failure:
        if failure.code not in _NO_ANSWER:
            raise
        return Unreadable("", _told(failure.message, predict))
    except dspy.LMError:
        raise
    except _UNREADABLE as error:
        return Unreadable("", _told(f"it can't be parsed ({type(error).__name__})", predict))


def ask_shortened(asked: Callable[[int], Any], left_out: int, steps: int) -> tuple[Any, int]:
    """Ask with a history of so many steps, the first `left_out` of which the prompt leaves out. Where that is still too
    long for the model, half of the rest is left out as well, and so on.

    Returns what `asked` gave, and how many steps were left out in the end. Raises what `asked` raises, of a prompt that
    is too long only where it holds no step any more.
    """
    while True:
        try:
            return asked(left_out), left_out
        except LmFailed as failure:
            if failure.code not in _PROMPT_TOO_LONG or left_out >= steps:
                raise
        left_out += (steps - left_out + 1) // 2


def _beginning(reply: str) -> str:
    most = limits.REPLY_SHOWN_CHARS
    return reply if len(reply) <= most else reply[:most] + "…"


def _reason(error: AdapterParseError, predict: Any) -> str:
    if error.parsed_result is not None:
        lacking = [f"`{name}`" for name in predict.signature.output_fields if name not in error.parsed_result]
        return _told(f"it lacks {', '.join(lacking)}", predict)
    if not str(error.lm_response or "").strip():
        return _told("it is empty", predict)
    words = str(error).split("\n\n", 1)[0].split("Error message: ")[-1]
    return _told(" ".join(words.split())[:_REASON_CHARS], predict)


def _told(what: str, predict: Any) -> str:
    headings = ", ".join(f"[[ ## {name} ## ]]" for name in predict.signature.output_fields)
    return f"Your reply could not be read: {what}. Write {headings}, each on a line of its own, its text below it."


WORKERS = 8
"""Sub-calls that are made side by side (source: dspy.RLM)."""


class SubCalls:
    """`llm_query` and `llm_query_batched` for one run; no more prompts than allowed. For any thread."""

    def __init__(self, lm: Callable[[str], Any], allowed: int) -> None:
        """Prompts go to `lm`, a `dspy.LM`; `allowed` of them in all."""
        self.allowed = allowed
        self.used = 0
        self._lm = lm
        self._mutex = threading.Lock()

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """What an agent may call, by name."""
        return {"llm_query": self.llm_query, "llm_query_batched": self.llm_query_batched}

    def llm_query(self, prompt: str) -> str:
        """Ask the sub-model one prompt; its words."""
        _check(prompt)
        self._take(1)
        return self._asked(prompt)

    def llm_query_batched(self, prompts: list[str]) -> list[str]:
        """Ask the sub-model many prompts side by side; its words, in order. One that fails gives "[ERROR] why"."""
        if isinstance(prompts, str) or not isinstance(prompts, list | tuple):
            raise TypeError("llm_query_batched takes a list of texts")
        for prompt in prompts:
            _check(prompt)
        self._take(len(prompts))
        workers = ThreadPoolExecutor(max_workers=WORKERS)
        try:
            asked = [workers.submit(contextvars.copy_context().run, self._said, prompt) for prompt in prompts]
            return [each.result() for each in asked]
        finally:
            # Whoever interrupts the run must not wait, or pay, for prompts that were not sent yet.
            workers.shutdown(cancel_futures=True)

    def _take(self, number: int) -> None:
        with self._mutex:
            if self.used + number > self.allowed:
                left = self.allowed - self.used
                raise RuntimeError(f"{number} more sub-calls are over the limit of {self.allowed}; {left} are left")
            self.used += number

    def _said(self, prompt: str) -> str:
        from dspy import LMError

        try:
            return self._asked(prompt)
        except LMError as error:
            return f"[ERROR] {error}"

    def _asked(self, prompt: str) -> str:
        """The words of the first answer, in whichever form dspy gives it."""
        given = self._lm(prompt)
        first = given[0] if isinstance(given, list) and given else given
        text = first.get("text") if isinstance(first, dict) else getattr(first, "text", first)
        return text if isinstance(text, str) else ""


def _check(prompt: object) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("a prompt is a text with words in it")
