"""The reader of RDF files: plain triples, and the same statements as one N-Quads file.

pyoxigraph reads, in a tenth of rdflib's time. rdflib reads the files that pyoxigraph refuses and rdflib accepts, such
as XML entities in single quotes. Nothing is fetched: a context or an entity that lies elsewhere is refused.
"""

from __future__ import annotations

import hashlib
import logging
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es import limits
from rbank_es.errors import BadOntology
from rbank_es.ontology import rdf_names
from rbank_es.ontology.source_files import (
    BYTE_ORDER_MARK,
    Format,
    FoundFiles,
    SourceFile,
    UnreadFiles,
    Unsound,
    check_sound,
)
from rbank_es.ontology.statements import BLANK, Literal, Term, Triple, is_iri

if TYPE_CHECKING:
    import pyoxigraph

_TRIPLE_TERM = BLANK + "triple-"
"""The beginning of a triple that is the object of another: a node without a name, followed by a digest."""

_DIGEST_CHARS = 32
"""Characters of a digest that tells terms apart."""

_FORMATS: dict[Format, tuple[str, str]] = {
    "turtle": ("Turtle", "TRIG"),
    "trig": ("TriG", "TRIG"),
    "xml": ("RDF/XML", "RDF_XML"),
    "nt": ("N-Triples", "N_TRIPLES"),
    "nquads": ("N-Quads", "N_QUADS"),
    "json-ld": ("JSON-LD", "JSON_LD"),
}
"""Names of formats in messages, and in pyoxigraph. rdflib calls them as we do."""


_PLAIN = rdf_names.XSD + "string"
_TOO_LONG = "term too long"


class ParsedFiles(NamedTuple):
    """The statements of files."""

    triples: list[Triple]
    """Of all graphs; a statement may come twice."""
    declared: list[tuple[str, str]]
    """Pairs of prefix and namespace, as declared."""
    graphs: frozenset[str]
    """IRIs of named graphs."""


class _Parsing(NamedTuple):
    """A file that is being parsed; its prefixes are known at its end."""

    quads: pyoxigraph.QuadParser
    prefixes: dict[str, str]


class _Refused(Exception):
    """A file that pyoxigraph can't read."""

    def __init__(self, file: SourceFile, cause: Exception) -> None:
        super().__init__(str(cause))
        self.file, self.cause = file, cause


def read_files(found: FoundFiles, quads: Path | None = None) -> ParsedFiles:
    """Return the statements of files, and write them to `quads` as N-Quads if a path is given.

    Blank nodes are renamed by file and by first appearance: those of different files never meet, and the same files
    give the same bytes. Relative IRIs are resolved against `file:///` and the first digits of the file's digest, so
    that neither its name nor its place enters. In the triples only, literals are truncated to `ONTOLOGY_LITERAL_CHARS`,
    and values of one thing that the engine stores as one ("01" and "1" as integers) are one.

    Raises:
        BadOntology: a file is broken, cut, holds an invalid IRI or a term over `ONTOLOGY_TERM_CHARS`, would need the
            network, or changed meanwhile; or no file holds a triple. `UnreadFiles` where files can't be parsed.
    """
    # By digest, so that blank nodes get the same names whatever the files are called.
    ordered = sorted(found.files, key=lambda file: file.sha256)
    try:
        return _read_all(ordered, quads, frozenset())
    except _Refused as refused:
        # Those before it were read to their ends.
        tolerated, failures = _survey(ordered[ordered.index(refused.file) :])
        if failures:
            raise UnreadFiles(found.without(failures)) from refused.cause
    try:
        return _read_all(ordered, quads, tolerated)
    except _Refused as refused:
        raise _explain(refused.file, refused.cause) from refused.cause


def _survey(files: Sequence[SourceFile]) -> tuple[frozenset[str], tuple[BadOntology, ...]]:
    """Return the digests of the files that only rdflib can read, and the errors of those that nothing can read."""
    tolerated: set[str] = set()
    failures: list[BadOntology] = []
    broken_bytes = 0
    for file in files:
        try:
            # Bounded, because rdflib takes minutes for a folder of large files that it refuses too.
            if not _is_plain(file, tolerant=broken_bytes < limits.ONTOLOGY_TOLERANT_BYTES):
                tolerated.add(file.sha256)
        except BadOntology as failure:
            failures.append(failure)
            broken_bytes += file.size_bytes
    return frozenset(tolerated), tuple(failures)


