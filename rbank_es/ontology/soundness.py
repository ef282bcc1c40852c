"""What would break a reader of RDF, found before it reads.

pyoxigraph takes XML for whole that ends before its last element does, expands entities within entities until memory is
gone, and dies of JSON objects and triple terms that are nested too deep; rdflib joins a text of many pieces in time
that grows with their square. All of this was seen with files of a few kilobytes.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from xml.parsers import expat

from rbank_es import limits
from rbank_es.ontology.source_files import Format

_REFERENCE = re.compile(r"&([^&;#\s]+);")
_ENTITY_DEPTH = 10
"""How deep entities may be made of others."""

_JOINED_CHARS = 10_000_000_000
"""Characters that rdflib may copy while it joins the pieces of one text: some seconds."""

_JSON_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|([\[{])|([\]}])', re.DOTALL)
_TRIPLE_TERMS = re.compile(rb"(<<\s*\()|(\)\s*>>)")

_TOO_DEEP = f"it is nested deeper than {limits.ONTOLOGY_DEPTH:,} levels"


class Unsound(ValueError):
    """A file that is cut or broken, or that would grow out of bounds."""

    def __init__(self, reason: str, lineno: int | None = None) -> None:
        super().__init__(reason)
        self.lineno = lineno


def check_sound(path: Path, form: Format, expanded_bytes: int, *, joined: bool = False) -> None:
    """Look through a file; nothing is fetched.

    Args:
        path: the file.
        form: what it is.
        expanded_bytes: what entities of XML may come to together.
        joined: whether XML is refused too if the pieces of a text (lines, entities) would take too long to join.

    Raises:
        Unsound: things in it are nested deeper than `ONTOLOGY_DEPTH`; or it is XML that is not well-formed, or whose
            entities come to more.
        OSError: it can't be read.
    """
    if form == "xml":
        _check_xml(path, expanded_bytes, joined)
    elif form == "json-ld":
        _check_depth(path, _JSON_BRACKETS, b"")
    else:
        _check_depth(path, _TRIPLE_TERMS, b"<<")


def _check_depth(path: Path, brackets: re.Pattern[bytes], needed: bytes) -> None:
    """Refuse a file in which brackets (first group: opening, second: closing) are nested too deep."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(needed) < 0:
            return
        depth = 0
        for found in brackets.finditer(content):
            depth += 1 if found[1] else -1 if found[2] else 0
            if depth > limits.ONTOLOGY_DEPTH:
                raise Unsound(_TOO_DEEP, content[: found.start()].count(b"\n") + 1)


def _check_xml(path: Path, expanded_bytes: int, joined: bool) -> None:
    parser = expat.ParserCreate()
    entities: dict[str, str] = {}

    def declare(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if value is not None and not is_parameter:
            entities[name] = value

    parser.EntityDeclHandler = declare
    _watch_elements(parser, joined)
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise Unsound(expat.errors.messages.get(error.code, str(error)), error.lineno) from error
    if entities and _references(path) * _longest(entities) > expanded_bytes:
        raise Unsound("its entities come to too much")


def _watch_elements(parser: expat.XMLParserType, joined: bool) -> None:
    """Refuse elements that are nested too deep, and texts whose pieces would take too long to join."""
    depth = length = copied = 0

    def start(*_: object) -> None:
        nonlocal depth, length, copied
        length = copied = 0
        depth += 1
        if depth > limits.ONTOLOGY_DEPTH:
            raise Unsound(_TOO_DEEP, parser.CurrentLineNumber)

    def end(_: str) -> None:
        nonlocal depth, length, copied
        length = copied = 0
        depth -= 1

    def add(piece: str) -> None:
        nonlocal length, copied
        length += len(piece)
        copied += length
        if copied > _JOINED_CHARS:
            raise Unsound("a text has too many pieces", parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    if joined:
        parser.CharacterDataHandler = add


def _longest(entities: Mapping[str, str]) -> int:
    """The length of the longest entity, those replaced that it is made of."""
    parts = {name: _REFERENCE.findall(value) for name, value in entities.items()}
    lengths = {name: len(value) for name, value in entities.items()}
    for _ in range(_ENTITY_DEPTH):
        grown = {name: len(entities[name]) + sum(lengths.get(part, 0) for part in parts[name]) for name in entities}
        if grown == lengths:
            return max(lengths.values())
        lengths = grown
    raise Unsound("its entities are made of entities too many times over")


def _references(path: Path) -> int:
    """How many references a file has at most."""
    with path.open("rb") as file:
        return sum(piece.count(b"&") for piece in iter(lambda: file.read(1 << 20), b""))
