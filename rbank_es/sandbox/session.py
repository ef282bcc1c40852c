"""Sessions of the sandbox, their settings, and the pool that starts them ahead: a start takes more than a second.

A session never hangs, and never continues from an unknown state: whatever disturbs the protocol ends the session and
raises `Lost`.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, SandboxUnavailable
from rbank_es.sandbox import deno
from rbank_es.sandbox.deno import Deno, ready_runtime
from rbank_es.sandbox.guest_protocol import (
    FORGED_MESSAGE,
    Answer,
    Conversation,
    Lost,
    Outcome,
    TimeLimits,
    decode_outcome,
    no_tools,
)
from rbank_es.sandbox.process import Channel, SandboxProcess, confine
from rbank_es.sandbox.step_outcome import LossCode

if TYPE_CHECKING:
    from rbank_es.sandbox.interpreter import Sandbox


# Places in the agent's code that an error message names.
_ERROR_PLACES = 4

GUEST = Path(__file__).with_name("guest.py")

GUEST_LIMITS = {
    "argument_chars": limits.SANDBOX_ARGUMENT_CHARS,
    "error_chars": limits.ERROR_CHARS,
    "output_chars": limits.SANDBOX_OUTPUT_CHARS,
    "printed_chars": limits.SANDBOX_PRINTED_CHARS,
    "submit_chars": limits.SANDBOX_SUBMIT_CHARS,
    "depth": limits.SANDBOX_VALUE_DEPTH,
    "integer_bits": limits.SANDBOX_INTEGER_BITS,
    "values": limits.SANDBOX_VALUES,
    "counted": limits.SANDBOX_COUNTED_ELEMENTS,
    "places": _ERROR_PLACES,
    "reserve_bytes": limits.SANDBOX_RESERVE_BYTES,
}
_FATAL_MARK = b"Pyodide has suffered a fatal error"


EXECUTION_INSTRUCTIONS = (
    "Python 3.13 in a sandbox (WebAssembly): the standard library is there, but no files of the host, no network, no "
    "processes, no threads, no packages. Variables last from step to step. Of a step you see what it printed, and the "
    "value of its last expression. A step that takes too long or too much memory loses all variables."
)
"""The description of the sandbox for the agent's model."""

SUB_AGENT_TOOL = "__dspy_construct__"
"""The tool that dspy.RLM registers before it installs its facade for sub-agents."""

NO_SUB_AGENTS = "sub-agents are switched off: their calls would be under none of a run's limits"


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one sandbox.

    Args:
        step_code_s: seconds that a step's code may run, its tools not counted.
        step_wall_s: seconds that a step may take, its tools counted.
        memory_bytes: memory of a session on top of what is mapped when it is ready.
        restarts: new sessions after the first was lost.
        sub_agents: whether dspy.RLM may let an agent's code start further agents on the host. Off, because no limit of
            the run covers their calls; dspy then leaves them out of the prompt and logs a warning.
    """

    step_code_s: float = limits.STEP_TIME_S
    step_wall_s: float = limits.STEP_WALL_S
    memory_bytes: int = limits.SANDBOX_MEMORY_BYTES
    restarts: int = limits.SANDBOX_RESTARTS
    sub_agents: bool = False


DEFAULT_SETTINGS = SandboxSettings()


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of a lost session. `number` counts from 1; `code` and `detail` are those of `Lost`.

    `message` goes to the agent.
    """

    number: int
    code: LossCode
    message: str
    detail: str = ""


