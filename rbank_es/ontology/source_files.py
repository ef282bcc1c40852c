"""The files of an ontology: found, recognised by name and content, and checked for content that breaks a reader.

pyoxigraph accepts XML that ends before its last element does, and expands nested entities until memory is exhausted. It
crashes on JSON objects and triple terms that are nested too deep. rdflib joins a text of many pieces in quadratic time.
All of this was measured with files of a few kilobytes.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from xml.parsers import expat

from rbank_es import limits
from rbank_es.errors import BadFiles, BadInput, BadOntology
from rbank_es.ontology.rdf_names import RDF
from rbank_es.ontology.unsupported_formats import (
    JSON_LD_WORDS,
    NotRdf,
    refuse_bytes,
    refuse_json,
    refuse_page,
    refuse_text,
    refuse_xml,
)
from rbank_es.system.files import NotRegular, open_regular

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
"""Suffixes that mostly name other files than RDF: in a directory, the content decides."""

FORMATS = "Turtle, RDF/XML, N-Triples, N-Quads, JSON-LD and TriG"

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_COMMENTS = re.compile(r"\A(?:\s+|#[^\n]*(?:\n|$))*")
_NAME = r"[A-Za-z_][\w.-]*+(?::[A-Za-z_][\w.-]*+)?"
# Without attributes, what may be a tag may be an IRI too (`<a> <b> <c> .`), unless it is closed soon.
_CLOSED = rf"<(?P<tag>{_NAME})\s*>(?=(?s:.{{0,2000}}?)</(?P=tag)\s*>)"
_XML = re.compile(rf"<\?xml|<!--|<!DOCTYPE|<{_NAME}\s+[\w:.-]+\s*=|{_CLOSED}")
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
    """Time of the last change, by the file system: a file that changes while it is read is refused."""


class FoundFiles(NamedTuple):
    """The files of an ontology, and the error of each that can't be used."""

    files: tuple[SourceFile, ...]
    failures: tuple[BadOntology, ...] = ()

    def without(self, failures: Sequence[BadOntology]) -> FoundFiles:
        """Return the files without those that failed later."""
        paths = {failure.path for failure in failures}
        left = tuple(file for file in self.files if str(file.path) not in paths)
        return FoundFiles(left, (*self.failures, *failures))

    def refusal(self) -> BadInput:
        """Return the error for all that can't be used; of a single file, its own."""
        ordered = sorted(self.failures, key=lambda each: each.path)
        return ordered[0] if len(ordered) == 1 and not self.files else BadFiles(ordered, len(self.files))


class UnreadFiles(Exception):
    """Files that can't be parsed: `found` has those that can, and the error of each that can't."""

    def __init__(self, found: FoundFiles) -> None:
        super().__init__(str(found.refusal()))
        self.found = found


def find_files(paths: Sequence[Path]) -> FoundFiles:
    """Return the RDF files that paths name, in the order given; those of a directory by name, recursively.

    Hidden files and directories are skipped, and files of a directory that are not RDF. Of files with the same content
    only the first counts. A file that is named itself must be RDF of one of `FORMATS`; its suffix may be wrong or
    missing. What is missing, no RDF, not a regular file, or not readable is among the failures. Raises:
        BadOntology: nothing there, or over `ONTOLOGY_FILES` or `ONTOLOGY_BYTES`; a single file can't be used.
        BadFiles: none of several can be used.
    """
    found: dict[str, SourceFile] = {}
    failures: dict[str, BadOntology] = {}
    left = limits.ONTOLOGY_BYTES
    for number, (path, named) in enumerate(_candidates(paths)):
        if number >= limits.ONTOLOGY_FILES:
            raise _too_many(_place_of(path))
        try:
            file = _read(path, named, left)
        except _Unusable as unusable:
            failures.setdefault(unusable.failure.path, unusable.failure)
            continue
        if file is not None and file.sha256 not in found:
            found[file.sha256] = file
            left -= file.size_bytes
    if not found and not failures:
        place = ", ".join(map(str, paths)) or "no path"
        raise BadOntology(place, "no RDF file there", f"give a file, or a directory with files, in {FORMATS}")
    files = FoundFiles(tuple(found.values()), tuple(failures.values()))
    if not found:
        raise files.refusal()
    return files


