"""The texts of vectors: how an event keeps the vector that a model gave a text, beside the digest of that text.

    SHA-256 of the text in hex, a space, base64 of the numbers as little-endian float32

Whoever erases a text finds its vector by the digest. So a vector goes with its text, which it would give away.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from rbank_es import limits
from rbank_es.events.items import ItemText

DIGEST_CHARS = 64
"""Hex digits of a digest, with which the text of a vector begins."""

_FLOAT_BYTES = 4


class TextVector(NamedTuple):
    """The vector of the text that has this digest."""

    digest: str
    numbers: array[float]


def embedded_text(title: str = "", desc: str = "", content: str = "", *, tags: str = "") -> str:
    """Return the text of which a model gives an item's vector; `tags` are joined by newlines. A query is a title."""
    return "\n".join(part for part in (title, desc, content, tags) if part)


def text_of_item(words: ItemText) -> str:
    """Return the text of which a model gives the vector of an item with these words."""
    return embedded_text(words.title, words.desc, words.content, tags="\n".join(words.tags))


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text, hex."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def vector_text(digest: str, numbers: Iterable[float]) -> str:
    """Return the text of a vector, rounded to float32. Raises `ValueError` for a number that float32 can't hold."""
    try:
        rounded = array("f", numbers)
    except (OverflowError, TypeError) as error:
        raise ValueError(str(error)) from None
    return f"{digest} {base64.b64encode(_little_endian(rounded).tobytes()).decode()}"


def read_vector(text: str) -> TextVector:
    """Return the vector that a text holds. Raises `ValueError` for any other text, and for a vector of no direction."""
    digest, _, encoded = text.partition(" ")
    if len(digest) != DIGEST_CHARS or not set(digest) <= set("0123456789abcdef"):
        raise ValueError("it begins with no digest")
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from None
    if not 0 < len(data) <= limits.VECTOR_DIMENSIONS * _FLOAT_BYTES or len(data) % _FLOAT_BYTES:
        raise ValueError(f"{len(data):,} bytes hold no vector")
    numbers = array("f")
    numbers.frombytes(data)
    numbers = _little_endian(numbers)
    check_direction(numbers)
    return TextVector(digest, numbers)


def check_direction(numbers: Sequence[float]) -> None:
    """Raise `ValueError` for a vector that has no direction: without numbers, not finite, or zero everywhere."""
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number of it is not finite")
    if not any(numbers):
        raise ValueError("all its numbers are 0")


def _little_endian(numbers: array[float]) -> array[float]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
