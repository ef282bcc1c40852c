"""Bounds of an answer: its time and its bytes, whatever gives it."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rbank_es import limits
from rbank_es.models.model_call import failed

Result = TypeVar("Result")


def run_within(seconds: float, work: Callable[[], Result]) -> Result:
    """Return the result of `work`, or raise its error; `LmFailed('timeout')` after so many seconds.

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
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise failed("timeout", f"the model gave no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of an answer. Raises `LmFailed` (response_too_long) once they exceed `LM_RESPONSE_BYTES`."""
    left = limits.LM_RESPONSE_BYTES
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise failed("response_too_long", f"the answer has more than {limits.LM_RESPONSE_BYTES:,} bytes")
        yield piece
