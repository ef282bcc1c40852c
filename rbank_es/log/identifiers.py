"""Times and ids that the writer gives."""

from __future__ import annotations

import base64
import time
from hashlib import sha256

from rbank_es.log.file.lines import SALT_CHARS

_second = (-1, "")


def utc_text(at_us: int) -> str:
    """UTC microseconds since 1970 as `2026-01-31T12:00:00.000000Z`."""
    global _second
    second, us = divmod(at_us, 1_000_000)
    known, text = _second
    if known != second:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _second = (second, text)
    return f"{text}.{us:06d}Z"


def uuid7s(at_us: int, noise: bytes) -> list[str]:
    """A UUIDv7 (RFC 9562, 5.7) of that millisecond for every 10 random bytes."""
    stamp = f"{at_us // 1000:012x}"
    head, bits = f"{stamp[:8]}-{stamp[8:12]}-7", noise.hex()
    return [
        f"{head}{bits[i : i + 3]}-{'89ab'[noise[i // 2 + 9] & 3]}{bits[i + 3 : i + 6]}-{bits[i + 6 : i + 18]}"
        for i in range(0, len(bits), 20)
    ]


def uuid8(noise: bytes) -> str:
    """A UUIDv8 (RFC 9562, 5.8) whose free bits are the first 16 bytes of `noise`, a digest for instance."""
    bits = noise[:16].hex()
    return f"{bits[:8]}-{bits[8:12]}-8{bits[13:16]}-{'89ab'[noise[8] & 3]}{bits[17:20]}-{bits[20:32]}"


def derived_id(source: bytes, *parts: str | int) -> str:
    """A UUIDv8 (RFC 9562): the first 122 bits of SHA-256 over the source and the parts, in the layout of version 8."""
    return uuid8(sha256(b"\0".join((source, *(str(part).encode() for part in parts)))).digest())


def salts(noise: bytes) -> list[str]:
    """A salt of 24 base64url characters for every 18 random bytes."""
    text = base64.urlsafe_b64encode(noise).decode()
    return [text[start : start + SALT_CHARS] for start in range(0, len(text), SALT_CHARS)]
