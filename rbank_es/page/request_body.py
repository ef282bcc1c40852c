"""The body of a request, read from its connection within bounds: of a stated length, or in chunks."""

from __future__ import annotations

import re
import socket
from time import monotonic

from rbank_es import limits
from rbank_es.limits.otlp_limits import OTLP_BODY_BYTES, OTLP_BODY_S, OTLP_CHUNK_DIGITS
from rbank_es.page.http_request import PageRequest, Refused

_PIECE_BYTES = 64 * limits.KIB
_LINE_END = b"\r\n"
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,%d})[ \t]*(?:;[^\r\n]*)?" % OTLP_CHUNK_DIGITS)


def read_body(client: socket.socket, request: PageRequest, begun: bytes) -> bytes:
    """Return the body of a request, of which `begun` came with its head. Raises `Refused`, TimeoutError, OSError."""
    body = _BodyReader(client, begun)
    coding, length = request.headers.get("transfer-encoding"), request.headers.get("content-length")
    if coding is not None and (length is not None or coding.lower() != "chunked"):
        raise Refused(400, "a body has a length, or comes in chunks")
    if coding is None and not _is_length(length):
        raise Refused(411, "the length of the body is missing, or is none")
    if length is not None and int(length) > OTLP_BODY_BYTES:
        raise too_long()
    if request.headers.get("expect", "").lower() == "100-continue":
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    return body.chunks() if coding is not None else body.take(int(length or 0))


def _is_length(given: str | None) -> bool:
    return given is not None and given.isascii() and given.isdecimal() and len(given) <= limits.INTEGER_DIGITS


def too_long() -> Refused:
    """Return the refusal of a body beyond the limit."""
    return Refused(413, f"the body has more than {OTLP_BODY_BYTES:,} bytes; send less at once")


class _BodyReader:
    """A reader of a connection that has an end in time."""

    def __init__(self, client: socket.socket, begun: bytes) -> None:
        self._client, self._held = client, bytearray(begun)
        self._end = monotonic() + OTLP_BODY_S

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        while len(self._held) < size:
            self._more()
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def chunks(self) -> bytes:
        """Return what comes in chunks, up to the last one."""
        body = bytearray()
        while size := self._chunk_size():
            if len(body) + size > OTLP_BODY_BYTES:
                raise too_long()
            body += self.take(size)
            if self.take(len(_LINE_END)) != _LINE_END:
                raise Refused(400, "a chunk of the body doesn't end where it says")
        return bytes(body)

    def _chunk_size(self) -> int:
        while (at := self._held.find(_LINE_END)) < 0:
            if len(self._held) > limits.KIB:
                raise Refused(400, "the length of a chunk can't be read")
            self._more()
        found = _CHUNK.fullmatch(self.take(at + len(_LINE_END))[:at])
        if found is None:
            raise Refused(400, "the length of a chunk can't be read")
        return int(found[1], 16)

    def _more(self) -> None:
        # Above 0, because a timeout of 0 makes the socket non-blocking, which raises another error.
        self._client.settimeout(max(0.001, self._end - monotonic()))
        piece = self._client.recv(_PIECE_BYTES)
        if not piece:
            raise ConnectionError("it went away before its body was whole")
        self._held += piece
