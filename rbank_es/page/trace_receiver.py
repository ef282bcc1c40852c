"""The receiver of traces: OTLP over HTTP, as JSON or protobuf. What it answers 200 to is on the disk.

Exporters count every 2xx and 3xx as a success, whatever the response says, and come again after a 503 alone. So a
request is answered 503 unless it is in the spool; spans that are refused for good are counted in the response.
"""

from __future__ import annotations

import hmac
import secrets
import sqlite3
import sys
import time
import zlib
from contextlib import suppress
from threading import Event as Signal
from typing import Any
from urllib.parse import quote

import msgspec

from rbank_es.agents.traces import otlp_body
from rbank_es.agents.traces.span_facts import FactReader, facts_of
from rbank_es.agents.traces.trace_intake import take_from
from rbank_es.agents.traces.trace_spool import TraceSpool, Which
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, ProjectionUnavailable, RBankError
from rbank_es.events.redaction import secrets as known_secrets
from rbank_es.limits import page_limits
from rbank_es.limits.otlp_limits import OTLP_BODY_BYTES, OTLP_LOOK_S
from rbank_es.page.http_request import PageRequest, Refused
from rbank_es.page.http_response import PageResponse

PATHS: dict[str, otlp_body.Signal] = {"/v1/traces": "traces", "/v1/logs": "logs"}
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}
_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32


class TraceReceiver:
    """What takes the traces of agents in for one bank, from those that know the token."""

    def __init__(self, bank: Bank, token: str = "") -> None:
        """Open the spool of a bank. Raises as `TraceSpool`, `ModuleNotFoundError` without the extra."""
        otlp_body.load_protobuf()
        self.bank, self.token = bank, token or secrets.token_urlsafe(page_limits.TOKEN_BYTES)
        self._spool = TraceSpool(bank.log.place)
        self._reader = FactReader((*known_secrets(), self.token))

    def variables(self, port: int) -> dict[str, str]:
        """Return the variables of an agent's environment that send its traces here."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{quote(self.token)}",
            # The default of some distributions is gRPC, and metrics have no place in a bank.
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none",
        }

    def check(self, request: PageRequest) -> None:
        """Raise `Refused` for a request whose body is not to be read."""
        given = request.headers.get("authorization", "")
        # OTEL_EXPORTER_OTLP_HEADERS is written with %20, which some exporters leave as it is.
        if not hmac.compare_digest(given.replace("%20", " ").encode(), f"Bearer {self.token}".encode()):
            raise Refused(401, "the token is missing or wrong; send the header that rbank-es serve printed")
        if request.method != "POST":
            raise Refused(405, "traces are sent with POST")
        if _media(request) not in (_JSON, _PROTOBUF):
            raise Refused(415, f"the body must be {_PROTOBUF} or {_JSON}")
        if request.headers.get("content-encoding", "identity") not in ("identity", "gzip", "deflate"):
            raise Refused(415, "the body must be plain, gzip or deflate")

    def receive(self, request: PageRequest, body: bytes) -> PageResponse:
        """Return the response to a request that was checked: 200 once its spans are on the disk."""
        signal, media = PATHS[request.path], _media(request)
        try:
            plain = unpacked(body, request.headers.get("content-encoding", "identity"))
            sent = (otlp_body.body_of_json if media == _JSON else otlp_body.body_of_protobuf)(plain, signal)
            facts = facts_of(sent, self._reader)
        except Refused as refused:
            return _failed(media, refused.status, str(refused))
        except BadInput as error:
            return _failed(media, 400, str(error))
        try:
            self._spool.add(facts, time.time())
        except (sqlite3.Error, OSError) as error:
            return _failed(media, 503, f"the spool can't be written: {error}")
        return PageResponse(body=_received(media, signal, sent), media=media)

    def take_in(self, stop: Signal) -> None:
        """Take what is due into the bank until `stop` is set; then what has a root, for `STOP_S` seconds.

        What is left stays in the spool. A failure is told once.
        """
        last = ""
        while True:
            stopping = stop.wait(OTLP_LOOK_S)
            try:
                which: Which = "rooted" if stopping else "due"
                if take_from(self._spool, self.bank, which, most_s=page_limits.STOP_S).appended:
                    with suppress(ProjectionUnavailable):
                        self.bank.project()
                last = ""
            except (RBankError, sqlite3.Error, OSError) as error:
                if str(error) != last:
                    last = str(error)
                    print(f"rbank-es serve: traces wait in their spool: {error}", file=sys.stderr, flush=True)
            if stopping:
                return

    def close(self) -> None:
        """Close the spool."""
        self._spool.close()


def _media(request: PageRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body without its encoding. Raises `Refused` beyond the limit, whatever it was packed to, or broken."""
    if encoding == "identity":
        return body
    plain = bytearray()
    try:
        while body:
            unpacker = zlib.decompressobj(_ZLIB_OR_GZIP)
            plain += unpacker.decompress(body, OTLP_BODY_BYTES + 1 - len(plain))
            if len(plain) > OTLP_BODY_BYTES:
                raise Refused(413, f"the body has more than {OTLP_BODY_BYTES:,} bytes unpacked; send less at once")
            if not unpacker.eof:
                raise Refused(400, f"the body's {encoding} is cut")
            body = unpacker.unused_data
    except zlib.error as error:
        raise Refused(400, f"the body is no {encoding}: {error}") from None
    return bytes(plain)


# ---------------------------------------------------------------- responses


def _received(media: str, signal: otlp_body.Signal, sent: otlp_body.SentBody) -> bytes:
    """Return the response of the protocol: empty, or with what was refused for good."""
    if media == _JSON:
        told: dict[str, Any] = {_REJECTED[signal]: str(sent.refused), "errorMessage": sent.reason}
        return msgspec.json.encode({"partialSuccess": told} if sent.refused else {})
    if not sent.refused:
        return b""
    return _field(1, b"\x08" + _varint(sent.refused) + _field(2, sent.reason.encode()))


def _failed(media: str, status: int, reason: str) -> PageResponse:
    """Return a refusal as the protocol has it: a Status, in the form of the request."""
    body = msgspec.json.encode({"message": reason}) if media == _JSON else _field(2, reason.encode())
    return PageResponse(status=status, body=body, media=media)


def _field(number: int, data: bytes) -> bytes:
    """Return a field of protobuf that has a length."""
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Return a whole number as protobuf has it."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])
