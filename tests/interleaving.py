"""Interleavings: a work stands still at one of its lines, while another thread acts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType
from typing import Any

BLOCKED_S = 0.05
"""Time that an act gets while a work stands still; one that waits for a lock of the work ends after it."""


def paused_at(
    line: int, modules: Sequence[ModuleType], work: Callable[[], Any], act: Callable[[], object]
) -> tuple[Any, bool]:
    """Run a work, and at one of its lines in some modules an act in another thread.

    Return what the work returned, and whether it has that many lines there.
    """
    seen, acts, files = [0], list[threading.Thread](), {module.__file__ for module in modules}

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == line:
                acts.append(threading.Thread(target=act))
                acts[0].start()
                acts[0].join(BLOCKED_S)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        made = work()
    finally:
        sys.settrace(before)
    for thread in acts:
        thread.join()
    return made, bool(acts)
