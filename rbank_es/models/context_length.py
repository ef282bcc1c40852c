"""The length of a model's context: how servers refuse what is longer, and how the tokens of a prompt are estimated.

A prompt and its reply share the context.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection

from rbank_es import limits
from rbank_es.limits import reply_limits
from rbank_es.system.token_estimate import estimated_tokens

TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_exceeded"})
"""Codes and types in the bodies of OpenAI, of llama.cpp, and of servers built like it."""

_TOO_LONG = re.compile(
    r"maximum context length|context (?:size|window|length)|\bn_ctx\b"  # OpenAI, vLLM, llama.cpp, Ollama
    r"|max_tokens must be at least 1, got -"  # vLLM, where the prompt alone is too long
    r"|(?:prompt|input)(?: length)? (?:is |are )?(?:too long|exceeds)|longer than the (?:maximum|model)",
    re.IGNORECASE,
)
_LENGTH = re.compile(
    r"(?:maximum context length (?:is|of)|context (?:size|window|length)(?: of)?|n_ctx)\W{0,4}(\d[\d,]*)", re.IGNORECASE
)


def says_too_long(status: int | None, said: str, named: Collection[str] = ()) -> bool:
    """Return whether a refusal says that the request is longer than the context: by its codes, else by its words."""
    # An overloaded server may speak of its context, too.
    return not TOO_LONG_CODES.isdisjoint(named) or (status in (400, 413, 422, 500) and bool(_TOO_LONG.search(said)))


def length_in(said: str) -> int | None:
    """Return the tokens of the context that a refusal names; None if it names none."""
    found = _LENGTH.search(said)
    tokens = int(found[1].replace(",", "")[: limits.INTEGER_DIGITS]) if found else 0
    return tokens or None


# ---------------------------------------------------------------- tokens


class TokenEstimates:
    """Estimates of prompts' tokens, corrected by what the server reported of those before. Safe for several threads."""

    def __init__(self) -> None:
        self._factors: dict[str, float] = {}
        self._mutex = threading.Lock()

    def tokens(self, model: str, text: str) -> int:
        """Return the tokens that a prompt has at most."""
        with self._mutex:
            return round(estimated_tokens(text) * self._factors.get(model, 1.0))

    def correct(self, model: str, text: str, reported: int) -> None:
        """Take the tokens that the server reported for a prompt as the measure of the next."""
        estimated = estimated_tokens(text)
        # A server that cut the prompt, or counts only what no cache had, reports too few to be believed.
        if not estimated or reported * reply_limits.ESTIMATE_LEAST_SHARE < estimated:
            return
        with self._mutex:
            self._factors[model] = reply_limits.ESTIMATE_MARGIN * reported / estimated


def room_for_reply(length: int, prompt: int, most: int | None) -> int | None:
    """Return the tokens that a reply may have beside its prompt, at most `most`; None if the prompt leaves no room.

    Room is what the reply may have, or an eighth of the context where that is less.
    """
    left = length - prompt
    wanted = most if most is not None else length
    least = max(reply_limits.REPLY_TOKENS_LEAST, length // reply_limits.REPLY_SHARE)
    return min(left, wanted) if left >= min(wanted, least) and left > 0 else None