def _read_all(files: Sequence[SourceFile], quads: Path | None, tolerated: frozenset[str]) -> ParsedFiles:
    import pyoxigraph

    keeper = _Keeper()
    declared: list[tuple[str, str]] = []

    def stream() -> Iterator[pyoxigraph.Quad]:
        for number, file in enumerate(files):
            read = _parse_tolerantly if file.sha256 in tolerated else _parse
            declared.extend((yield from _read_one(file, read, keeper, number)))

    if quads is None:
        deque(stream(), maxlen=0)
    else:
        # Written while it is parsed: one pass, and no second copy in memory.
        pyoxigraph.serialize(stream(), quads, pyoxigraph.RdfFormat.N_QUADS)
    if not keeper.triples:
        place, forms = ", ".join(str(file.path) for file in files), {_FORMATS[file.format][0] for file in files}
        raise BadOntology(place, "holds no triple", f"is it {' or '.join(sorted(forms))}, and complete?")
    return ParsedFiles(_as_stored(keeper.triples), declared, frozenset(keeper.graphs))


def _as_stored(triples: list[Triple]) -> list[Triple]:
    """Return the triples with equal values of one thing as the engine stores them: it keeps one form of a number."""
    values: dict[tuple[str, str], set[Literal]] = {}
    for subject, name, value in triples:
        if isinstance(value, Literal) and value.datatype and not value.digest:
            values.setdefault((subject, name), set()).add(value)
    several = {pair for pair, found in values.items() if len(found) > 1}
    if not several:
        return triples
    stored = _stored_forms({value for pair in several for value in values[pair]})
    return [
        (
            subject,
            name,
            stored.get(value, value) if isinstance(value, Literal) and (subject, name) in several else value,
        )
        for subject, name, value in triples
    ]


def _stored_forms(literals: Iterable[Literal]) -> dict[Literal, Literal]:
    """Return each literal with the form in which pyoxigraph keeps it, where that differs."""
    import pyoxigraph as ox

    place, store, numbered = ox.NamedNode(rdf_names.FIRST), ox.Store(), list(literals)
    for number, literal in enumerate(numbered):
        kind = ox.NamedNode(literal.datatype)
        store.add(ox.Quad(ox.BlankNode(f"n{number}"), place, ox.Literal(literal.value, datatype=kind)))
    found: dict[Literal, Literal] = {}
    for subject, _, value, _ in store:
        given = numbered[int(subject.value[1:])]
        if value.value != given.value:
            found[given] = given._replace(value=value.value)
    return found


def _read_one(
    file: SourceFile, read: Callable[[SourceFile], _Parsing], keeper: _Keeper, number: int
) -> Generator[pyoxigraph.Quad, None, Iterable[tuple[str, str]]]:
    """Yield the quads of one file, its blank nodes named by its number; return the prefixes that it declares."""
    try:
        parsing = read(file)
        yield from keeper.keep(parsing.quads, number)
        modified_ns = file.path.stat().st_mtime_ns
    except (SyntaxError, ValueError, MemoryError, OSError) as error:
        raise _Refused(file, error) from error
    if modified_ns != file.modified_ns:
        raise BadOntology(str(file.path), "changed while it was read", "try again")
    return (parsing.prefixes or parsing.quads.prefixes).items()


def _parse(file: SourceFile) -> _Parsing:
    import pyoxigraph

    # Turtle is read as TriG, its superset: a Turtle file with named graphs is only misnamed.
    form = getattr(pyoxigraph.RdfFormat, _FORMATS[file.format][1])
    base = None if file.format in ("nt", "nquads") else f"file:///{file.sha256[:12]}"
    check_sound(file.path, file.format, limits.ONTOLOGY_BYTES)
    with file.path.open("rb") as opened:
        if opened.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK:
            # Whole, because the engine reads a stream after this function has returned, and would leave it open.
            return _Parsing(pyoxigraph.parse(input=opened.read(), format=form, base_iri=base), {})
    return _Parsing(pyoxigraph.parse(path=file.path, format=form, base_iri=base), {})


