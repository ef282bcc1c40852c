"""Ctrl-C during the work of agents: once ends it cleanly, a second time leaves the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rbank_es.cli.shared.main import INTERRUPTED
from rbank_es.cli.shared.output import warn
from rbank_es.events import RunFinished
from rbank_es.events.readable_text import count


@contextmanager
def interruptible(kept: Callable[[], str], advice: str) -> Iterator[None]:
    """Let the first Ctrl-C end the work of the block, which then says what was kept and how to go on.

    A second one leaves the process at once, with the exit code of an interruption: what is in the log stays there.
    Without effect on signals where the process ignores Ctrl-C, or in another thread than the first.
    """
    before = signal.getsignal(signal.SIGINT)
    handles = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    pressed = False

    def handle(*_: object) -> None:
        nonlocal pressed
        if pressed:
            # Nothing is cleaned up, because whoever presses twice waits for something that doesn't end.
            os._exit(INTERRUPTED)
        pressed = True
        raise KeyboardInterrupt

    if handles:
        signal.signal(signal.SIGINT, handle)
    try:
        yield
    except KeyboardInterrupt as interrupted:
        told = f"interrupted. {kept()}. {advice}"
        warn(told)
        interrupted.args = (told,)
        raise
    finally:
        # After a first one the handler stays for the way out: closing sandboxes and servers may take long.
        if handles and not pressed:
            signal.signal(signal.SIGINT, before)


def kept_of(done: int, tasks: int, ends: Sequence[RunFinished]) -> str:
    """Return what an interrupted loop keeps: its finished tasks, and of the runs that it ended the steps."""
    cut = [each for each in ends if each.error_code == "interrupted"]
    runs = [f"{each.run} with {count(each.iterations or 0, 'step')}" for each in cut]
    ending = f"; recorded as interrupted: {', '.join(runs)}" if runs else ""
    return f"Kept: {done} of {count(tasks, 'task')}{ending}"
