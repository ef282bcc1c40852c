"""An interpreter without a sandbox: an agent's code may do all that the person may. Only for those who ask for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rbank_es import limits

if TYPE_CHECKING:
    from dspy import LocalInterpreter

WARNING = """\
!!! UNSAFE: the agent's code runs WITHOUT a sandbox (--unsafe-local).
!!! It can read and delete your files, see your keys and use your network, as you can yourself.
!!! Use this only where nothing is at stake. The sandbox is the default; rbank-es doctor says whether it runs here."""


class UnsafeLocal:
    """Makes dspy's `LocalInterpreter`, one for each run; an interpreter factory as dspy takes it."""

    def __init__(self, *, step_time_s: float = limits.STEP_TIME_S) -> None:
        """Warn on standard error. A step that runs longer, its tools included, ends its run."""
        self.step_time_s = step_time_s
        print(WARNING, file=sys.stderr, flush=True)

    @property
    def execution_instructions(self) -> str:
        """What dspy tells a model of this interpreter."""
        from dspy import LocalInterpreter

        return str(LocalInterpreter.execution_instructions)

    def __call__(self) -> LocalInterpreter:
        """A new interpreter; whoever takes it shuts it down."""
        from dspy import LocalInterpreter

        return LocalInterpreter(execution_timeout=self.step_time_s)
