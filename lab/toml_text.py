"""TOML text of plain data: the standard library reads TOML, and doesn't write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(facts: Mapping[str, Any]) -> str:
    """Return plain data as TOML that `tomllib` reads back: the same text for the same data; None is left out.

    Lists of tables become arrays of tables; tables inside other lists raise TypeError.
    """
    return "\n".join(_table((), facts)).strip() + "\n"


def _table(path: tuple[str, ...], facts: Mapping[str, Any]) -> Iterator[str]:
    tables: list[tuple[str, Any]] = []
    for key, value in facts.items():
        if isinstance(value, Mapping) or (isinstance(value, list | tuple) and value and isinstance(value[0], Mapping)):
            tables.append((key, value))
        elif value is not None:
            yield f"{_key(key)} = {_value(value)}"
    # After the plain values, because in TOML all that follows the head of a table belongs to it.
    for key, value in tables:
        inner = (*path, key)
        name = ".".join(map(_key, inner))
        for each in [value] if isinstance(value, Mapping) else value:
            yield ""
            yield f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"
            yield from _table(inner, each)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"TOML has no form for {type(value).__name__}")


def _text(text: str) -> str:
    # JSON's escapes are TOML's too, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
