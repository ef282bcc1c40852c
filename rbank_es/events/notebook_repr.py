"""The form of values in a terminal and a notebook: short, and never a payload; hostile text is shown as text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from msgspec import Struct

from rbank_es import limits
from rbank_es.events.hidden_characters import visible
from rbank_es.events.items import one_line


class Shown:
    """A base of structs that hold much: `repr` and the notebook show each field in a few characters.

    A text is cut, a collection of more than three is a count, a value inside is its class. `print` of a struct is the
    same, unless it overrides `__str__`, as answers do.
    """

    __slots__ = ()
    __struct_fields__: ClassVar[tuple[str, ...]]
    __struct_defaults__: ClassVar[tuple[Any, ...]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._shown_fields())})"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{escaped(name)}</th><td>{escaped(value)}</td></tr>" for name, value in self._shown_fields())
        return f"<table><caption>{type(self).__name__}</caption>{''.join(rows)}</table>"

    def _shown_fields(self) -> Iterator[tuple[str, str]]:
        return ((name, short(value)) for name, value in _told_fields(self))


def _told_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each field of a struct that says something, which no default and nothing empty does."""
    defaults = dict(zip(reversed(value.__struct_fields__), reversed(value.__struct_defaults__), strict=False))
    for name in value.__struct_fields__:
        held = getattr(value, name)
        if held != defaults.get(name) and held not in (None, "", (), {}, frozenset()):
            yield name, held


def short(value: Any) -> str:
    """Return a value in a few characters, on one line, with hidden characters spelled out."""
    if isinstance(value, str):
        return visible(repr(one_line(value, limits.REPR_CHARS)))
    if isinstance(value, Collection) and not isinstance(value, bytes) and len(value) > limits.REPR_VALUES:
        return f"<{len(value):,} in all>"
    if isinstance(value, Shown):
        return f"<{type(value).__name__}>"
    if isinstance(value, list | tuple | set | frozenset):
        return f"({', '.join(map(short, value))})"
    return visible(one_line(repr(value), limits.REPR_CHARS))


def printed_lines(value: Struct, indent: str = "") -> Iterator[str]:
    """Yield the lines in which `print` shows a struct: a field each, texts on one line, the first rows of a list."""
    for name, held in _told_fields(value):
        if isinstance(held, str):
            yield f"{indent}{name}: {visible(one_line(held, limits.ITEM_CONTENT_CHARS))}"
        elif isinstance(held, Struct):
            yield f"{indent}{name}:"
            yield from printed_lines(held, f"{indent}  ")
        elif isinstance(held, tuple) and any(isinstance(each, Struct) for each in held):
            yield f"{indent}{name}: {len(held):,}"
            yield from (f"{indent}  {_row(each)}" for each in held[: limits.REPR_ROWS])
        else:
            yield f"{indent}{name}: {short(held)}"


def _row(value: Struct) -> str:
    told = [f"{name}={short(held)}" for name, held in _told_fields(value)]
    return "  ".join(told[: limits.REPR_FIELDS])


def escaped(text: str) -> str:
    """Return a text with what HTML would read as markup escaped."""
    from html import escape  # its table of names takes 3 ms of a start, and only notebooks show it

    return escape(text)


def block_html(text: str) -> str:
    """Return a text as HTML that shows it as it is, hidden characters spelled out."""
    return f"<pre>{escaped(visible(text, keep=chr(10)))}</pre>"
