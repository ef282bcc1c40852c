"""One session of the sandbox: it runs steps one after the other, until something ends it.

A session never hangs, and never goes on from a state that nobody knows: whatever disturbs the conversation (time,
memory, a dead process, lines that belong to no conversation, a call that no tool made) ends it and raises `Lost`.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.errors import SandboxUnavailable
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
    name_of,
)
from rbank_es.sandbox.step_outcome import Outcome

Answer = Callable[[str, dict[str, Any]], str]
"""Calls a tool by name: the JSON of `{"value": ...}` or `{"error": text}`. What it raises ends the session."""

GUEST = Path(__file__).with_name("guest.py")

_CALL_ID = re.compile(r"tc_\d+_(\d+)")
_INSIDE_LIMITS = {
    "argument_chars": limits.SANDBOX_ARGUMENT_CHARS,
    "error_chars": limits.ERROR_CHARS,
    "output_chars": limits.SANDBOX_OUTPUT_CHARS,
    "printed_chars": limits.SANDBOX_PRINTED_CHARS,
    "submit_chars": limits.SANDBOX_SUBMIT_CHARS,
}
_OUTCOME = msgspec.json.Decoder(Outcome)
_LAST_WORDS = b"Pyodide has suffered a fatal error"
_FALLEN = "the step brought Python itself down, by too deep a recursion or a call that can't be made here"
_FORGED = "the step sent a message to the host that no tool made"


class Lost(Exception):
    """A session is over, and its variables are gone.

    `code` is stable, for programs: timeout, memory, died, flood, forged, too_long, broken. The message is for the
    agent; `detail`, what the process wrote to its standard error, may name paths of this machine and is not.
    """

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        self.code, self.message, self.detail = code, message, detail
        super().__init__(message)


class Session:
    """A running session, for one thread at a time. It ends with this object, with this process, or when told to."""

    def __init__(self, runtime: Deno, *, memory_bytes: int = limits.SANDBOX_MEMORY_BYTES, offline: bool = True) -> None:
        """Start it, and wait until it is ready.

        Args:
            runtime: what it runs on.
            memory_bytes: what it may take beside what it has mapped when it is ready.
            offline: whether it starts from the cache alone. No agent's code may run in one that doesn't.

        Raises:
            SandboxUnavailable: it does not start; the code and the message say why.
        """
        runtime.prepare()
        self._runtime, self._offline = runtime, offline
        self._registered = ""
        self._calls = self._steps = 0
        try:
            self._process = SandboxProcess(runtime, offline=offline)
        except OSError as error:
            raise self._unavailable(Lost("died", f"its process can't be started: {error}")) from error
        try:
            self._channel = Channel(self._process.pipes, _LAST_WORDS)
            self.pid = self._get_ready(limits.SANDBOX_START_S if offline else limits.SANDBOX_WARM_S)
            self.is_confined = confine(self.pid, memory_bytes)
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return self._process.alive

    def end(self) -> None:
        """Kill its process, and wait until it is gone. May be called again."""
        self._process.end()

    def stop(self) -> None:
        """The same from another thread, while a step runs, which then raises `Lost`."""
        self._process.stop()

    def register(self, tools: Iterable[dict[str, Any]], outputs: list[str] | None) -> None:
        """Make functions callable by name, and SUBMIT take these fields. Does nothing if they are known already.

        Args:
            tools: of each its `name`, its `doc`, and its `parameters`: `name`, `kind` and, if any, `default` as text.
            outputs: names; None: one, `output`.

        Raises:
            Lost: the session did not take them.
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
            answer: is asked for every call of a tool, one after the other.
            time_s: how long it may run, beside what `answer` takes.

        Raises:
            Lost: the session is over.
            BaseException: whatever `answer` raised; the session is over then, too.
        """
        self._steps += 1
        calls_before = self._calls
        request = json.dumps({"step": self._steps, "code": code, "variables": variables})
        reply = self._do(f"await workspace.answer({request!r})", time.monotonic() + time_s, answer)
        try:
            outcome = _OUTCOME.decode(reply)
        except (msgspec.MsgspecError, TypeError, RecursionError):
            raise self._lost("broken", "the step disturbed the sandbox, whose answers make no sense") from None
        if outcome.calls != self._calls - calls_before:
            raise self._lost("forged", _FORGED)
        return outcome

    # ---------------------------------------------------------------- start

    def _get_ready(self, time_s: float) -> int:
        """Wait for Deno, then for our module in it; Deno's process id."""
        try:
            pid = self._process.learn_pid(time_s)
            reply = self._ask(_prelude(), time.monotonic() + time_s, _no_tools)
        except Lost as lost:
            raise self._unavailable(lost) from lost
        except (OSError, ValueError) as error:
            raise self._unavailable(Lost("died", f"its process did not start: {error}")) from error
        if reply != "ready":
            raise self._unavailable(Lost("broken", "dspy's runner answers otherwise than this release expects"))
        return pid

    def _unavailable(self, lost: Lost) -> SandboxUnavailable:
        """Why it did not start, in words that help."""
        cache, said = self._runtime.cache, lost.detail.splitlines()[0] if lost.detail else lost.message
        if self._offline and ("cached-only" in lost.detail or not self._runtime.is_warm):
            return SandboxUnavailable("cold", f"the sandbox's cache {cache} is not filled", deno.WARM)
        deno.check_release(self._runtime.executable)
        if not self._offline:
            return SandboxUnavailable("cold", f"the sandbox's cache {cache} can't be filled ({said})", deno.WARM)
        return SandboxUnavailable("broken", f"the sandbox does not start ({said})", "see: rbank-es doctor")

    # ---------------------------------------------------------------- conversation

    def _do(self, expression: str, deadline: float, answer: Answer) -> Any:
        """The value of an expression in our module inside. Whatever goes wrong ends the session."""
        code = expression.replace("workspace.", "sys.modules['_sandbox'].workspace.", 1)
        try:
            self._refuse_what_came_unasked()
            return self._ask(code, deadline, answer)
        except BaseException:
            self.end()
            raise

    def _refuse_what_came_unasked(self) -> None:
        """Between two steps there is nothing to say: not even tasks that a step left behind may call a tool."""
        try:
            for noise, line in enumerate(self._channel.waiting()):
                self._notice(_message(line), noise)
        except LineTooLong:
            raise self._lost("flood", "the step before went on writing when it was done") from None
        except GuestCrashed:
            raise self._lost("died", _FALLEN) from None
        except ProcessEnded:
            raise self._dead() from None

    def _ask(self, code: str, deadline: float, answer: Answer) -> Any:
        request_id = secrets.token_hex(16)
        request = {"jsonrpc": "2.0", "method": "execute", "params": {"code": code}, "id": request_id}
        data = msgspec.json.encode(request)
        try:
            self._channel.send(data, deadline)
            return self._reply(request_id, deadline, answer)
        except DeadlinePassed:
            raise self._lost("timeout", "the step took too long and was stopped") from None
        except LineTooLong:
            raise self._lost("too_long", "the step sent a message that is too long") from None
        except GuestCrashed:
            raise self._lost("died", _FALLEN) from None
        except ProcessEnded:
            raise self._dead() from None

    def _reply(self, request_id: str, deadline: float, answer: Answer) -> Any:
        noise = 0
        while True:
            message = _message(self._channel.receive(deadline))
            if message.get("method") == "tool_call":
                deadline += self._answer(message, deadline, answer)
            elif message.get("id") == request_id:
                return self._result(message)
            else:
                noise += 1
                self._notice(message, noise)

    def _notice(self, message: dict[str, Any], noise: int) -> None:
        """Pass over what is no message, and notes on errors that nobody awaited. Nothing else should come."""
        if noise > limits.SANDBOX_NOISE_LINES:
            raise self._lost("flood", "the step wrote past print, without end")
        if message and (message.get("method") != "unhandled_error" or "id" in message):
            raise self._lost("forged", _FORGED)

    def _result(self, message: dict[str, Any]) -> Any:
        """The value, where the code that was sent is ours and must not fail."""
        result = message.get("result")
        if isinstance(result, dict):
            return result.get("output")
        if "MemoryError" in repr(message.get("error")):
            raise self._lost("memory", "the step used up the memory of the sandbox")
        raise self._lost("broken", "the step disturbed the sandbox, which no longer runs code")

    def _answer(self, message: dict[str, Any], deadline: float, answer: Answer) -> float:
        """Answer one call of a tool; how long that took, in seconds."""
        call_id, name, arguments = self._call(message)
        began = time.monotonic()
        value = answer(name, arguments)
        took_s = time.monotonic() - began
        result = {"value": value, "type": "string"}
        self._channel.send(msgspec.json.encode({"jsonrpc": "2.0", "result": result, "id": call_id}), deadline + took_s)
        return took_s

    def _call(self, message: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        """Id, tool and arguments of a call, if our function inside made it. Its number tells: each follows the last."""
        try:
            call_id, params = message["id"], message["params"]
            number = _CALL_ID.fullmatch(call_id)
            name, arguments = params["name"], json.loads(params["kwargs"]["packed"])
            is_next = number is not None and int(number[1]) == self._calls + 1
        except (KeyError, TypeError, ValueError, RecursionError):
            raise self._lost("forged", _FORGED) from None
        if not (is_next and isinstance(name, str) and isinstance(arguments, dict)):
            raise self._lost("forged", _FORGED)
        self._calls += 1
        return call_id, name, arguments

    # ---------------------------------------------------------------- the end

    def _dead(self) -> Lost:
        """The process is gone or going: what is known of the cause."""
        status = self._process.status()
        self._channel.drain()
        if "out of memory" in self._channel.complaints:
            return self._lost("memory", "the step used up the memory of the sandbox")
        return self._lost("died", "the sandbox died in this step" + (f" ({name_of(status)})" if status else ""))

    def _lost(self, code: str, message: str) -> Lost:
        complaints = self._channel.complaints
        self.end()
        return Lost(code, message, complaints)


def warm(runtime: Deno) -> None:
    """Fill the cache, with the network; one process at a time.

    Raises:
        SandboxUnavailable: it can't be filled.
    """
    with runtime.being_warmed():
        Session(runtime, offline=False).end()


def _prelude() -> str:
    """Code that puts our module into the sandbox."""
    return (
        "import sys, types\n"
        "module = types.ModuleType('_sandbox')\n"
        f"exec(compile({GUEST.read_text(encoding='utf-8')!r}, '<sandbox>', 'exec'), module.__dict__)\n"
        f"module.workspace = module.Workspace(_js_tool_call, {_INSIDE_LIMITS!r})\n"
        "module.settle()\n"
        "sys.modules['_sandbox'] = module\n"
        "'ready'"
    )


def _message(line: bytes) -> dict[str, Any]:
    """A message, or an empty one where the line is none."""
    try:
        message = msgspec.json.decode(line) if line.startswith(b"{") else None
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _no_tools(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"error": f"no step is running, so {name} can't be called"})