class _Unusable(Exception):
    """A file or a directory that can't be used, while others may."""

    def __init__(self, failure: BadOntology) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _candidates(paths: Sequence[Path]) -> Iterator[tuple[Path | OSError, bool]]:
    """Yield files that may be RDF, and whether each was named itself; the error of a directory that can't be listed."""
    refused: list[OSError] = []

    def refuse(error: OSError) -> None:
        # Bounded here too, because a walk through directories that can't be listed yields nothing.
        if len(refused) >= limits.ONTOLOGY_FILES:
            raise _too_many(_place_of(error))
        refused.append(error)

    for path in paths:
        if _is_directory(path):
            for folder, folders, files in os.walk(path, onerror=refuse):
                # In place, because os.walk then visits them in this order.
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                yield from _drained(refused)
                yield from ((Path(folder, name), False) for name in sorted(files) if _could_be(name))
            yield from _drained(refused)
        else:
            yield path, True


def _drained(refused: list[OSError]) -> Iterator[tuple[OSError, bool]]:
    while refused:
        yield refused.pop(0), False


def _place_of(path: Path | OSError) -> Path:
    return Path(path.filename) if isinstance(path, OSError) else path


def _too_many(path: Path) -> BadOntology:
    reason = f"holds more than {limits.ONTOLOGY_FILES:,} RDF files"
    return BadOntology(str(path.parent), reason, "join them, or give a directory with fewer")


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    # Whoever reads it as a file says what is wrong with it.
    except OSError:
        return False


def _could_be(name: str) -> bool:
    """Return whether a file in a directory may be RDF, by its name."""
    return not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES


def _unreadable(path: Path, error: OSError | ValueError) -> BadOntology:
    if isinstance(error, FileNotFoundError):
        return BadOntology(str(path), "no such file or directory", "check the path")
    reason = f"can't be read ({getattr(error, 'strerror', None) or error})"
    return BadOntology(str(path), reason, "check the path and its permissions")


def _read(path: Path | OSError, named: bool, left: int) -> SourceFile | None:
    """Return size, digest and format of one file; None if it is neither named itself nor RDF.

    Raises `_Unusable` where it can't be read or is no RDF, `BadOntology` where it is larger than `left` bytes.
    """
    if isinstance(path, OSError):
        raise _Unusable(_unreadable(_place_of(path), path)) from path
    try:
        handle = open_regular(path, follow=named)
    except NotRegular as error:
        reason = f"is not a regular file, but {error.kind}"
        hint = "give an RDF file by its own name, or a directory of RDF files"
        raise _Unusable(BadOntology(str(path), reason, hint)) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _Unusable(_unreadable(path, error)) from error
    try:
        status = os.fstat(handle)
        first = os.read(handle, _PIECE_BYTES)
        # By its first bytes, before the rest is read: a folder of large files that are no RDF is refused at once.
        form = _form(path, first[: limits.ONTOLOGY_HEAD_BYTES], named)
        if form is None:
            return None
        if status.st_size > left:
            raise _too_large(path)
        size, digest = _consume(path, handle, first, left)
    except OSError as error:
        raise _Unusable(_unreadable(path, error)) from error
    finally:
        os.close(handle)
    return SourceFile(path, form, size, digest, status.st_mtime_ns)


_PIECE_BYTES = limits.MIB
"""Bytes that are read at once."""


def _consume(path: Path, handle: int, first: bytes, left: int) -> tuple[int, str]:
    """Return size and digest of an open file, read to its end after its first piece."""
    digest, size, piece = hashlib.sha256(), 0, first
    while piece:
        size += len(piece)
        if size > left:
            raise _too_large(path)
        digest.update(piece)
        piece = os.read(handle, _PIECE_BYTES)
    return size, digest.hexdigest()


def _too_large(path: Path) -> BadOntology:
    allowed = limits.ONTOLOGY_BYTES // limits.MIB
    hint = "put larger data behind a SPARQL endpoint and give that"
    return BadOntology(str(path), f"the files come to more than {allowed} MiB together", hint)


def _form(path: Path, head: bytes, named: bool) -> Format | None:
    """Return the format of a file, None if it has none. Raises `_Unusable` if a file that must be RDF has none."""
    try:
        form = recognise(head, SUFFIXES.get(path.suffix.lower()))
        if form == "xml" and len(head) == limits.ONTOLOGY_HEAD_BYTES and not refuse_xml(head):
            # A long licence or many entities stand before the root.
            with path.open("rb") as file:
                refuse_xml(file.read(limits.ONTOLOGY_TOLERANT_BYTES))
    except NotRdf as error:
        if not named and path.suffix.lower() in _SHARED_SUFFIXES:
            return None
        hint = error.hint or f"give a file in {FORMATS}, encoded in UTF-8"
        raise _Unusable(BadOntology(str(path), str(error), hint)) from None
    shared = not named and path.suffix.lower() in _SHARED_SUFFIXES
    return None if shared and not _is_rdf(head, form) else form


