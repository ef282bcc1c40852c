"""Locks of files between processes: `flock`, waited for in bounded time."""

from __future__ import annotations

import fcntl
import time


def lock_within(fd: int, mode: int, wait_s: float) -> None:
    """Take `flock` of a mode on a descriptor. Raises BlockingIOError where others hold it for `wait_s` seconds."""
    began = time.monotonic()
    while True:
        try:
            return fcntl.flock(fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            waited_s = time.monotonic() - began
            if waited_s >= wait_s:
                raise
            # An append holds a lock for some 30 µs, so it is worth looking again soon; an erasure holds it longer.
            time.sleep(50e-6 if waited_s < 0.05 else 0.005)
