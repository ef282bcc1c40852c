"""Whether XML is whole and harmless, before a reader of RDF/XML sees it.

pyoxigraph takes a file for whole that ends before its last element does, and expands entities within entities until
memory is gone; rdflib joins a text of many pieces in time that grows with their square. Expat knows better.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.parsers import expat

_REFERENCE = re.compile(r"&([^&;#\s]+);")
_DEPTH = 10
"""How deep entities may be made of others."""

_JOINED_CHARS = 10_000_000_000
"""Characters that rdflib may copy while it joins the pieces of one text: some seconds."""


class BadMarkup(ValueError):
    """XML that is cut, broken, or would grow out of bounds."""

    def __init__(self, reason: str, lineno: int | None = None) -> None:
        super().__init__(reason)
        self.lineno = lineno


def check_markup(path: Path, expanded_bytes: int, *, joined: bool = False) -> None:
    """Read a file of XML to its end; nothing is fetched.

    Args:
        path: the file.
        expanded_bytes: what its entities may come to together.
        joined: whether a text is refused too whose pieces (lines, entities) would take too long to join.

    Raises:
        BadMarkup: it is not well-formed, or its entities come to more.
        OSError: it can't be read.
    """
    parser = expat.ParserCreate()
    entities: dict[str, str] = {}

    def declare(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if value is not None and not is_parameter:
            entities[name] = value

    parser.EntityDeclHandler = declare
    if joined:
        _watch_texts(parser)
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise BadMarkup(expat.errors.messages.get(error.code, str(error)), error.lineno) from error
    if entities and _references(path) * _longest(entities) > expanded_bytes:
        raise BadMarkup("its entities come to too much")


def _watch_texts(parser: expat.XMLParserType) -> None:
    """Refuse a text whose pieces would take too long to join."""
    length = copied = 0

    def restart(*_: object) -> None:
        nonlocal length, copied
        length = copied = 0

    def add(piece: str) -> None:
        nonlocal length, copied
        length += len(piece)
        copied += length
        if copied > _JOINED_CHARS:
            raise BadMarkup("a text has too many pieces", parser.CurrentLineNumber)

    parser.StartElementHandler = parser.EndElementHandler = restart
    parser.CharacterDataHandler = add


def _longest(entities: Mapping[str, str]) -> int:
    """The length of the longest entity, those replaced that it is made of."""
    parts = {name: _REFERENCE.findall(value) for name, value in entities.items()}
    lengths = {name: len(value) for name, value in entities.items()}
    for _ in range(_DEPTH):
        grown = {name: len(entities[name]) + sum(lengths.get(part, 0) for part in parts[name]) for name in entities}
        if grown == lengths:
            return max(lengths.values())
        lengths = grown
    raise BadMarkup("its entities are made of entities too many times over")


def _references(path: Path) -> int:
    """How many references a file has at most."""
    with path.open("rb") as file:
        return sum(piece.count(b"&") for piece in iter(lambda: file.read(1 << 20), b""))