def _is_rdf(head: bytes, form: Format) -> bool:
    """Return whether XML or JSON in a directory holds words that RDF/XML or JSON-LD must have."""
    if form == "json-ld":
        return any(word in head for word in JSON_LD_WORDS)
    return form != "xml" or RDF.encode() in head


def recognise(head: bytes, named: Format | None = None) -> Format:
    """Return the format of RDF that begins with these bytes.

    Args:
        head: the file's first bytes, at most `ONTOLOGY_HEAD_BYTES`.
        named: the format of the file's suffix; it holds unless the content is of another family.

    Raises:
        NotRdf: it is no RDF; the message names the format that it is instead.
    """
    head = head.removeprefix(BYTE_ORDER_MARK)
    refuse_bytes(head)
    text = head.decode("utf-8", errors="replace")
    form = _recognise_text(_COMMENTS.sub("", text, count=1), named)
    if form == "xml":
        refuse_xml(head)
    elif form == "json-ld":
        refuse_json(head)
    return form


def _recognise_text(start: str, named: Format | None) -> Format:
    refuse_page(start)
    if _XML.match(start):
        return "xml"
    if _JSON.match(start):
        return "json-ld"
    if _LINE.match(start):
        if _QUAD_LINE.search(start):
            return "nquads"
        return named if named in ("nt", "nquads", "trig", "turtle") else "nt"
    refuse_text(start)
    return "trig" if named == "trig" or _GRAPH_BLOCK.search(start) else "turtle"


def digest_of(files: Iterable[SourceFile]) -> str:
    """Return the SHA-256 over the files' own digests, sorted: names and order don't enter."""
    return hashlib.sha256("\n".join(sorted(file.sha256 for file in files)).encode()).hexdigest()


_REFERENCE = re.compile(r"&([^&;#\s]+);")
# Possessive quantifiers: a string of megabytes must not be backtracked through.
_JSON_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|([\[{])|([\]}])', re.DOTALL)
_TRIPLE_TERMS = re.compile(rb"(<<\s*\()|(\)\s*>>)")

_TOO_DEEP = f"it is nested deeper than {limits.ONTOLOGY_DEPTH:,} levels"


class Unsound(ValueError):
    """A file that is cut or broken, or that would grow out of bounds."""

    def __init__(self, reason: str, lineno: int | None = None) -> None:
        super().__init__(reason)
        self.lineno = lineno


def check_sound(path: Path, form: Format, expanded_bytes: int, *, joined: bool = False) -> None:
    """Check a file before a reader opens it; nothing is fetched.

    Args:
        path: the file.
        form: its format.
        expanded_bytes: bound on the expansion of XML entities together.
        joined: also bound the time to join the pieces (lines, entities) of a text of XML.

    Raises:
        Unsound: it is nested deeper than `ONTOLOGY_DEPTH`; or it is XML that is not well-formed, or exceeds a bound.
        OSError: it can't be read.
    """
    if form == "xml":
        _check_xml(path, expanded_bytes, joined)
    elif form == "json-ld":
        _check_depth(path, _JSON_BRACKETS, b"")
    else:
        _check_depth(path, _TRIPLE_TERMS, b"<<")


def _check_depth(path: Path, brackets: re.Pattern[bytes], needed: bytes) -> None:
    """Raise `Unsound` if brackets (first group: opening, second: closing) are nested too deep."""
    # Mapped, because files may have hundreds of megabytes.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        # Most files have no such bracket, and the search for bytes is far quicker than the pattern.
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
    """Make a parser raise for elements nested too deep, and for texts that would take too long to join."""
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
    """Return the length of the longest entity after expansion. Raises `Unsound` for entities nested too deep."""
    parts = {name: _REFERENCE.findall(value) for name, value in entities.items()}
    lengths = {name: len(value) for name, value in entities.items()}
    for _ in range(limits.ONTOLOGY_ENTITY_DEPTH):
        grown = {name: len(entities[name]) + sum(lengths.get(part, 0) for part in parts[name]) for name in entities}
        if grown == lengths:
            return max(lengths.values())
        lengths = grown
    raise Unsound("its entities are made of entities too many times over")


def _references(path: Path) -> int:
    """Return an upper bound of the entity references in a file."""
    with path.open("rb") as file:
        return sum(piece.count(b"&") for piece in iter(lambda: file.read(1 << 20), b""))
