"""Sessions of the sandbox, and their settings.

A session never hangs, and never continues from an unknown state: whatever disturbs the protocol ends the session and
raises `Lost`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.errors import SandboxUnavailable
from rbank_es.limits import sandbox_limits
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

GUEST = Path(__file__).with_name("guest.py")

GUEST_LIMITS = {
    "argument_chars": sandbox_limits.SANDBOX_ARGUMENT_CHARS,
    "error_chars": limits.ERROR_CHARS,
    "output_chars": sandbox_limits.SANDBOX_OUTPUT_CHARS,
    "printed_chars": sandbox_limits.SANDBOX_PRINTED_CHARS,
    "submit_chars": sandbox_limits.SANDBOX_SUBMIT_CHARS,
    "depth": sandbox_limits.SANDBOX_VALUE_DEPTH,
    "integer_bits": sandbox_limits.SANDBOX_INTEGER_BITS,
    "values": sandbox_limits.SANDBOX_VALUES,
    "counted": sandbox_limits.SANDBOX_COUNTED_ELEMENTS,
    "places": sandbox_limits.SANDBOX_ERROR_PLACES,
    "line_chars": sandbox_limits.SANDBOX_LINE_CHARS,
    "reserve_bytes": sandbox_limits.SANDBOX_RESERVE_BYTES,
}
_FATAL_MARK = b"Pyodide has suffered a fatal error"


EXECUTION_INSTRUCTIONS = (
    "It is Python 3.13 in a sandbox (WebAssembly), with its standard library: no files of the host, no network, "
    "processes, threads or packages. A step that takes too long or too much memory loses all variables."
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
    memory_bytes: int = sandbox_limits.SANDBOX_MEMORY_BYTES
    restarts: int = sandbox_limits.SANDBOX_RESTARTS
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

    def __init__(
        self, runtime: Deno, *, memory_bytes: int = sandbox_limits.SANDBOX_MEMORY_BYTES, offline: bool = True
    ) -> None:
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
            self.pid = self._get_ready(sandbox_limits.SANDBOX_START_S if offline else sandbox_limits.SANDBOX_WARM_S)
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
        times = TimeLimits.alike(sandbox_limits.SANDBOX_START_S)
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


def start_session(settings: SandboxSettings) -> Session:
    """Start a session. Raises `SandboxUnavailable`."""
    return Session(ready_runtime(), memory_bytes=settings.memory_bytes)
