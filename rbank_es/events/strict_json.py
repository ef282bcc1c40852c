"""JSON as people and other programs give it: refused where one object holds a key twice.

A reader of JSON keeps the last of two values under one key and drops the other without a word, so what was meant is
lost. The log itself is read without this check, which takes longer than all else: no writer of ours repeats a key, and
a line that was changed fails its checksum.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec

_SHOWN_CHARS = 80


class RepeatedKey(msgspec.DecodeError):
    """An object holds the same key twice; `key` names it."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key[:_SHOWN_CHARS]!r} is there twice in one object; leave one of them out")


def decode_given(text: bytes) -> Any:
    """The value of a JSON document.

    Raises `RepeatedKey`, another `msgspec.DecodeError` or UnicodeDecodeError if it is none, and RecursionError.
    """
    value = msgspec.json.decode(text)
    if isinstance(value, dict | list):
        json.loads(text, object_pairs_hook=_once_each, parse_int=str, parse_float=str)
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) != len(dict(pairs)):
        counts = Counter(key for key, _ in pairs)
        raise RepeatedKey(next(key for key, times in counts.items() if times > 1))
