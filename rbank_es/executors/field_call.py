"""Asking a model for fields, where what comes back may be anything. Importing this module loads dspy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import AdapterParseError

from rbank_es import limits
from rbank_es.errors import LmFailed

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
