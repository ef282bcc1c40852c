"""Processes for tests that fork or are killed.

Pytest's own process has threads (those of pytest-xdist at least), and a fork of a process with threads may deadlock. So
such tests run in a process that is forked from a server without any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any


class _Process(ForkServerProcess):
    """A process with the environment of the test that makes it: the server has that of the test that began it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._environment = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


class _Processes(ForkServerContext):
    Process = _Process


PROCESSES = _Processes()
"""Starts functions of modules; what a child needs it must be given, because it inherits no open file."""
# Loaded once, because each child would take half a second to import them.
PROCESSES.set_forkserver_preload(["hypothesis", "pytest", "rbank_es.bank", "rbank_es.testing"])


def alone(function: Callable[..., object], *arguments: Any, timeout_s: float = 100) -> int | None:
    """Run a module's function in a process of its own, and return its exit code: 1 where it raises."""
    process = PROCESSES.Process(target=function, args=arguments)
    process.start()
    process.join(timeout_s)
    process.kill()
    process.join()
    return process.exitcode
