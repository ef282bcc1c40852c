"""Responses to a browser: each with the headers that keep other sites and other programs away from what it says."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The policy of what is no page: a browser that shows it as one loads and runs nothing."""

BINARY = "application/x-protobuf"
"""The media type that has no characters."""

_GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class PageResponse(Struct, frozen=True, kw_only=True):
    """A response: its status, body and media type, further headers, and the policy under which a browser shows it.

    `live_after` is set where the body is no end of it: positions follow, those after this one.
    """

    status: int = 200
    body: bytes = b""
    media: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    policy: str = NOTHING
    live_after: int | None = None

    def head(self) -> bytes:
        """Return the status line and the headers, up to the empty line."""
        length = () if self.live_after is not None else (("Content-Length", str(len(self.body))),)
        headers = [
            ("Content-Type", self.media if self.media == BINARY else f"{self.media}; charset=utf-8"),
            *length,
            *_GUARDS.items(),
            ("Content-Security-Policy", self.policy),
            # One request a connection: a thread is free again once its request is answered.
            ("Connection", "close"),
            *self.headers,
        ]
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", *(f"{name}: {v}" for name, v in headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def json_response(value: Any) -> PageResponse:
    """Return a value as JSON."""
    return PageResponse(status=200, body=msgspec.json.encode(value))


def refusal(status: int, reason: str) -> PageResponse:
    """Return the response to a request that is not answered."""
    allow = (("Allow", "GET, HEAD"),) if status == 405 else ()
    return PageResponse(status=status, body=msgspec.json.encode({"error": reason}), headers=allow)
