"""Sandboxes that start before they are needed: a session takes more than a second, and a rollout should not wait."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING

from rbank_es import limits
from rbank_es.errors import BadInput, SandboxUnavailable
from rbank_es.sandbox.session import DEFAULT_SETTINGS, EXECUTION_INSTRUCTIONS, SandboxSettings, Session

if TYPE_CHECKING:
    from rbank_es.sandbox.interpreter import Sandbox

STARTERS = 2
"""Sessions that are started at a time. Starting is work for a processor, so more would only make all of them late."""


class SandboxPool:
    """Makes sandboxes, each with a session that was started before, and starts another in its place.

    It is what dspy calls an interpreter factory: `dspy.RLM(..., interpreter_factory=pool)`. Whoever takes a sandbox
    shuts it down; none is used twice. A sandbox that loses its session takes the next from here. For any thread; a
    process that is forked off this one starts its sessions itself.
    """

    execution_instructions = EXECUTION_INSTRUCTIONS

    def __init__(
        self, size: int = 1, settings: SandboxSettings = DEFAULT_SETTINGS, *, needed: int | None = None
    ) -> None:
        """Begin to start sessions; returns at once.

        Args:
            size: sessions kept ready, from 1 to `SANDBOX_POOL`; each takes about 160 MB.
            settings: of every sandbox.
            needed: how many will be taken, where that is known: no session is begun beyond them, unless one is lost.

        Raises:
            BadInput: the size is out of range.
        """
        if not 1 <= size <= limits.SANDBOX_POOL:
            raise BadInput(f"a pool keeps 1 to {limits.SANDBOX_POOL} sandboxes ready, not {size}")
        self.settings = settings
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._starters = threading.Semaphore(STARTERS)
        self._is_closed = False
        self._to_begin = needed
        self._spares: deque[Future[Session]] = deque()
        for _ in range(size):
            self._begin_ahead()

    def __call__(self) -> Sandbox:
        """A sandbox, whose session is taken from the pool with its first step."""
        from rbank_es.sandbox.interpreter import Sandbox

        return Sandbox(settings=self.settings, take_session=self.take)

    def wait(self) -> None:
        """Wait until all sessions are ready. Raises `CannotStart` if one isn't."""
        with self._lock:
            spares = [*self._spares]
        for spare in spares:
            spare.result()

    def close(self) -> None:
        """End the sessions that nobody took. Sandboxes that were handed out go on until they are shut down, or lose
        their session: no other is started any more.

        A session that is being started is ended by the thread that starts it, as soon as it can: nobody waits for it.
        """
        with self._lock:
            self._is_closed = True
            spares = [*self._spares]
            self._spares.clear()
        for spare in spares:
            if not spare.cancel():
                spare.add_done_callback(_end)

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_ahead(self) -> None:
        """Begin a session that somebody will need, if anybody will."""
        if self._to_begin is not None:
            if self._to_begin < 1:
                return
            self._to_begin -= 1
        self._spares.append(self._begin())

    def _begin(self) -> Future[Session]:
        spare: Future[Session] = Future()
        # Nobody waits for such a thread when the interpreter ends; what it started ends with this process anyway.
        threading.Thread(target=_fill, args=(spare, self._starters, self.settings), daemon=True).start()
        return spare

    def take(self, settings: SandboxSettings) -> Session:
        """The session that was begun first, waited for if it isn't ready; a new one if that died meanwhile.

        Raises `CannotStart` once the pool is closed: whoever was left behind then must not start processes.
        """
        spare = self._next()
        if spare is not None:
            with suppress(CancelledError):
                session = spare.result()
                if session.alive:
                    return session
                session.end()
        if self._is_closed and os.getpid() == self._owner:
            from rbank_es.sandbox.interpreter import CannotStart

            raise CannotStart(SandboxUnavailable("broken", "the pool of sandboxes is closed", "make another one"))
        return _start(settings)

    def _next(self) -> Future[Session] | None:
        """Take one out, and begin another."""
        with self._lock:
            if self._is_closed or os.getpid() != self._owner:
                return None
            self._begin_ahead()
            return self._spares.popleft() if self._spares else None


def _fill(spare: Future[Session], starters: threading.Semaphore, settings: SandboxSettings) -> None:
    with starters:
        if spare.set_running_or_notify_cancel():
            try:
                spare.set_result(_start(settings))
            except BaseException as error:
                spare.set_exception(error)


def _end(spare: Future[Session]) -> None:
    if spare.exception() is None:
        spare.result().end()


def _start(settings: SandboxSettings) -> Session:
    from rbank_es.sandbox.interpreter import start_session

    return start_session(settings)