class _Keeper:
    """Keeper of quads as triples, which passes them on with their blank nodes renamed."""

    def __init__(self) -> None:
        self.triples: list[Triple] = []
        self.graphs: set[str] = set()
        self._iris: dict[str, str] = {}
        self._blanks: dict[str, tuple[pyoxigraph.BlankNode, str]] = {}
        self._file = ""

    def keep(self, quads: Iterable[pyoxigraph.Quad], number: int) -> Iterator[pyoxigraph.Quad]:
        """Keep and yield the quads of the file with this number."""
        from pyoxigraph import DefaultGraph, NamedNode, Quad

        self._blanks, self._file = {}, f"n{number}x"
        iris, take = self._iris, self.triples.append
        # IRIs inline, because most terms are IRIs: that saves three calls for each of a hundred thousand quads.
        for quad in quads:
            subject, predicate, value, graph = quad
            name = predicate.value
            name = iris.get(name) or self._share(name)
            if type(subject) is NamedNode and type(value) is NamedNode:
                source, target = subject.value, value.value
                take((iris.get(source) or self._share(source), name, iris.get(target) or self._share(target)))
                new_subject, new_value = subject, value
            else:
                (new_subject, plain_subject), (new_value, plain_value) = self._plain(subject), self._plain(value)
                take((str(plain_subject), name, plain_value))
            if type(graph) is not DefaultGraph:
                quad = Quad(new_subject, predicate, new_value, self._graph(graph))
            elif new_subject is not subject or new_value is not value:
                quad = Quad(new_subject, predicate, new_value)
            yield quad

    def _graph(self, graph: Any) -> Any:
        node, name = self._plain(graph)
        if is_iri(name):
            self.graphs.add(str(name))
        return node

    def _plain(self, node: Any) -> tuple[Any, Term]:
        """Return a node, renamed if it is blank, and its simplest form."""
        kind = type(node).__name__
        if kind == "NamedNode":
            return node, self._share(node.value)
        if kind == "BlankNode":
            return self._blanks.get(node.value) or self._blank(node)
        if kind == "Literal":
            return node, self._literal(node)
        renamed = self._triple(node)
        return renamed, _TRIPLE_TERM + _digest(str(renamed))

    def _blank(self, node: pyoxigraph.BlankNode) -> tuple[pyoxigraph.BlankNode, str]:
        """Return the new name of a blank node that appears for the first time in its file."""
        new = type(node)(f"{self._file}{len(self._blanks)}")
        return self._blanks.setdefault(node.value, (new, BLANK + new.value))

    def _triple(self, triple: pyoxigraph.Triple) -> pyoxigraph.Triple:
        return type(triple)(self._plain(triple.subject)[0], triple.predicate, self._plain(triple.object)[0])

    def _literal(self, node: pyoxigraph.Literal) -> Literal:
        value, language = node.value, node.language or ""
        if len(value) > limits.ONTOLOGY_TERM_CHARS:
            raise MemoryError(_TOO_LONG)
        datatype = "" if language else node.datatype.value
        datatype = "" if datatype == _PLAIN else self._share(datatype)
        if len(value) > limits.ONTOLOGY_LITERAL_CHARS:
            return Literal(value[: limits.ONTOLOGY_LITERAL_CHARS], language, datatype, _digest(value))
        return Literal(value, language, datatype)

    def _share(self, iri: str) -> str:
        """Return the one copy of an IRI that is kept."""
        if len(iri) > limits.ONTOLOGY_TERM_CHARS:
            raise MemoryError(_TOO_LONG)
        # Most IRIs occur many times; one object for each saves memory.
        return self._iris.setdefault(iri, iri)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def _is_plain(file: SourceFile, *, tolerant: bool) -> bool:
    """Return whether pyoxigraph can read a file; if only rdflib can, False. Raises `BadOntology` if neither can.

    Unless `tolerant`, rdflib doesn't try.
    """
    try:
        _read_through(file, _parse)
    except _Refused as refused:
        if not tolerant:
            raise _explain(file, refused.cause) from refused.cause
        _check_tolerable(file, refused.cause)
        return False
    return True