class Session:
    """A running session, for one thread at a time. It ends with `end`, with this object, or with this process."""

    def __init__(self, runtime: Deno, *, memory_bytes: int = limits.SANDBOX_MEMORY_BYTES, offline: bool = True) -> None:
        """Start the session, and wait until it is ready. Raises `SandboxUnavailable`, with the reason.

        `memory_bytes` come on top of what is mapped when it is ready. With `offline=False` missing parts are fetched;
        no agent's code may run in such a session.
        """
        runtime.prepare()
        self._runtime, self._offline = runtime, offline
        self.registered = ""
        self.steps = 0
        try:
            self.process = SandboxProcess(runtime, offline=offline)
        except OSError as error:
            raise self._unavailable(Lost("died", f"its process can't be started: {error}")) from error
        try:
            self.guest = Conversation(Channel(self.process.pipes, _FATAL_MARK), self.process)
            self.pid = self._get_ready(limits.SANDBOX_START_S if offline else limits.SANDBOX_WARM_S)
            self.is_confined = confine(self.pid, memory_bytes)
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process.alive

    def end(self) -> None:
        """Kill its process and reap it. Idempotent."""
        self.process.end()

    def stop(self) -> None:
        """Kill its process from another thread; the step that runs then raises `Lost`."""
        self.process.stop()

    def register(self, tools: Iterable[dict[str, Any]], outputs: list[str] | None) -> None:
        """Define the functions that code may call, and the fields of SUBMIT. Raises `Lost`.

        Args:
            tools: of each its `name`, `doc`, and `parameters`: `name`, `kind` and, if any, `default` as text.
            outputs: names of the fields; None for one, `output`.
        """
        functions = json.dumps({"tools": [*tools], "outputs": outputs})
        if functions == self.registered:
            return
        times = TimeLimits.alike(limits.SANDBOX_START_S)
        if self._do(f"workspace.register({functions!r})", times, no_tools) != "registered":
            raise self._lost("broken", "the sandbox did not take in its tools")
        self.registered = functions

    def run(self, code: str, variables: dict[str, str], answer: Answer, times: TimeLimits) -> Outcome:
        """Run one step.

        Args:
            code: Python.
            variables: name to Python literal, assigned before.
            answer: called for each tool call, one after the other. One that runs when the time is over is waited for.
            times: of the step.

        Raises:
            Lost: the session ended.
            BaseException: whatever `answer` raised; the session ended too.
        """
        self.steps += 1
        calls_before = self.guest.calls
        request = json.dumps({"step": self.steps, "code": code, "variables": variables})
        outcome = decode_outcome(self._do(f"await workspace.answer({request!r})", times, answer))
        if outcome is None:
            raise self._lost("broken", "the step disturbed the sandbox, whose answers make no sense")
        # The guest counts its calls too: a difference means that code wrote to the bridge itself.
        if outcome.calls != self.guest.calls - calls_before:
            raise self._lost("forged", FORGED_MESSAGE)
        return outcome

    # ---------------------------------------------------------------- start

    def _get_ready(self, time_s: float) -> int:
        """Wait for Deno, then for the guest in it, and return Deno's process id."""
        try:
            pid = self.process.receive_pid(time_s)
            reply = self.guest.ask(_prelude(), TimeLimits.alike(time_s), no_tools)
        except Lost as lost:
            raise self._unavailable(lost) from lost
        except (OSError, ValueError) as error:
            raise self._unavailable(Lost("died", f"its process did not start: {error}")) from error
        if reply != "ready":
            raise self._unavailable(Lost("broken", "dspy's runner answers otherwise than this release expects"))
        return pid

    def _unavailable(self, lost: Lost) -> SandboxUnavailable:
        """Return why the session did not start, and what to do."""
        cache, said = self._runtime.cache, lost.detail.splitlines()[0] if lost.detail else lost.message
        if self._offline and ("cached-only" in lost.detail or not self._runtime.is_warm):
            return SandboxUnavailable("cold", f"the sandbox's cache {cache} is not filled", deno.WARM)
        # Only now, because asking Deno for its release costs a process.
        deno.check_release(self._runtime.executable)
        if not self._offline:
            return SandboxUnavailable("cold", f"the sandbox's cache {cache} can't be filled ({said})", deno.WARM)
        return SandboxUnavailable("broken", f"the sandbox does not start ({said})", "see: rbank-es doctor")

    # ---------------------------------------------------------------- steps

    def _do(self, expression: str, times: TimeLimits, answer: Answer) -> Any:
        """Evaluate an expression in the guest. Any error ends the session."""
        code = expression.replace("workspace.", "sys.modules['_sandbox'].workspace.", 1)
        try:
            return self.guest.ask(code, times, answer)
        except BaseException:
            self.end()
            raise

    def _lost(self, code: LossCode, message: str) -> Lost:
        self.end()
        return self.guest.lost(code, message)


def warm(runtime: Deno) -> None:
    """Fill the cache from the network, one process at a time. Raises `SandboxUnavailable`."""
    with runtime.lock_cache():
        Session(runtime, offline=False).end()


def _prelude() -> str:
    """Return code that makes the guest a module in the sandbox."""
    return (
        "import sys, types\n"
        "module = types.ModuleType('_sandbox')\n"
        f"exec(compile({GUEST.read_text(encoding='utf-8')!r}, '<sandbox>', 'exec'), module.__dict__)\n"
        f"module.LIMITS.update({GUEST_LIMITS!r})\n"
        "module.workspace = module.Workspace(_js_tool_call)\n"
        "module.open_signal_sockets()\n"
        "sys.modules['_sandbox'] = module\n"
        "'ready'"
    )


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
        if not 1 <= size <= limits.SANDBOX_POOL:
            raise BadInput(f"a pool keeps 1 to {limits.SANDBOX_POOL} sandboxes ready, not {size}")
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
        from rbank_es.sandbox.interpreter import Sandbox

        return Sandbox(settings=self.settings, take_session=self.take)

    def wait(self) -> None:
        """Wait until all sessions are ready. Raises `CannotStart`."""
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

        Raises `CannotStart` once the pool is closed, because no process may start after that.
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
            from rbank_es.sandbox.interpreter import CannotStart

            raise CannotStart(SandboxUnavailable("broken", "the pool of sandboxes is closed", "make another one"))
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


def start_session(settings: SandboxSettings) -> Session:
    """Start a session. Raises `CannotStart`."""
    from rbank_es.sandbox.interpreter import CannotStart

    try:
        return Session(ready_runtime(), memory_bytes=settings.memory_bytes)
    except SandboxUnavailable as error:
        raise CannotStart(error) from error
