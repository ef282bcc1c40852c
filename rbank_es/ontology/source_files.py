"""Finding the files of an ontology, and what form each is in: by its name, and where that lies by its content."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from xml.parsers import expat

from rbank_es import limits
from rbank_es.errors import BadOntology

Format = Literal["turtle", "xml", "nt", "nquads", "json-ld", "trig"]

SUFFIXES: dict[str, Format] = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".n3": "turtle",
    ".rdf": "xml",
    ".rdfs": "xml",
    ".owl": "xml",
    ".xml": "xml",
    ".nt": "nt",
    ".ntriples": "nt",
    ".nq": "nquads",
    ".nquads": "nquads",
    ".jsonld": "json-ld",
    ".json": "json-ld",
    ".trig": "trig",
}
_SHARED_SUFFIXES = frozenset({".json", ".xml"})
"""Suffixes that mostly name something else than RDF: in a directory, the content decides."""

FORMATS = "Turtle, RDF/XML, N-Triples, N-Quads, JSON-LD and TriG"

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_TEXT = {
    b"\x1f\x8b": "is compressed (gzip)",
    b"BZh": "is compressed (bzip2)",
    b"\xfd7zXZ": "is compressed (xz)",
    b"PK\x03\x04": "is a zip archive",
    b"\x28\xb5\x2f\xfd": "is compressed (zstd)",
    b"HDT": "is an HDT file",
    b"%PDF": "is a PDF",
    b"SQLite": "is a database",
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_COMMENTS = re.compile(r"\A(?:\s+|#[^\n]*(?:\n|$))*")
_XML = re.compile(r"<\?xml|<!--|<!DOCTYPE|<[A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?\s+[\w:.-]+\s*=")
_HTML = re.compile(r"(?:<\?xml[^>]*>)?\s*(?:<!--.*?-->\s*)*(?:<!DOCTYPE\s+html|<html\b)", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(r'\{\s*(?:"|\}\s*$)|\[\s*(?:[{"]|\]\s*$)')
_TERM = r'(?:<[^<>"{}|^`\\\s]*>|_:\S+)'
_STATEMENT = rf'{_TERM}[ \t]*<[^<>\s]*>[ \t]*(?:{_TERM}|"(?:[^"\\\n]|\\.)*"(?:@[\w-]+|\^\^<[^<>\s]*>)?)'
_LINE = re.compile(rf"{_STATEMENT}[ \t]*(?:{_TERM}[ \t]*)?\.[ \t]*(?:#.*)?(?:\r?\n|$)")
_QUAD_LINE = re.compile(rf"^[ \t]*{_STATEMENT}[ \t]*{_TERM}[ \t]*\.[ \t]*(?:#.*)?$", re.MULTILINE)
_GRAPH_BLOCK = re.compile(
    r"(?:^|\.[ \t]|\})[ \t]*(?:GRAPH[ \t]+)?(?:<[^<>\s]*>|[\w.-]*:[\w.-]*)?\s?\{", re.IGNORECASE | re.MULTILINE
)


class SourceFile(NamedTuple):
    """One file of an ontology, read once to its end."""

    path: Path
    format: Format
    size_bytes: int
    sha256: str
    modified_ns: int
    """When the file was last changed, as its file system tells: a file that changes while it is read is refused."""


def find_files(paths: Sequence[Path]) -> tuple[SourceFile, ...]:
    """The RDF files that paths name, in the order given; those of a directory by name, its subdirectories included.

    Hidden files and directories, and files of a directory that are not RDF, are passed by. Of files with the same
    content only the first counts. A file that is named itself must be RDF of one of `FORMATS`; a suffix that lies
    or is missing doesn't matter.

    Raises:
        BadOntology: nothing there, no RDF, not a regular file, not readable, or over `ONTOLOGY_FILES` or
            `ONTOLOGY_BYTES`.
    """
    found: dict[str, SourceFile] = {}
    left = limits.ONTOLOGY_BYTES
    for number, (path, named) in enumerate(_candidates(paths)):
        if number >= limits.ONTOLOGY_FILES:
            reason = f"holds more than {limits.ONTOLOGY_FILES:,} RDF files"
            raise BadOntology(str(path.parent), reason, "join them, or give a directory with fewer")
        file = _read(path, named, left)
        if file is not None and file.sha256 not in found:
            found[file.sha256] = file
            left -= file.size_bytes
    if not found:
        place = ", ".join(map(str, paths)) or "no path"
        raise BadOntology(place, "no RDF file there", f"give a file, or a directory with files, in {FORMATS}")
    return tuple(found.values())


def _candidates(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Files that may be RDF, and whether each was named itself."""
    for path in paths:
        if _is_directory(path):
            for folder, folders, files in os.walk(path, onerror=_refuse):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                yield from ((Path(folder, name), False) for name in sorted(files) if _could_be(name))
        else:
            yield path, True


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise _unreadable(path, error) from error


def _could_be(name: str) -> bool:
    """Whether a file in a directory may be RDF, by its name."""
    return not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES


def _refuse(error: OSError) -> None:
    raise _unreadable(Path(error.filename), error)


