"""The reply of an agent's model: unreadable ones, those to a prompt that is too long, the forced answer. Loads no dspy.

Executors share it, whatever client they ask through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es.errors import LmFailed
from rbank_es.executors.executor import Ending, Recorder, failure_of
from rbank_es.executors.run_step import Fault
from rbank_es.executors.submission import FIELDS, Submission
from rbank_es.models.call_recorder import NO_WORD
from rbank_es.models.model_call import FATAL
from rbank_es.models.prompt_truncation import TOO_LONG
from rbank_es.sandbox.step_outcome import SubmissionRefused

if TYPE_CHECKING:
    from rbank_es.models.prompt_priorities import GivingWay

NO_ANSWER = frozenset({NO_WORD, "response_too_long", "cut"})
"""Failures of one answer: the next may be good."""


class Unreadable(NamedTuple):
    """A reply without usable fields: its beginning, and the explanation for the agent.

    `code` tells whose fault it is: the agent's, or that of the provider, which gave no word of the model.
    """

    reply: str
    reason: str
    code: Fault = "unreadable"


def ask_shortened(ask_with: Callable[[int], Any], left_out: int, steps: int, giving_way: GivingWay) -> tuple[Any, int]:
    """Call `ask_with(left_out)` until the prompt fits: each retry shortens half of the remaining history.

    `steps` is the length of the history, `left_out` the number of its first steps that are not shown whole from the
    start. After the history, the parts of `giving_way` go. Returns the result, and the final `left_out`. Raises what
    `ask_with` raises; for a prompt that is too long, only when nothing is left that may go.
    """
    while True:
        try:
            return ask_with(left_out), left_out
        except LmFailed as failure:
            if failure.code not in TOO_LONG or (left_out >= steps and not giving_way.next()):
                raise
        giving_way.of_history |= left_out < steps
        # Rounded up, so that each retry leaves out one step at least.
        left_out += (steps - left_out + 1) // 2


def take_steps(
    recorder: Recorder, iterations: int, step: Callable[[int], Submission | None], force: Callable[[], Ending]
) -> Ending:
    """Take steps by number until one submits; `force` an answer when a bound is spent or there are no more."""
    for number in range(1, iterations + 1):
        if recorder.spent is not None:
            break
        submission = step(number)
        if submission is not None:
            return Ending("submitted", submission)
    return force()


def force_answer(recorder: Recorder, ask_once: Callable[[], Any]) -> Ending:
    """Ask once for the answer, because a limit is reached. If that fails, the outcome has no answer.

    `ask_once` returns fields by name, or `Unreadable`. Raises `RunStopped` and `LmFailed` where no more calls may be
    made.
    """
    recorder.after_steps()
    try:
        given = ask_once()
    except LmFailed as failure:
        # The run must fail, because no later call of it could be recorded or repeated.
        if failure.code in FATAL:
            raise
        return Ending("forced_at_limit", None, *failure_of(failure))
    if isinstance(given, Unreadable):
        return Ending("forced_at_limit", None, given.code, given.reason)
    try:
        fields = {name: given.get(name) for name in FIELDS}
        return Ending("forced_at_limit", Submission.of(fields, recorder.told()))
    except SubmissionRefused:
        return Ending("forced_at_limit", None, "unreadable", "the model gave no answer when it was asked for one")
