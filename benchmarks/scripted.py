"""A scripted run of six steps: a model with the same answers in every run, after a latency, and one small tool."""

from __future__ import annotations

import threading
import time
from typing import Any

from rbank_es.models.scripted_model import rendered

QUESTION = "How many words are in each of these texts?"
CONTEXT = "Answer the question with the tool, step by step. " * 40
LATENCY_S = 0.2
"""The latency of a fast model behind a network."""

CODE = (
    "first = count_words('the light on the rock')\nprint(first)",
    "counts = [count_words(text) for text in ('a b', 'c d e', 'f')]\nprint(counts)",
    "import collections\nseen = collections.Counter(len(str(each)) for each in counts)\nprint(seen)",
    "total = sum(each['words'] for each in counts) + first['words']\nprint(total)",
    "print(count_words('one more text, to be sure'), total)",
    "SUBMIT(answer=f'{total} words', sparql='', evidence={'total': total})",
)
STEPS = len(CODE)
ANSWER = "11 words"


def count_words(text: str) -> dict[str, Any]:
    """Count words. Args: text: any text. Example: count_words('a b')"""
    return {"words": len(text.split()), "head": text[:20]}


DEFINED = "def count_words(text):\n    return {'words': len(text.split()), 'head': text[:20]}\n\n"
"""The tool as code, for runs that have other tools."""


class Scripted:
    """A model engine that answers each thread with the next step of `CODE`, and after the last with the first."""

    def __init__(self, latency_s: float = 0.0, *, defined: bool = False) -> None:
        """Keep the latency; with `defined`, the first step defines the tool in code."""
        self._latency_s, self._local = latency_s, threading.local()
        self._code = (DEFINED + CODE[0], *CODE[1:]) if defined else CODE

    def complete(self, request: Any) -> Any:
        """Return the next step."""
        from dspy.lm15 import Message, Response, Usage

        at = getattr(self._local, "at", 0)
        self._local.at = (at + 1) % STEPS
        if self._latency_s:
            time.sleep(self._latency_s)
        text = rendered({"reasoning": f"Step {at + 1}.", "code": f"```python\n{self._code[at]}\n```"})
        usage = Usage(input_tokens=1_000, output_tokens=100)
        message = Message.assistant(text)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)
