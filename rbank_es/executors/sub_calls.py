"""Sub-calls: the questions that an agent asks of the sub-model, counted for the whole run. Loads no dspy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.tools.shared.call_budget import RunMeter

if TYPE_CHECKING:
    from rbank_es.executors.executor import RunLimits
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.shared.tool_family import ToolSession


def sub_calls(lms: Lms, limits: RunLimits, session: ToolSession) -> SubCalls:
    """Return the sub-calls of a run, to its sub-model, within the bounds that the meter of `session` counts against."""

    def answer(prompt: str) -> str:
        return lms.ask("sub", [{"role": "user", "content": prompt}]).text

    return SubCalls(answer, limits.subcalls, session.meter, question=session.question)


class SubCalls:
    """`llm_query` and `llm_query_batched` of one run, with one limit of prompts. Safe for several threads."""

    def __init__(
        self, answer: Callable[[str], str], allowed: int, meter: RunMeter | None = None, *, question: str = ""
    ) -> None:
        """Send at most `allowed` prompts to `answer`, which returns a text or raises `LmFailed`; `meter` counts too.

        A prompt that holds no word that the run's `question` doesn't is refused: nothing is in it to read.
        """
        self._question = _words(question)
        self.allowed = allowed
        self._meter = meter or RunMeter()
        self.used = 0
        self._answer = answer
        self._mutex = threading.Lock()

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions that an agent may call, by name."""
        return {"llm_query": self.llm_query, "llm_query_batched": self.llm_query_batched}

    def llm_query(self, prompt: str) -> str:
        """Send one prompt to the sub-model, and return its answer."""
        self._check(prompt)
        self._take([prompt])
        return self._answer(prompt)

    def llm_query_batched(self, prompts: list[str]) -> list[str]:
        """Send prompts side by side, and return the answers in order; "[ERROR] why" for one that failed."""
        if isinstance(prompts, str) or not isinstance(prompts, list | tuple):
            raise TypeError("llm_query_batched takes a list of texts")
        for prompt in prompts:
            self._check(prompt)
        # After all prompts were checked, so that a refused batch costs no sub-calls.
        self._take(prompts)
        workers = ThreadPoolExecutor(max_workers=limits.SUB_CALLS_AT_ONCE)
        try:
            asked = [workers.submit(self._answer_or_error, prompt) for prompt in prompts]
            return [each.result() for each in asked]
        finally:
            # Cancel, because an interrupted run must not wait, or pay, for prompts that were not sent yet.
            workers.shutdown(cancel_futures=True)

    def _take(self, prompts: Sequence[str]) -> None:
        number = len(prompts)
        excess = self._meter.room_for_text("".join(prompts)) or self._meter.room_for_prompts(prompts)
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
        except LmFailed as error:
            return f"[ERROR] {error}"

    def _check(self, prompt: object) -> None:
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValueError("a prompt is a text with words in it")
        if _words(prompt) <= self._question:
            why = "a sub-model sees no data and has no tools, only the prompt, which says no more than your question"
            raise ValueError(f"{why}: find data with the other tools, and give it what takes reading")


def _words(text: str) -> set[str]:
    return {*text.casefold().replace("?", " ").split()}
