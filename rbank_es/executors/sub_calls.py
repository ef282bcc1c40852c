"""Sub-calls: the model that an agent's code may ask, one prompt or many side by side, under one count."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
