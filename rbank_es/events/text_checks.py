"""The gate of texts: what no log can hold is refused by its field, whichever way it comes in.

A log is JSON in UTF-8. It can't hold half a character (a lone surrogate of UTF-16), a number with thousands of digits,
a value without a form in JSON, and values nested too deeply. Every other text is held, by the log and by all read
models, however long its words are and whatever characters it has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from rbank_es.errors import BadEvent

UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoders raise for a value that can't be written. UnicodeEncodeError is a ValueError."""

_HALF = "[\ud800-\udfff]"


def utf8(text: str, path: str) -> bytes:
    """Return a text in UTF-8. Raises `BadEvent` with the path of its field for half a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise unwritable(text, path, error) from None


def unwritable(value: Any, path: str, cause: BaseException) -> BadEvent:
    """Return the error for a value that an encoder refused, with the path of the part that is the reason if known."""
    if isinstance(cause, UnicodeEncodeError):
        for place, text in _parts_of(value, path):
            if isinstance(text, str) and (half := re.search(_HALF, text)):
                code = f"U+{ord(half[0]):04X}"
                return BadEvent(
                    f"half a character ({code}, a lone surrogate) can't be stored: replace it, or leave it out",
                    path=re.sub(_HALF, "\ufffd", place),
                )
    if isinstance(cause, RecursionError):
        reason = "it is nested too deeply"
    elif "digits" in str(cause):
        reason = "a whole number has thousands of digits"
    else:
        reason = str(cause)
    return BadEvent(f"a value can't be stored: {reason}", path=path)


def refuse_non_finite(value: Any, path: str) -> None:
    """Raise `BadEvent` for a NaN or an infinite number in a value: it would be written as null, and read as unknown."""
    for place, number in _parts_of(value, path):
        if isinstance(number, float) and not math.isfinite(number):
            raise BadEvent(f"{number} is not a number that JSON can hold", path=place)


def _parts_of(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys and the plain values in a value, with their paths."""
    # A stack, because the value may be nested more deeply than calls may be.
    waiting = [(path, value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, dict):
            yield from ((place, key) for key in one)
            waiting += [(f"{place}.{key}", part) for key, part in one.items()]
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += [(f"{place}[{index}]", part) for index, part in enumerate(one)]
        elif isinstance(one, msgspec.Struct):
            waiting += [(f"{place}.{name}", getattr(one, name)) for name in one.__struct_fields__]
        else:
            yield place, one
