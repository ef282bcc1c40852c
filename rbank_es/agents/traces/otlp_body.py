"""Bodies of OpenTelemetry's protocol, JSON or protobuf, as plain spans and logs; each that is broken is refused alone.

Ids are hexadecimal in JSON; some tools write base64, as protobuf's own JSON has them, and both are read. So protobuf is
read as its own JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from rbank_es.agents.transcripts.transcript_lines import holdable
from rbank_es.errors import BadInput
from rbank_es.limits.otlp_limits import OTLP_DEPTH

Signal = Literal["traces", "logs"]
_PARTS = {"traces": ("resourceSpans", "scopeSpans", "spans"), "logs": ("resourceLogs", "scopeLogs", "logRecords")}
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""What JSON has no numbers for, as protobuf's JSON writes them."""
_NO_PARENT = (None, "", "0" * _SPAN_DIGITS, base64.b64encode(bytes(_SPAN_DIGITS // 2)).decode())
_REMOTE = 0x200
"""The flag of a span whose parent is in another process."""

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
LAST_NS = 2**62
"""Later times are none, because no clock says them."""


class TimedEvent(msgspec.Struct, frozen=True):
    """An event of a span: its name and attributes."""

    name: str
    attributes: dict[str, Any]


class SentSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span, or a log's record that belongs to one, as it was sent; ids in hexadecimal, times in nanoseconds.

    `event` is the name of a log's event, None for a span. `remote`: its parent is in another process.
    """

    trace: str
    span: str
    parent: str = ""
    remote: bool = False
    name: str = ""
    event: str | None = None
    began_ns: int = 0
    ended_ns: int = 0
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: tuple[TimedEvent, ...] = ()
    is_error: bool = False
    message: str = ""
    dropped: int = 0


class SentBody(msgspec.Struct, kw_only=True):
    """The spans of a body, how many were refused, and why the first of them."""

    spans: list[SentSpan] = []
    refused: int = 0
    reason: str = ""

    def refuse(self, reason: str) -> None:
        """Count a span that can't be read."""
        self.refused += 1
        self.reason = self.reason or reason


def time_text(ns: int) -> str | None:
    """Return nanoseconds since 1970 as an ISO time; None for none."""
    return (_FIRST + timedelta(microseconds=ns // 1_000)).isoformat() if 0 < ns < LAST_NS else None


# ---------------------------------------------------------------- JSON


def body_of_json(data: bytes, signal: Signal) -> SentBody:
    """Return the spans of a JSON body. Raises `BadInput` where it is none."""
    try:
        document = msgspec.json.decode(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        document = _leniently(data, str(error))
    if not isinstance(document, dict):
        raise BadInput("the body is no JSON object")
    return body_of_document(document, signal)


def _leniently(data: bytes, reason: str) -> Any:
    """Return a JSON value that has halves of characters, as texts have that were cut. Raises `BadInput`."""
    try:
        return holdable(json.loads(data.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        raise BadInput(f"the body is no JSON: {reason}") from None


def body_of_document(document: Mapping[str, Any], signal: Signal) -> SentBody:
    """Return the spans of a JSON object; of one with nothing of the signal, none."""
    body = SentBody()
    resources, scopes, leaves = _PARTS[signal]
    for outer in _objects(document.get(resources)):
        resource = outer.get("resource")
        facts = _attributes(resource.get("attributes")) if isinstance(resource, dict) else {}
        for scope in _objects(outer.get(scopes)):
            for leaf in _objects(scope.get(leaves)):
                try:
                    body.spans.append(_sent(leaf, facts) if signal == "traces" else _logged(leaf, facts))
                except (ValueError, TypeError) as error:
                    body.refuse(str(error))
    return body


def _sent(fields: Mapping[str, Any], resource: dict[str, Any]) -> SentSpan:
    status = fields.get("status")
    status = status if isinstance(status, dict) else {}
    given = [
        TimedEvent(str(each.get("name") or ""), _attributes(each.get("attributes")))
        for each in _objects(fields.get("events"))
    ]
    return SentSpan(
        trace=_hex(fields.get("traceId"), _TRACE_DIGITS),
        span=_hex(fields.get("spanId"), _SPAN_DIGITS),
        parent=_hex(fields["parentSpanId"], _SPAN_DIGITS) if fields.get("parentSpanId") not in _NO_PARENT else "",
        remote=bool(_number(fields.get("flags")) & _REMOTE),
        name=str(fields.get("name") or ""),
        began_ns=_number(fields.get("startTimeUnixNano")),
        ended_ns=_number(fields.get("endTimeUnixNano")),
        attributes=_attributes(fields.get("attributes")),
        resource=resource,
        events=tuple(given),
        is_error=status.get("code") in (2, "STATUS_CODE_ERROR"),
        message=str(status.get("message") or ""),
        dropped=_number(fields.get("droppedAttributesCount")),
    )


def _logged(fields: Mapping[str, Any], resource: dict[str, Any]) -> SentSpan:
    attributes = _attributes(fields.get("attributes"))
    at = _number(fields.get("timeUnixNano")) or _number(fields.get("observedTimeUnixNano"))
    return SentSpan(
        trace=_hex(fields.get("traceId"), _TRACE_DIGITS),
        span=_hex(fields.get("spanId"), _SPAN_DIGITS),
        # Before 1.38 the name was an attribute.
        event=str(fields.get("eventName") or attributes.get("event.name") or ""),
        began_ns=at,
        ended_ns=at,
        attributes=attributes,
        resource=resource,
    )


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _attributes(given: Any) -> dict[str, Any]:
    return {each["key"]: _value(each.get("value")) for each in _objects(given) if isinstance(each.get("key"), str)}


def _value(given: Any, depth: int = OTLP_DEPTH) -> Any:
    if not isinstance(given, dict) or depth == 0:
        return None
    for name, value in given.items():
        if name == "doubleValue" and value in _NO_NUMBERS:
            return float(value)
        if name in ("stringValue", "boolValue", "doubleValue"):
            return value if isinstance(value, str | bool | int | float) else None
        if name == "intValue":
            return _number(value, signed=True)
        inner = value.get("values") if isinstance(value, dict) else None
        if name == "arrayValue":
            return [_value(each, depth - 1) for each in _objects(inner)]
        if name == "kvlistValue":
            return {str(each.get("key")): _value(each.get("value"), depth - 1) for each in _objects(inner)}
    return None


def _number(value: Any, *, signed: bool = False) -> int:
    """Return a whole number, which JSON has as a text; 0 for anything else."""
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) <= len(str(2**64)):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**64:
        return 0
    return value if signed or value >= 0 else 0


def _hex(given: Any, digits: int) -> str:
    """Return an id in hexadecimal. Raises ValueError for one that is none."""
    text = given if isinstance(given, str) else ""
    try:
        id = bytes.fromhex(text) if len(text) == digits else base64.b64decode(text, validate=True)
    except ValueError:
        id = b""
    if len(id) * 2 != digits or not any(id):
        kind = "traceId" if digits == _TRACE_DIGITS else "spanId or parentSpanId"
        raise ValueError(f"a {kind} is no {digits} hexadecimal digits, or all are 0")
    return id.hex()


# ---------------------------------------------------------------- protobuf


def load_protobuf() -> dict[Signal, Any]:
    """Return the messages of requests. Raises ModuleNotFoundError without the extra, which nothing else needs."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}


def body_of_protobuf(data: bytes, signal: Signal) -> SentBody:
    """Return the spans of a protobuf body. Raises `BadInput` where it is none."""
    from google.protobuf.json_format import MessageToDict

    request = load_protobuf()[signal]
    try:
        document = MessageToDict(request.FromString(data))
    # The library's error, which is a ValueError in none of its versions, nor the same class in all.
    except Exception as error:
        raise BadInput(f"the body is no protobuf of {signal}: {error}") from None
    return body_of_document(document, signal)