def _unreadable(path: Path, error: OSError | ValueError) -> BadOntology:
    if isinstance(error, FileNotFoundError):
        return BadOntology(str(path), "no such file or directory", "check the path")
    reason = f"can't be read ({getattr(error, 'strerror', None) or error})"
    return BadOntology(str(path), reason, "check the path and its permissions")


def _read(path: Path, named: bool, left: int) -> SourceFile | None:
    """Size, digest and form of one file; None where it was not named itself and is not RDF."""
    try:
        # Opening a named pipe would wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(path, error) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise BadOntology(str(path), "is not a regular file", "give an RDF file, or a directory of RDF files")
        if status.st_size > left:
            raise _too_large(path)
        head, size, digest = _consume(path, handle, left)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(handle)
    form = _form(path, head, named)
    return SourceFile(path, form, size, digest, status.st_mtime_ns) if form else None


def _consume(path: Path, handle: int, left: int) -> tuple[bytes, int, str]:
    """First bytes, size and digest of an open file, read to its end."""
    digest, size, head = hashlib.sha256(), 0, b""
    while piece := os.read(handle, 1 << 20):
        head = head or piece[: limits.ONTOLOGY_HEAD_BYTES]
        size += len(piece)
        if size > left:
            raise _too_large(path)
        digest.update(piece)
    return head, size, digest.hexdigest()


def _too_large(path: Path) -> BadOntology:
    allowed = limits.ONTOLOGY_BYTES // limits.MIB
    hint = "put larger data behind a SPARQL endpoint and give that"
    return BadOntology(str(path), f"the files come to more than {allowed} MiB together", hint)


def _form(path: Path, head: bytes, named: bool) -> Format | None:
    """The form of a file; None, or an error where it was named itself, if it has none."""
    try:
        form = recognise(head, SUFFIXES.get(path.suffix.lower()))
    except ValueError as error:
        if not named and path.suffix.lower() in _SHARED_SUFFIXES:
            return None
        raise BadOntology(str(path), str(error), f"give a file in {FORMATS}, encoded in UTF-8") from None
    shared = not named and path.suffix.lower() in _SHARED_SUFFIXES
    return None if shared and not _is_rdf(head, form) else form


def _is_rdf(head: bytes, form: Format) -> bool:
    """Whether XML or JSON in a directory is RDF: its first bytes say so in words that RDF/XML and JSON-LD must have."""
    if form == "json-ld":
        return any(word in head for word in (b'"@context"', b'"@id"', b'"@graph"', b'"@type"'))
    return form != "xml" or b"http://www.w3.org/1999/02/22-rdf-syntax-ns#" in head


def recognise(head: bytes, named: Format | None = None) -> Format:
    """The form of RDF that begins with these bytes.

    Args:
        head: the file's first bytes, at most a few tens of kilobytes.
        named: the form that the file's name stands for; it holds unless the content is of another family.

    Raises:
        ValueError: it is nothing of the kind; the message says what it is instead.
    """
    if not head.strip():
        raise ValueError("is empty")
    for magic, what in _NOT_TEXT.items():
        if head.startswith(magic):
            raise ValueError(what)
    if head.startswith(_UTF_16):
        raise ValueError("is encoded in UTF-16")
    if b"\0" in head:
        raise ValueError("is binary, not text")
    text = head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", errors="replace")
    return _recognise_text(_COMMENTS.sub("", text, count=1), named)


def _recognise_text(start: str, named: Format | None) -> Format:
    if _HTML.match(start):
        raise ValueError("is a web page (HTML), not RDF")
    if _XML.match(start):
        return "xml"
    if _JSON.match(start):
        return "json-ld"
    if _LINE.match(start):
        if _QUAD_LINE.search(start):
            return "nquads"
        return named if named in ("nt", "nquads", "trig", "turtle") else "nt"
    return "trig" if named == "trig" or _GRAPH_BLOCK.search(start) else "turtle"


def digest_of(files: Iterable[SourceFile]) -> str:
    """SHA-256 over the files' own digests, sorted: names and order don't enter."""
    return hashlib.sha256("\n".join(sorted(file.sha256 for file in files)).encode()).hexdigest()


_REFERENCE = re.compile(r"&([^&;#\s]+);")
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
        if copied > limits.ONTOLOGY_JOINED_CHARS:
            raise Unsound("a text has too many pieces", parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    if joined:
        parser.CharacterDataHandler = add


def _longest(entities: Mapping[str, str]) -> int:
    """The length of the longest entity, those replaced that it is made of."""
    parts = {name: _REFERENCE.findall(value) for name, value in entities.items()}
    lengths = {name: len(value) for name, value in entities.items()}
    for _ in range(limits.ONTOLOGY_ENTITY_DEPTH):
        grown = {name: len(entities[name]) + sum(lengths.get(part, 0) for part in parts[name]) for name in entities}
        if grown == lengths:
            return max(lengths.values())
        lengths = grown
    raise Unsound("its entities are made of entities too many times over")


def _references(path: Path) -> int:
    """How many references a file has at most."""
    with path.open("rb") as file:
        return sum(piece.count(b"&") for piece in iter(lambda: file.read(1 << 20), b""))
