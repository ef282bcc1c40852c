"""One session of the sandbox, and the settings of a sandbox.

A session never hangs, and never continues from an unknown state: whatever disturbs the protocol (a timeout, exhausted
memory, a dead process, unrequested lines, a forged tool call) ends the session and raises `Lost`.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.errors import SandboxUnavailable, status_in_words
from rbank_es.sandbox import deno
from rbank_es.sandbox.deno import Deno
from rbank_es.sandbox.process import (
    Channel,
    DeadlinePassed,
    GuestCrashed,
    LineTooLong,
    ProcessEnded,
    SandboxProcess,
    confine,
)
from rbank_es.sandbox.step_outcome import Outcome

Answer = Callable[[str, dict[str, Any]], str]
"""Calls a tool by name; returns the JSON of `{"value": ...}` or `{"error": text}`. An exception ends the session."""

GUEST = Path(__file__).with_name("guest.py")

_CALL_ID = re.compile(r"tc_\d+_(\d+)")
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
    "places": limits.SANDBOX_ERROR_PLACES,
    "reserve_bytes": limits.SANDBOX_RESERVE_BYTES,
}
_OUTCOME = msgspec.json.Decoder(Outcome)
_FATAL_MARK = b"Pyodide has suffered a fatal error"
_CRASHED = "the step brought Python itself down, by too deep a recursion or a call that can't be made here"
_FORGED = "the step sent a message to the host that no tool made"


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
        step_time_s: seconds that a step may run, its tools not counted.
        memory_bytes: memory of a session on top of what is mapped when it is ready.
        restarts: new sessions after the first was lost.
        sub_agents: whether dspy.RLM may let an agent's code start further agents on the host. Off, because no limit of
            the run covers their calls; dspy then leaves them out of the prompt and logs a warning.
    """

    step_time_s: float = limits.STEP_TIME_S
    memory_bytes: int = limits.SANDBOX_MEMORY_BYTES
    restarts: int = limits.SANDBOX_RESTARTS
    sub_agents: bool = False


