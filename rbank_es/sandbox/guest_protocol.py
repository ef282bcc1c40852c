"""The host's side of one session: requests to the guest, calls of tools in between, and the reply.

Host and guest exchange frames, one JSON object a line. An agent's code can write any bytes to its side of the pipe.
Decoding is a pure function from bytes to one of four types and never raises, so no frame can do more than end its
session. Whatever disturbs it (a time limit, exhausted memory, a dead process, unrequested lines, a forged message)
raises `Lost`: a session never hangs, and never continues from an unknown state.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, NoReturn

import msgspec

from rbank_es import limits
from rbank_es.events.event_envelope import Count
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox.process import (
    Channel,
    DeadlinePassed,
    GuestCrashed,
    LineTooLong,
    ProcessEnded,
    SandboxProcess,
)
from rbank_es.sandbox.step_outcome import LossCode, Measures
from rbank_es.system.error_messages import status_in_words

_COMMON_TYPES = frozenset(
    {"bool", "int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset",
     "range", "NoneType", "Counter", "OrderedDict", "defaultdict", "deque", "date", "datetime", "time", "timedelta",
     "Decimal", "Fraction", "UUID", "Match", "DataFrame", "Series", "ndarray"}
)  # fmt: skip
"""Types of variables that are recorded by name. Others are `other`: an agent may name a class with words that it read,
and facts outlive erasure."""


class CallFrame(NamedTuple):
    """The guest calls a tool. `number` counts the calls of the session, from 1; `chars` are those of its arguments."""

    call_id: str
    number: int
    tool: str
    arguments: dict[str, Any]
    chars: int


class ReplyFrame(NamedTuple):
    """The guest replies to a request: with the value of its code, or without one where the code failed.

    `is_out_of_memory`: it failed for lack of memory.
    """

    request_id: str
    has_value: bool
    value: Any = None
    is_out_of_memory: bool = False


class NoiseFrame(NamedTuple):
    """A line that is no message, or the report of an error that nothing waits for."""


class ForgedFrame(NamedTuple):
    """A message that the guest's own code never sends in this form."""


Frame = CallFrame | ReplyFrame | NoiseFrame | ForgedFrame