def _read_through(file: SourceFile, read: Callable[[SourceFile], _Parsing]) -> None:
    """Read a file to its end, because the error of an IRI shows only when it is reached, and keep nothing."""
    deque(_read_one(file, read, _Keeper(), 0), maxlen=0)


def _check_tolerable(file: SourceFile, cause: Exception) -> None:
    """Raise the error of pyoxigraph, unless rdflib can read the file and all of its IRIs are valid."""
    refusal = _explain(file, cause)
    # Not JSON-LD, because rdflib would fetch its contexts from the network.
    fitting = file.format != "json-ld" and file.size_bytes <= limits.ONTOLOGY_TOLERANT_BYTES
    if not fitting or isinstance(cause, Unsound | MemoryError | OSError):
        raise refusal from cause
    try:
        _read_through(file, _parse_tolerantly)
    except BadOntology:
        raise
    except Exception as raised:  # rdflib raises whatever its parsers raise
        error = raised.cause if isinstance(raised, _Refused) else raised
        refusal = _explain(file, error) if isinstance(error, Unsound | MemoryError) else refusal
        raise BadOntology(refusal.path, refusal.reason, refusal.hint, line=refusal.line or _line_of(error)) from error


def _parse_tolerantly(file: SourceFile) -> _Parsing:
    """Return the quads of a file by rdflib, checked by pyoxigraph. Numbers may come in canonical form."""
    import pyoxigraph
    import rdflib
    from rdflib.namespace import NamespaceManager

    graph = rdflib.Dataset() if file.format in ("nquads", "trig") else rdflib.Graph()
    graph.namespace_manager = NamespaceManager(graph, bind_namespaces="none")
    check_sound(file.path, file.format, limits.ONTOLOGY_TOLERANT_BYTES, joined=True)
    with _silenced():
        base = f"file:///{file.sha256[:12]}"
        graph.parse(data=file.path.read_bytes(), format=file.format, publicID=base)
        text = graph.serialize(format="nquads" if isinstance(graph, rdflib.Dataset) else "nt", encoding="utf-8")
    prefixes = {prefix: str(namespace) for prefix, namespace in graph.namespaces()}
    return _Parsing(pyoxigraph.parse(input=text, format=pyoxigraph.RdfFormat.N_QUADS), prefixes)


@contextmanager
def _silenced() -> Iterator[None]:
    """Silence rdflib, because it warns of each odd literal with a traceback."""
    logger = logging.getLogger("rdflib")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _explain(file: SourceFile, cause: Exception) -> BadOntology:
    """Return the error for a file: the cause, the line, and the next step."""
    path, message = str(file.path), re.sub(r"^Parser error at line \d+ [^:]*: | \(line \d+\)$", "", str(cause)).strip()
    if isinstance(cause, OSError):
        return BadOntology(path, f"can't be read ({cause.strerror or message})", "check the path and its permissions")
    if isinstance(cause, MemoryError):
        hint = "shorten it; long texts belong beside an ontology, not in it"
        # The buffer of pyoxigraph holds 16 MiB.
        reason = (
            "one of its literals or IRIs is too long"
            if "maximal size" in message or message == _TOO_LONG
            else "is too large"
        )
        return BadOntology(path, reason, hint)
    if "LoadDocumentCallback" in message:
        hint = "put the context into the file; nothing is fetched from the network"
        return BadOntology(path, "its @context lies elsewhere", hint)
    line = cause.lineno if isinstance(cause, SyntaxError | Unsound) else None
    hint = "mend the file there, or get it again if it was cut"
    if "IRI" in message:
        hint = "percent-encode what an IRI can't hold, such as a blank or a '|'"
    elif "UTF-8" in message:
        hint = "save the file in UTF-8"
    return BadOntology(
        path, f"is no valid {_FORMATS[file.format][0]} ({message[: limits.ONTOLOGY_ERROR_CHARS]})", hint, line=line
    )


def _line_of(error: Exception) -> int | None:
    """Return the line that an error of rdflib names, if it names one."""
    line_number = getattr(error, "getLineNumber", None)
    line = line_number() if callable(line_number) else getattr(error, "lines", None)
    return line if isinstance(line, int) and line > 0 else None
