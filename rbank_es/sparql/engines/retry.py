"""Retries of calls to an endpoint: their waits, their deadline, and the end of a connection at it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from rbank_es import limits
from rbank_es.events.event_envelope import Timer
from rbank_es.sparql.engines.query_engine import Caps

Sleep = Callable[[float], None]
Calendar = Callable[[], datetime]
"""The time of day, for dates in headers."""


def utc_now() -> datetime:
    """Return the machine's time of day."""
    return datetime.now(UTC)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that `Retry-After` asks for as a number or an HTTP date (RFC 9110, 10.2.3), else None."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        # Nine digits of seconds are 30 years, far more than anybody waits.
        return float(value[:9])
    try:
        asked = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        # The parser converts any number of digits, and passes the overflow of a year or a zone on.
        return None
    return max(0.0, (asked.replace(tzinfo=asked.tzinfo or UTC) - now).total_seconds())


def wait_s(tries: int, asked_s: float | None, left_s: float) -> float | None:
    """Return the seconds to wait before the next try, after so many of them; None to give up.

    They are those that the endpoint asks for, else 1, 2, 4 s; never over `ENDPOINT_WAIT_S`, never past the deadline.
    """
    pause_s = float(2 ** (tries - 1)) if asked_s is None else asked_s
    if tries > limits.ENDPOINT_RETRIES or pause_s > limits.ENDPOINT_WAIT_S or pause_s >= left_s:
        return None
    return pause_s


class Deadline:
    """The end of a call's time."""

    def __init__(self, caps: Caps, clock: Timer = time.monotonic) -> None:
        self.timeout_s = caps.timeout_s
        self._clock = clock
        self._end = clock() + caps.timeout_s - caps.spent_s

    @property
    def left_s(self) -> float:
        """Seconds that are left; 0 when it has passed."""
        return max(0.0, self._end - self._clock())

    @property
    def passed(self) -> bool:
        """Whether it has."""
        return self.left_s == 0


class Wire:
    """The connection of a client, which its transport reports; another thread can end it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._cut = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Record a connection that was made (httpx's extension `trace`)."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")
            if self._cut:
                self.cut()

    def cutting_off(self, deadline: Deadline) -> threading.Timer:
        """Return a running timer that ends the connection at the deadline, even amid a byte; it must be cancelled."""
        self._cut = False
        timer = threading.Timer(deadline.left_s, self.cut)
        timer.daemon = True
        timer.start()
        return timer

    def cut(self) -> None:
        """End the connection: whoever waits for it gets an end of file."""
        self._cut = True
        if self._socket is not None:
            try:
                # Not the TLS socket's own method: it would change state that the other thread is using.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            except OSError:
                self._socket = None