EXECUTION_INSTRUCTIONS = (
    "Python 3.13 in a sandbox (WebAssembly): the standard library is there, but no files of the host, no network, no "
    "processes, no threads, no packages. Variables last from step to step. Of a step you see what it printed, and the "
    "value of its last expression. A step that takes too long or too much memory loses all variables."
)
"""What a model is told of the sandbox."""

SUB_AGENT_TOOL = "__dspy_construct__"
"""A tool that dspy.RLM registers before it installs its stand-in for dspy."""

NO_SUB_AGENTS = "sub-agents are switched off: their calls would be under none of a run's limits"


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox may take.

    Args:
        step_time_s: how long a step may run, beside what its tools take.
        memory_bytes: what a session may take beside what it has mapped when it is ready.
        restarts: new sessions after the first was lost.
        sub_agents: whether dspy.RLM may install its stand-in for dspy, through which an agent's code makes further
            agents on the host. Their calls would be under none of a run's limits, so by default it may not: the sandbox
            refuses with `CodeExecutionError`, upon which dspy leaves them out of the prompt and logs a warning.
    """

    step_time_s: float = limits.STEP_TIME_S
    memory_bytes: int = limits.SANDBOX_MEMORY_BYTES
    restarts: int = limits.SANDBOX_RESTARTS
    sub_agents: bool = False


DEFAULT_SETTINGS = SandboxSettings()


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """A session was lost, and another takes its place. `number` counts from 1; `code` is that of `Lost`.

    `message` is what the agent is told. `detail` is the end of what the process wrote to its standard error; it may
    name paths of this machine.
    """

    number: int
    code: str
    message: str
    detail: str = ""
