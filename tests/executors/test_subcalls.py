"""Sub-calls: counted for the whole run, whoever makes them, and none after an interruption."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.executors.sub_calls import SubCalls


@pytest.mark.parametrize("prompt", ["Which lights can be seen?", "which lights ", "Lights can be seen"])
def test_a_prompt_that_says_no_more_than_the_question_is_refused(prompt: str) -> None:
    """Small models asked themselves their question, without any data, until their run stalled."""
    calls = SubCalls(str.upper, 25, question="Which lights can be seen from the Marigold?")
    with pytest.raises(ValueError, match="says no more than your question: find data"):
        calls.llm_query_batched([prompt])
    assert calls.used == 0 and calls.llm_query(f"{prompt} Rows: a, b") == f"{prompt} Rows: a, b".upper()


def test_after_an_interruption_no_prompt_is_sent_that_was_not_sent_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take minutes and cost money."""
    sent: list[str] = []

    def lm(prompt: str) -> str:
        sent.append(prompt)
        if prompt == "0":
            raise KeyboardInterrupt
        interrupted.wait(60)
        return prompt

    def cancelled(self: ThreadPoolExecutor, **given: Any) -> None:
        """As it is, and the prompts that were sent are answered as soon as no other one can be."""
        shutdown(self, wait=False, **given)
        interrupted.set()
        shutdown(self)

    interrupted, shutdown = threading.Event(), ThreadPoolExecutor.shutdown
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", cancelled)

    calls = SubCalls(lm, 25)
    with pytest.raises(KeyboardInterrupt):
        calls.llm_query_batched([str(number) for number in range(25)])
    assert len(sent) <= 2 * limits.SUB_CALLS_AT_ONCE
