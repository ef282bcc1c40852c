"""The pool that starts sessions of the sandbox ahead, because a start takes more than a second."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING

from rbank_es.errors import BadInput, SandboxUnavailable
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox.session import (
    DEFAULT_SETTINGS,
    EXECUTION_INSTRUCTIONS,
    SandboxSettings,
    Session,
    start_session,
)

if TYPE_CHECKING:
    from rbank_es.sandbox.interpreter import Sandbox

STARTERS = 2
"""Sessions that a pool starts at a time: starting is work for the processor, so more would make all of them late."""


class SandboxPool:
    """A factory of sandboxes with sessions that were started ahead: `dspy.RLM(..., interpreter_factory=pool)`.

    The caller shuts each sandbox down; none is used twice. A sandbox that loses its session takes the next one. Safe
    for several threads; a forked child starts its own sessions.
    """

    execution_instructions = EXECUTION_INSTRUCTIONS

    def __init__(
        self, size: int = 1, settings: SandboxSettings = DEFAULT_SETTINGS, *, needed: int | None = None
    ) -> None:
        """Begin to start sessions, and return at once. Raises `BadInput` for a size out of range.

        Args:
            size: sessions kept ready, from 1 to `SANDBOX_POOL`; each takes about 160 MB.
            settings: of every sandbox.
            needed: how many will be taken, if known: no more are started ahead.
        """
        if not 1 <= size <= sandbox_limits.SANDBOX_POOL:
            raise BadInput(f"a pool keeps 1 to {sandbox_limits.SANDBOX_POOL} sandboxes ready, not {size}")
        self.settings = settings
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._starters = threading.Semaphore(STARTERS)
        self._is_closed = False
        self._to_start = needed
        self.spares: deque[Future[Session]] = deque()
        for _ in range(size):
            self._start_ahead()

    def __call__(self) -> Sandbox:
        """Return a sandbox that takes its session from the pool at its first step."""
        from rbank_es.sandbox.interpreter import Sandbox  # here, because dspy loads while the first session starts

        return Sandbox(settings=self.settings, take_session=self.take)

    def wait(self) -> None:
        """Wait until all sessions are ready. Raises `SandboxUnavailable`."""
        with self._lock:
            spares = [*self.spares]
        for spare in spares:
            spare.result()

    def close(self) -> None:
        """End the sessions that were not taken. Sandboxes in use keep theirs, but get no other.

        A session that is starting is ended by its starter thread; this does not wait for it.
        """
        with self._lock:
            self._is_closed = True
            spares = [*self.spares]
            self.spares.clear()
        for spare in spares:
            if not spare.cancel():
                spare.add_done_callback(_end)

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_ahead(self) -> None:
        # Begin one session more, unless all that are needed were begun.
        if self._to_start is not None:
            if self._to_start < 1:
                return
            self._to_start -= 1
        self.spares.append(self._start())

    def _start(self) -> Future[Session]:
        spare: Future[Session] = Future()
        # A daemon, because exit need not wait for it: its session ends with this process.
        threading.Thread(target=_fill, args=(spare, self._starters, self.settings), daemon=True).start()
        return spare

    def take(self, settings: SandboxSettings) -> Session:
        """Return the oldest session when it is ready; a new one if that died meanwhile.

        Raises `SandboxUnavailable` once the pool is closed, because no process may start after that.
        """
        spare = self._next()
        if spare is not None:
            with suppress(CancelledError):
                session = _result(spare)
                if session.alive:
                    return session
                session.end()
        # Not in a forked child, which has no threads of the pool and starts its sessions itself.
        if self._is_closed and os.getpid() == self._owner:
            raise SandboxUnavailable("broken", "the pool of sandboxes is closed", "make another one")
        return start_session(settings)

    def _next(self) -> Future[Session] | None:
        """Remove one session, and begin another."""
        with self._lock:
            if self._is_closed or os.getpid() != self._owner:
                return None
            self._start_ahead()
            return self.spares.popleft() if self.spares else None


def _fill(spare: Future[Session], starters: threading.Semaphore, settings: SandboxSettings) -> None:
    with starters:
        if spare.set_running_or_notify_cancel():
            try:
                spare.set_result(start_session(settings))
            except BaseException as error:
                spare.set_exception(error)


def _result(spare: Future[Session]) -> Session:
    """Wait for a session. If the wait is interrupted, the session is ended once it has started."""
    try:
        return spare.result()
    except BaseException:
        spare.add_done_callback(_end)
        raise


def _end(spare: Future[Session]) -> None:
    if not spare.cancelled() and spare.exception() is None:
        spare.result().end()
