"""The host's side of one session: requests to the guest, calls of tools in between, and the reply.

Whatever disturbs it (a time limit, exhausted memory, a dead process, unrequested lines, a forged message) raises
`Lost`: a session never hangs, and never continues from an unknown state.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from rbank_es import limits
from rbank_es.errors import status_in_words
from rbank_es.sandbox.frames import (
    CallFrame,
    Frame,
    NoiseFrame,
    ReplyFrame,
    decode_frame,
    encode_request,
    encode_tool_reply,
)
from rbank_es.sandbox.process import Channel, DeadlinePassed, GuestCrashed, LineTooLong, ProcessEnded
from rbank_es.sandbox.step_outcome import LossCode

Answer = Callable[[str, dict[str, Any]], str]
"""Calls a tool by name; returns the JSON of `{"value": ...}` or `{"error": text}`. An exception ends the session."""

_CRASHED = "the step brought Python itself down, by too deep a recursion or a call that can't be made here"
FORGED_MESSAGE = "the step sent a message to the host that no tool made"


class Lost(Exception):
    """The end of a session, with all its variables.

    `code` is stable, for programs: a `LossCode`. The message is for the agent. `detail` (the process's standard error)
    is not, because it may name paths of this machine.
    """

    def __init__(self, code: LossCode, message: str, detail: str = "") -> None:
        self.code: LossCode = code
        self.message, self.detail = message, detail
        super().__init__(message)


class TimeLimits(NamedTuple):
    """Seconds that a request may take: its own code, and all of it with the tools that it calls."""

    code_s: float
    wall_s: float

    @classmethod
    def alike(cls, seconds: float) -> TimeLimits:
        """Return limits for a request that calls no tools."""
        return cls(seconds, seconds)


class _Deadline:
    """The end of a request's time, which tools put off up to the end of all its time. Monotonic seconds."""

    def __init__(self, times: TimeLimits) -> None:
        began = time.monotonic()
        self._code_at, self._wall_at = began + times.code_s, began + times.wall_s

    @property
    def at(self) -> float:
        return min(self._code_at, self._wall_at)

    def put_off(self, seconds: float) -> None:
        """Add the time of a tool to that of the code."""
        self._code_at += seconds

    def passed(self) -> tuple[LossCode, str]:
        """Return code and message of the loss, because this deadline passed."""
        if self._code_at <= self._wall_at:
            return "timeout", "the step took too long and was stopped"
        return "wall_timeout", "the step took too long with the tools that it called, and was stopped"


class GuestProcess(Protocol):
    """The process at the other end of the channel."""

    def status(self) -> int | None:
        """Return its exit code, negative for a signal; None if it still runs."""


class Conversation:
    """Requests to one guest, one after the other. Calls of tools are numbered through all of them."""

    def __init__(self, channel: Channel, process: GuestProcess) -> None:
        self.calls = 0
        self._channel, self._process = channel, process

    def ask(self, code: str, times: TimeLimits, answer: Answer) -> Any:
        """Have the guest evaluate code of this project; return its value. Calls of tools are answered by `answer`.

        Raises `Lost`, and whatever `answer` raises. The process must be ended then.
        """
        # A random id, because an agent's code that could guess it could forge the reply.
        request_id, deadline = secrets.token_hex(16), _Deadline(times)
        with self._losing_by(deadline, "flood", "the step before went on writing when it was done"):
            # Between steps nothing may arrive: not even tasks that a step left behind may call a tool.
            for noise, line in enumerate(self._channel.unasked(deadline.at)):
                self._notice(decode_frame(line), noise)
        with self._losing_by(deadline, "too_long", "the step sent a message that is too long"):
            self._channel.send(encode_request(request_id, code), deadline.at)
            return self._reply(request_id, deadline, answer)

    def lost(self, code: LossCode, message: str) -> Lost:
        """Return the error that ends the session, with the end of standard error."""
        return Lost(code, message, self._channel.stderr)

    @contextmanager
    def _losing_by(self, deadline: _Deadline, code: LossCode, message: str) -> Iterator[None]:
        """Raise `Lost` for errors of the channel; with this code and message for a line that is too long."""
        try:
            yield
        except DeadlinePassed:
            raise self.lost(*deadline.passed()) from None
        except LineTooLong:
            raise self.lost(code, message) from None
        except GuestCrashed:
            raise self.lost("died", _CRASHED) from None
        except ProcessEnded:
            raise self._dead() from None

    def _reply(self, request_id: str, deadline: _Deadline, answer: Answer) -> Any:
        noise = calls = chars = 0
        while True:
            frame = decode_frame(self._channel.receive(deadline.at))
            if isinstance(frame, CallFrame):
                calls, chars = calls + 1, chars + frame.chars
                if calls > limits.SANDBOX_CALLS or chars > limits.SANDBOX_CALLS_CHARS:
                    raise self.lost("flood", "the step called tools without end")
                self._answer(frame, deadline, answer)
            elif isinstance(frame, ReplyFrame) and frame.request_id == request_id:
                return self._value(frame)
            else:
                noise += 1
                self._notice(frame, noise)

    def _notice(self, frame: Frame, noise: int) -> None:
        """Ignore noise up to a limit. Raises `Lost` for all else."""
        if noise > limits.SANDBOX_NOISE_LINES:
            raise self.lost("flood", "the step wrote past print, without end")
        if not isinstance(frame, NoiseFrame):
            raise self.lost("forged", FORGED_MESSAGE)

    def _value(self, reply: ReplyFrame) -> Any:
        """Return the value of our own code in the guest, which fails only in a broken session."""
        if reply.has_value:
            return reply.value
        if reply.is_out_of_memory:
            raise self.lost("memory", "the step used up the memory of the sandbox")
        raise self.lost("broken", "the step disturbed the sandbox, which no longer runs code")

    def _answer(self, call: CallFrame, deadline: _Deadline, answer: Answer) -> None:
        """Answer one tool call. Its time is not the code's."""
        if call.number != self.calls + 1:
            raise self.lost("forged", FORGED_MESSAGE)
        self.calls += 1
        began = time.monotonic()
        value = answer(call.tool, call.arguments)
        deadline.put_off(time.monotonic() - began)
        self._channel.send(encode_tool_reply(call.call_id, value), deadline.at)

    def _dead(self) -> Lost:
        """Return the error for a process that exited, with its cause if known."""
        status = self._process.status()
        self._channel.drain()
        if "out of memory" in self._channel.stderr:
            return self.lost("memory", "the step used up the memory of the sandbox")
        return self.lost("died", "the sandbox died in this step" + (f" ({status_in_words(status)})" if status else ""))


def no_tools(name: str, arguments: dict[str, Any]) -> str:
    """Answer a call between steps: with an error."""
    return json.dumps({"error": f"no step is running, so {name} can't be called"})
