"""Prompts that are longer than a model reads: the texts in them that lose their middle until the rest fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from rbank_es.errors import LmFailed
from rbank_es.limits import reply_limits
from rbank_es.system.text_cuts import cut_middle

Answer = TypeVar("Answer")

TOO_LONG = frozenset({"context_too_long", "request_too_long"})
"""Failures after which a shorter prompt may succeed."""


def ask_with_room(given: Mapping[str, str], ask: Callable[[Mapping[str, str]], Answer]) -> Answer:
    """Call `ask(given)` until the prompt of these texts fits: each retry leaves out half of the longest, in its middle.

    Raises what `ask` raises; for a prompt that is too long, only when no text has more than `GIVEN_TEXT_LEAST_CHARS`.
    """
    while True:
        longest = max(given, key=lambda name: len(given[name]))
        try:
            return ask(given)
        except LmFailed as failure:
            if failure.code not in TOO_LONG or len(given[longest]) <= reply_limits.GIVEN_TEXT_LEAST_CHARS:
                raise
        given = {**given, longest: cut_middle(given[longest], len(given[longest]) // 2)}
