"""Work in several threads that may wait for a model: daemons, because an interrupted program must not wait for one."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence

from rbank_es.system.error_messages import message_of

JOIN_WAIT_S = 0.2
"""The longest wait of the calling thread before it can be interrupted."""


def run_threads(works: Sequence[Callable[[], None]]) -> None:
    """Call functions at once, each in a thread with the caller's context variables, which dspy keeps settings in.

    Returns when all have returned, or raises what interrupts the caller. They must raise nothing.
    """
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(JOIN_WAIT_S)


def first_error(errors: Sequence[BaseException]) -> BaseException:
    """Return the first of some errors; what the others said is in its notes."""
    for other in errors[1:]:
        errors[0].add_note(message_of(other))
    return errors[0]
