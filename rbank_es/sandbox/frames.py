"""The frames between host and guest: one JSON object a line. Frames of the guest are decoded and checked here alone.

An agent's code can write any bytes to its side of the pipe. Decoding is a pure function from bytes to one of four
types and never raises, so that no frame can do more than end its session.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from rbank_es import limits
from rbank_es.sandbox.step_outcome import Outcome


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
        arguments = plain_json(params.kwargs.packed, limits.SANDBOX_ARGUMENT_CHARS)
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
        if outcome.kind == "final" and not isinstance(plain_json(outcome.final, limits.SANDBOX_SUBMIT_CHARS), dict):
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
    for _ in range(limits.SANDBOX_VALUE_DEPTH + 2):
        if any(type(each) is float and not math.isfinite(each) for each in level):
            raise ValueError("a number has no end")
        level = [inner for each in level if isinstance(each, dict | list) for inner in _inside(each)]
        if not level:
            return
    raise ValueError(f"nested deeper than {limits.SANDBOX_VALUE_DEPTH} levels")


def _inside(value: dict[str, Any] | list[Any]) -> Any:
    return value.values() if isinstance(value, dict) else value


def encode_request(request_id: str, code: str) -> bytes:
    """Return the frame that asks the guest to evaluate code of this project."""
    request = {"jsonrpc": "2.0", "method": "execute", "params": {"code": code}, "id": request_id}
    return msgspec.json.encode(request)


def encode_tool_reply(call_id: str, value: str) -> bytes:
    """Return the frame that answers a call."""
    return msgspec.json.encode({"jsonrpc": "2.0", "result": {"value": value, "type": "string"}, "id": call_id})