NOISE: Final = NoiseFrame()
FORGED: Final = ForgedFrame()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The guest's report of a step. An agent's code may have forged any field, within these types."""

    kind: Literal["output", "final", "error", "syntax"]
    calls: int
    stdout: str = ""
    stdout_chars: Count = 0
    value: str = ""
    value_chars: Count = 0
    final: str = ""
    message: str = ""
    variables_n: Count = 0
    variables_chars: Count = 0
    variable_types: dict[str, Count] = {}

    @property
    def measures(self) -> Measures:
        """The sizes of the step, with common types by name."""
        return Measures(
            stdout_chars=min(self.stdout_chars + self.value_chars, limits.COUNT_MOST),
            variables_n=self.variables_n,
            variables_chars=self.variables_chars,
            variable_types=_by_name(self.variable_types),
        )


def _by_name(types: dict[str, int]) -> dict[str, int]:
    """Return numbers of variables by type, with uncommon types as `other`."""
    counts: dict[str, int] = {}
    for name, number in sorted(types.items()):
        known = name if name in _COMMON_TYPES else "other"
        # Clamped, because the guest's counts may be forged, and events bound theirs.
        counts[known] = min(counts.get(known, 0) + number, limits.COUNT_MOST)
    return counts


class _Wire(msgspec.Struct):
    """The fields of a message. Those whose form depends on others are decoded only when it is known."""

    method: str = ""
    id: Any = None
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Packed(msgspec.Struct):
    packed: str


class _Params(msgspec.Struct):
    name: str
    kwargs: _Packed


_WIRE = msgspec.json.Decoder(_Wire)
_PARAMS = msgspec.json.Decoder(_Params)
_OUTCOME = msgspec.json.Decoder(Outcome)
_CALL_ID = re.compile(r"tc_[0-9]{1,20}_([0-9]{1,15})")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
"""What parsing raises for other bytes than JSON in UTF-8, for deep nesting, and for numbers of thousands of digits."""


def decode_frame(line: bytes) -> Frame:
    """Return the frame in a line, whatever its bytes are."""
    if not line.startswith(b"{"):
        return NOISE
    try:
        wire = _WIRE.decode(line)
    except msgspec.ValidationError:
        return FORGED
    except _UNREADABLE:
        return NOISE
    if wire.method == "tool_call":
        return _call(wire)
    if isinstance(wire.id, str) and not wire.method:
        return _reply(wire.id, wire)
    is_ours = wire.method == "unhandled_error" and wire.id is None
    return NOISE if is_ours or wire == _Wire() and line.strip() == b"{}" else FORGED


def _call(wire: _Wire) -> CallFrame | ForgedFrame:
    try:
        params = _PARAMS.decode(wire.params)
        arguments = plain_json(params.kwargs.packed, sandbox_limits.SANDBOX_ARGUMENT_CHARS)
    except _UNREADABLE:
        return FORGED
    number = _CALL_ID.fullmatch(wire.id) if isinstance(wire.id, str) else None
    if number is None or not isinstance(arguments, dict):
        return FORGED
    return CallFrame(str(wire.id), int(number[1]), params.name, arguments, len(params.kwargs.packed))


def _reply(request_id: str, wire: _Wire) -> ReplyFrame | ForgedFrame:
    try:
        result = msgspec.json.decode(wire.result) if bytes(wire.result) else None
    except _UNREADABLE:
        return FORGED
    if isinstance(result, dict):
        return ReplyFrame(request_id, has_value=True, value=result.get("output"))
    return ReplyFrame(request_id, has_value=False, is_out_of_memory=b"MemoryError" in bytes(wire.error))


def decode_outcome(value: Any) -> Outcome | None:
    """Return the outcome of a step as the guest reports it; None for any other value.

    The submission of a final outcome is a JSON object within the limits of size and depth.
    """
    try:
        outcome = _OUTCOME.decode(value)
        if outcome.kind == "final" and not isinstance(
            plain_json(outcome.final, sandbox_limits.SANDBOX_SUBMIT_CHARS), dict
        ):
            return None
    except _UNREADABLE:
        return None
    return outcome


def plain_json(text: str, most_chars: int) -> Any:
    """Return a value as the guest sends them: of bounded size and depth, finite numbers, text that UTF-8 can encode.

    Raises ValueError, or RecursionError for deep nesting.
    """
    if len(text) > most_chars:
        raise ValueError(f"{len(text):,} characters, {most_chars:,} are taken")
    value = json.loads(text, parse_constant=_refuse_constant)
    _check_plain(value)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_plain(value: Any) -> None:
    # Level by level and not recursive, because nesting that json accepts may be too deep for code that walks it.
    level = [value]
    for _ in range(sandbox_limits.SANDBOX_VALUE_DEPTH + 2):
        if any(type(each) is float and not math.isfinite(each) for each in level):
            raise ValueError("a number has no end")
        level = [inner for each in level if isinstance(each, dict | list) for inner in _inside(each)]
        if not level:
            return
    raise ValueError(f"nested deeper than {sandbox_limits.SANDBOX_VALUE_DEPTH} levels")


def _inside(value: dict[str, Any] | list[Any]) -> Any:
    return value.values() if isinstance(value, dict) else value


def encode_request(request_id: str, code: str) -> bytes:
    """Return the frame that asks the guest to evaluate code of this project."""
    request = {"jsonrpc": "2.0", "method": "execute", "params": {"code": code}, "id": request_id}
    return msgspec.json.encode(request)


def encode_tool_reply(call_id: str, value: str) -> bytes:
    """Return the frame that answers a call."""
    return msgspec.json.encode({"jsonrpc": "2.0", "result": {"value": value, "type": "string"}, "id": call_id})


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


class Conversation:
    """Requests to one guest, one after the other. Calls of tools are numbered through all of them."""

    def __init__(self, channel: Channel, process: SandboxProcess) -> None:
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
                if calls > sandbox_limits.SANDBOX_CALLS or chars > sandbox_limits.SANDBOX_CALLS_CHARS:
                    raise self.lost("flood", "the step called tools without end")
                self._answer(frame, deadline, answer)
            elif isinstance(frame, ReplyFrame) and frame.request_id == request_id:
                return self._value(frame)
            else:
                noise += 1
                self._notice(frame, noise)

    def _notice(self, frame: Frame, noise: int) -> None:
        """Ignore noise up to a limit. Raises `Lost` for all else."""
        if noise > sandbox_limits.SANDBOX_NOISE_LINES:
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
