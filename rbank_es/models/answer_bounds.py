"""Bounds of an answer: its time and its bytes, whatever gives it."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rbank_es import limits
from rbank_es.models.model_call import failed

Result = TypeVar("Result")


class AnswerDeadline:
    """The time until which something must have come; `words` say what was missed."""

    def __init__(self, seconds: float, words: str) -> None:
        self.restart(seconds, words)

    def restart(self, seconds: float, words: str) -> None:
        """Give so many seconds from now."""
        self.words, self._end = words, time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Raise `LmFailed('timeout')` once the time is over."""
        if self.left_s <= 0:
            raise failed("timeout", self.words)


def run_within(limit: float | AnswerDeadline, work: Callable[[], Result]) -> Result:
    """Return the result of `work`, or raise its error; `LmFailed('timeout')` after so many seconds.

    `work` may move a deadline on.

    After a timeout the work goes on in a daemon thread, because a connection that waits can't be closed from outside.
    """
    # A queue instead of a future, because an executor's threads would block the exit of the process.
    done: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="model call", daemon=True).start()
    deadline = (
        limit
        if isinstance(limit, AnswerDeadline)
        else AnswerDeadline(limit, f"the model gave no answer within {limit:g} s")
    )
    while True:
        try:
            result, error = done.get(timeout=max(0.0, deadline.left_s))
            break
        except queue.Empty:
            deadline.check()
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def bounded(pieces: Iterable[bytes], deadline: AnswerDeadline | None = None) -> Iterator[bytes]:
    """Yield the pieces of an answer. Raises `LmFailed`: response_too_long beyond `LM_RESPONSE_BYTES`, timeout."""
    left = limits.LM_RESPONSE_BYTES
    for piece in pieces:
        # `run_within` gave up at the end too, but its thread would go on to read.
        if deadline is not None:
            deadline.check()
        left -= len(piece)
        if left < 0:
            raise failed("response_too_long", f"the answer has more than {limits.LM_RESPONSE_BYTES:,} bytes")
        yield piece