DEFAULT_SETTINGS = SandboxSettings()


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of a lost session. `number` counts from 1; `code` and `detail` are those of `Lost`.

    `message` goes to the agent.
    """

    number: int
    code: str
    message: str
    detail: str = ""


class Lost(Exception):
    """The end of a session, with all its variables.

    `code` is stable, for programs: timeout, memory, died, flood, forged, too_long, broken. The message is for the
    agent. `detail` (the process's standard error) is not, because it may name paths of this machine.
    """

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        self.code, self.message, self.detail = code, message, detail
        super().__init__(message)


class Session:
    """A running session, for one thread at a time. It ends with `end`, with this object, or with this process."""

    def __init__(self, runtime: Deno, *, memory_bytes: int = limits.SANDBOX_MEMORY_BYTES, offline: bool = True) -> None:
        """Start the session, and wait until it is ready. Raises `SandboxUnavailable`, with the reason.

        `memory_bytes` come on top of what is mapped when it is ready. With `offline=False` missing parts are fetched;
        no agent's code may run in such a session.
        """
        runtime.prepare()
        self._runtime, self._offline = runtime, offline
        self._registered = ""
        self._calls = self._steps = 0
        try:
            self.process = SandboxProcess(runtime, offline=offline)
        except OSError as error:
            raise self._unavailable(Lost("died", f"its process can't be started: {error}")) from error
        try:
            self._channel = Channel(self.process.pipes, _FATAL_MARK)
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
        if functions == self._registered:
            return
        deadline = time.monotonic() + limits.SANDBOX_START_S
        if self._do(f"workspace.register({functions!r})", deadline, _no_tools) != "registered":
            raise self._lost("broken", "the sandbox did not take in its tools")
        self._registered = functions

    def run(self, code: str, variables: dict[str, str], answer: Answer, time_s: float) -> Outcome:
        """Run one step.

        Args:
            code: Python.
            variables: name to Python literal, assigned before.
            answer: called for each tool call, one after the other.
            time_s: seconds that the code may run, those of `answer` not counted.

        Raises:
            Lost: the session ended.
            BaseException: whatever `answer` raised; the session ended too.
        """
        self._steps += 1
        calls_before = self._calls
        request = json.dumps({"step": self._steps, "code": code, "variables": variables})
        reply = self._do(f"await workspace.answer({request!r})", time.monotonic() + time_s, answer)
        try:
            outcome = _OUTCOME.decode(reply)
        except (msgspec.MsgspecError, TypeError, RecursionError):
            raise self._lost("broken", "the step disturbed the sandbox, whose answers make no sense") from None
        # The guest counts its calls too: a difference means that code wrote to the bridge itself.
        if outcome.calls != self._calls - calls_before:
            raise self._lost("forged", _FORGED)
        return outcome

    # ---------------------------------------------------------------- start

    def _get_ready(self, time_s: float) -> int:
        """Wait for Deno, then for the guest in it, and return Deno's process id."""
        try:
            pid = self.process.receive_pid(time_s)
            reply = self._ask(_prelude(), time.monotonic() + time_s, _no_tools)
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

    # ---------------------------------------------------------------- conversation

    def _do(self, expression: str, deadline: float, answer: Answer) -> Any:
        """Evaluate an expression in the guest. Any error ends the session."""
        code = expression.replace("workspace.", "sys.modules['_sandbox'].workspace.", 1)
        try:
            self._refuse_unasked_lines()
            return self._ask(code, deadline, answer)
        except BaseException:
            self.end()
            raise

    def _refuse_unasked_lines(self) -> None:
        # Between steps nothing may arrive: not even tasks that a step left behind may call a tool.
        with self._losing_by("flood", "the step before went on writing when it was done"):
            for noise, line in enumerate(self._channel.unasked()):
                self._notice(_message(line), noise)

    def _ask(self, code: str, deadline: float, answer: Answer) -> Any:
        # A random id, because an agent's code that could guess it could forge the reply.
        request_id = secrets.token_hex(16)
        request = {"jsonrpc": "2.0", "method": "execute", "params": {"code": code}, "id": request_id}
        with self._losing_by("too_long", "the step sent a message that is too long"):
            self._channel.send(msgspec.json.encode(request), deadline)
            return self._reply(request_id, deadline, answer)

    @contextmanager
    def _losing_by(self, code: str, message: str) -> Iterator[None]:
        """Raise `Lost` for errors of the channel; with this code and message for a line that is too long."""
        try:
            yield
        except DeadlinePassed:
            raise self._lost("timeout", "the step took too long and was stopped") from None
        except LineTooLong:
            raise self._lost(code, message) from None
        except GuestCrashed:
            raise self._lost("died", _CRASHED) from None
        except ProcessEnded:
            raise self._dead() from None

    def _reply(self, request_id: str, deadline: float, answer: Answer) -> Any:
        noise = 0
        while True:
            message = _message(self._channel.receive(deadline))
            if message.get("method") == "tool_call":
                # Tools may take long, and their time is not the step's.
                deadline += self._answer(message, deadline, answer)
            elif message.get("id") == request_id:
                return self._result(message)
            else:
                noise += 1
                self._notice(message, noise)

    def _notice(self, message: dict[str, Any], noise: int) -> None:
        """Ignore lines that are no messages, and reports of unhandled errors. Raises `Lost` for all others."""
        if noise > limits.SANDBOX_NOISE_LINES:
            raise self._lost("flood", "the step wrote past print, without end")
        if message and (message.get("method") != "unhandled_error" or "id" in message):
            raise self._lost("forged", _FORGED)

    def _result(self, message: dict[str, Any]) -> Any:
        """Return the value of our own code in the guest, which fails only in a broken session."""
        result = message.get("result")
        if isinstance(result, dict):
            return result.get("output")
        if "MemoryError" in repr(message.get("error")):
            raise self._lost("memory", "the step used up the memory of the sandbox")
        raise self._lost("broken", "the step disturbed the sandbox, which no longer runs code")

    def _answer(self, message: dict[str, Any], deadline: float, answer: Answer) -> float:
        """Answer one tool call, and return how many seconds that took."""
        call_id, name, arguments = self._call(message)
        began = time.monotonic()
        value = answer(name, arguments)
        took_s = time.monotonic() - began
        result = {"value": value, "type": "string"}
        self._channel.send(msgspec.json.encode({"jsonrpc": "2.0", "result": result, "id": call_id}), deadline + took_s)
        return took_s

    def _call(self, message: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        """Return id, tool and arguments of a call. Raises `Lost` for a forged one: numbers must be consecutive."""
        try:
            call_id, params = message["id"], message["params"]
            number = _CALL_ID.fullmatch(call_id)
            name, arguments = params["name"], json.loads(params["kwargs"]["packed"])
            is_next = number is not None and int(number[1]) == self._calls + 1
        except (KeyError, TypeError, ValueError, RecursionError):
            raise self._lost("forged", _FORGED) from None
        if not (is_next and isinstance(name, str) and isinstance(arguments, dict)):
            raise self._lost("forged", _FORGED)
        # Only after the checks, because a forged call must not advance the numbers.
        self._calls += 1
        return call_id, name, arguments

    # ---------------------------------------------------------------- the end

    def _dead(self) -> Lost:
        """Return the error for a process that exited, with its cause if known."""
        status = self.process.status()
        self._channel.drain()
        if "out of memory" in self._channel.stderr:
            return self._lost("memory", "the step used up the memory of the sandbox")
        return self._lost("died", "the sandbox died in this step" + (f" ({status_in_words(status)})" if status else ""))

    def _lost(self, code: str, message: str) -> Lost:
        self.end()
        return Lost(code, message, self._channel.stderr)


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


def _message(line: bytes) -> dict[str, Any]:
    """Parse a message; return an empty one for any other line."""
    try:
        message = msgspec.json.decode(line) if line.startswith(b"{") else None
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _no_tools(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"error": f"no step is running, so {name} can't be called"})
