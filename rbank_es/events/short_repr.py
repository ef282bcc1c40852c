"""The form of values in a terminal and a notebook: short, and never a payload; hostile text is shown as text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape
from typing import Any, ClassVar

from rbank_es import limits
from rbank_es.events.items import one_line
from rbank_es.events.visible_text import visible


class Shown:
    """A base of structs that hold much: `repr` and the notebook show each field in a few characters.

    A text is cut, a collection of more than three is a count, a value inside is its class. `print` of a struct is the
    same, unless it overrides `__str__`.
    """

    __slots__ = ()
    __struct_fields__: ClassVar[tuple[str, ...]]
    __struct_defaults__: ClassVar[tuple[Any, ...]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._shown_fields())})"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self._shown_fields())
        return f"<table><caption>{type(self).__name__}</caption>{''.join(rows)}</table>"

    def _shown_fields(self) -> Iterator[tuple[str, str]]:
        """Yield each field that says something, which no default and nothing empty does, with its short form."""
        defaults = dict(zip(reversed(self.__struct_fields__), reversed(self.__struct_defaults__), strict=False))
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value != defaults.get(name) and value not in (None, (), {}, frozenset()):
                yield name, short(value)


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


def block_html(text: str) -> str:
    """Return a text as HTML that shows it as it is, hidden characters spelled out."""
    return f"<pre>{escape(visible(text, keep=chr(10)))}</pre>"
