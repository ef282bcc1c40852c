"""Reading RDF files into plain triples, and writing them down as one N-Quads file on the way.

pyoxigraph reads (a tenth of rdflib's time); rdflib reads what pyoxigraph refuses and it accepts, such as XML entities
in single quotes. Nothing is fetched: a context or an entity that lies elsewhere is refused.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es import limits
from rbank_es.errors import BadOntology
from rbank_es.ontology import names
from rbank_es.ontology.checking import Unsound, check_sound
from rbank_es.ontology.files import BYTE_ORDER_MARK, Format, SourceFile
from rbank_es.ontology.terms import BLANK, Literal, Term, Triple

if TYPE_CHECKING:
    import pyoxigraph

_TRIPLE_TERM = BLANK + "triple"
"""What a triple that is the object of another is described as: nothing in a schema hangs on it."""

_TOLERANT: dict[Format, str] = {
    "turtle": "turtle",
    "xml": "xml",
    "nt": "nt",
    "nquads": "nquads",
    "trig": "trig",
}
"""What rdflib calls the forms that it may read. It would fetch the contexts of JSON-LD."""


_SPOKEN: dict[Format, str] = {
    "turtle": "Turtle",
    "trig": "TriG",
    "xml": "RDF/XML",
    "nt": "N-Triples",
    "nquads": "N-Quads",
    "json-ld": "JSON-LD",
}

_TOO_LONG = "term too long"


class Content(NamedTuple):
    """What files say."""

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
    """A file can't be read by pyoxigraph."""

    def __init__(self, file: SourceFile, cause: Exception) -> None:
        super().__init__(str(cause))
        self.file, self.cause = file, cause


def read_files(files: Sequence[SourceFile], quads: Path | None = None) -> Content:
    """What files say; all of it is written to `quads` as N-Quads too, where that is given.

    Blank nodes are named anew by file and by first appearance, so those of different files never meet, and the same
    files give the same bytes. Relative IRIs are taken relative to `file:///` and the first digits of the file's
    digest, so that neither a name nor a place enters. Literals are clipped to `ONTOLOGY_LITERAL_CHARS` in the triples
    only.

    Raises:
        BadOntology: a file is broken, cut, holds an invalid IRI or a term over `ONTOLOGY_TERM_CHARS`, would need the
            network, or changed meanwhile; or no file holds a triple.
    """
    tolerated: set[str] = set()
    ordered = sorted(files, key=lambda file: file.sha256)
    while True:
        try:
            return _read_all(ordered, quads, tolerated)
        except _Refused as refused:
            _check_tolerable(refused, tolerated)
            tolerated.add(refused.file.sha256)


def _read_all(files: Sequence[SourceFile], quads: Path | None, tolerated: set[str]) -> Content:
    import pyoxigraph

    content = Content([], [], frozenset())
    graphs: set[str] = set()
    keep = _keeper(content.triples, graphs)

    def stream() -> Iterator[pyoxigraph.Quad]:
        for number, file in enumerate(files):
            read = _parse_tolerantly if file.sha256 in tolerated else _parse
            yield from _read_one(file, read, keep, number, content)

    if quads is None:
        deque(stream(), maxlen=0)
    else:
        pyoxigraph.serialize(stream(), quads, pyoxigraph.RdfFormat.N_QUADS)
    if not content.triples:
        place, forms = ", ".join(str(file.path) for file in files), {_SPOKEN[file.format] for file in files}
        raise BadOntology(place, "holds no triple", f"is it {' or '.join(sorted(forms))}, and complete?")
    return content._replace(graphs=frozenset(graphs))


def _read_one(
    file: SourceFile,
    read: Callable[[SourceFile], _Parsing],
    keep: Callable[[pyoxigraph.Quad, int], pyoxigraph.Quad],
    number: int,
    content: Content,
) -> Iterator[pyoxigraph.Quad]:
    """The quads of one file, its blank nodes named by its number."""
    try:
        parsing = read(file)
        for quad in parsing.quads:
            yield keep(quad, number)
        modified_ns = file.path.stat().st_mtime_ns
    except (SyntaxError, ValueError, MemoryError, OSError) as error:
        raise _Refused(file, error) from error
    content.declared.extend((parsing.prefixes or parsing.quads.prefixes).items())
    if modified_ns != file.modified_ns:
        raise BadOntology(str(file.path), "changed while it was read", "try again")


def _parse(file: SourceFile) -> _Parsing:
    import pyoxigraph

    form = {
        # TriG is a superset: a Turtle file with named graphs is only misnamed.
        "turtle": pyoxigraph.RdfFormat.TRIG,
        "trig": pyoxigraph.RdfFormat.TRIG,
        "xml": pyoxigraph.RdfFormat.RDF_XML,
        "nt": pyoxigraph.RdfFormat.N_TRIPLES,
        "nquads": pyoxigraph.RdfFormat.N_QUADS,
        "json-ld": pyoxigraph.RdfFormat.JSON_LD,
    }[file.format]
    base = None if file.format in ("nt", "nquads") else f"file:///{file.sha256[:12]}"
    check_sound(file.path, file.format, limits.ONTOLOGY_BYTES)
    opened = file.path.open("rb")
    if opened.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK:
        return _Parsing(pyoxigraph.parse(input=opened, format=form, base_iri=base), {})
    opened.close()
    return _Parsing(pyoxigraph.parse(path=file.path, format=form, base_iri=base), {})


def _keeper(triples: list[Triple], graphs: set[str]) -> Callable[[pyoxigraph.Quad, int], pyoxigraph.Quad]:
    """A function that adds a quad to the triples, and returns it with its blank nodes named anew."""
    import pyoxigraph

    named, blank, literal = pyoxigraph.NamedNode, pyoxigraph.BlankNode, pyoxigraph.Literal
    default = pyoxigraph.DefaultGraph()
    shared: dict[str, str] = {}
    blanks: dict[tuple[int, str], pyoxigraph.BlankNode] = {}
    plain = names.XSD + "string"
    described, longest = limits.ONTOLOGY_LITERAL_CHARS, limits.ONTOLOGY_TERM_CHARS

    def again(node: Any, number: int) -> Any:
        if type(node) is blank:
            key = (number, node.value)
            return blanks.get(key) or blanks.setdefault(key, blank(f"n{number}x{len(blanks)}"))
        if type(node) is pyoxigraph.Triple:
            return pyoxigraph.Triple(again(node.subject, number), node.predicate, again(node.object, number))
        return node

    def share(iri: str) -> str:
        if len(iri) > longest:
            raise MemoryError(_TOO_LONG)
        return shared.setdefault(iri, iri)

    def plainly(node: Any) -> Term:
        kind = type(node)
        if kind is named:
            iri = node.value
            return shared.get(iri) or share(iri)
        if kind is literal:
            value, datatype = node.value, node.datatype.value
            if len(value) > longest:
                raise MemoryError(_TOO_LONG)
            datatype = "" if datatype == plain or node.language else share(datatype)
            return Literal(value[:described], node.language or "", datatype)
        return BLANK + node.value if kind is blank else _TRIPLE_TERM

    def keep(quad: pyoxigraph.Quad, number: int) -> pyoxigraph.Quad:
        subject, predicate, value, graph = quad
        if type(subject) is blank or type(value) not in (named, literal) or type(graph) is blank:
            subject, value, graph = again(subject, number), again(value, number), again(graph, number)
            quad = pyoxigraph.Quad(subject, predicate, value, graph)
        if graph != default and type(graph) is named:
            graphs.add(graph.value)
        triples.append((str(plainly(subject)), str(plainly(predicate)), plainly(value)))
        return quad

    return keep


def _check_tolerable(refused: _Refused, tolerated: set[str]) -> None:
    """Raise what pyoxigraph said, unless rdflib can read the file and all of its IRIs are valid."""
    file = refused.file
    told = _explain(file, refused.cause)
    fitting = file.format in _TOLERANT and file.size_bytes <= limits.ONTOLOGY_TOLERANT_BYTES
    if file.sha256 in tolerated or not fitting or isinstance(refused.cause, Unsound | MemoryError | OSError):
        raise told from refused.cause
    try:
        for _ in _parse_tolerantly(file).quads:
            pass
    except Exception as error:  # rdflib raises whatever its parsers raise
        told = _explain(file, error) if isinstance(error, Unsound) else told
        raise BadOntology(told.path, told.reason, told.hint, line=told.line or _line_of(error)) from error


def _parse_tolerantly(file: SourceFile) -> _Parsing:
    """The quads of a file that rdflib reads, checked by pyoxigraph. Numbers may come in their canonical form."""
    import pyoxigraph
    import rdflib
    from rdflib.namespace import NamespaceManager

    graph = rdflib.Dataset() if file.format in ("nquads", "trig") else rdflib.Graph()
    graph.namespace_manager = NamespaceManager(graph, bind_namespaces="none")
    check_sound(file.path, file.format, limits.ONTOLOGY_TOLERANT_BYTES, joined=True)
    with _silenced():
        base = f"file:///{file.sha256[:12]}"
        graph.parse(data=file.path.read_bytes(), format=_TOLERANT[file.format], publicID=base)
        text = graph.serialize(format="nquads" if isinstance(graph, rdflib.Dataset) else "nt", encoding="utf-8")
    prefixes = {prefix: str(namespace) for prefix, namespace in graph.namespaces()}
    return _Parsing(pyoxigraph.parse(input=text, format=pyoxigraph.RdfFormat.N_QUADS), prefixes)


@contextmanager
def _silenced() -> Iterator[None]:
    """rdflib says nothing: it warns of each odd literal, with a traceback."""
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
    """What is wrong with a file, where, and what to do."""
    path, said = str(file.path), re.sub(r"^Parser error at line \d+ [^:]*: | \(line \d+\)$", "", str(cause)).strip()
    if isinstance(cause, OSError):
        return BadOntology(path, f"can't be read ({cause.strerror or said})", "check the path and its permissions")
    if isinstance(cause, MemoryError):
        hint = "shorten it; long texts belong beside an ontology, not in it"
        # pyoxigraph says so of its own buffer, which holds 16 MiB.
        reason = (
            "one of its literals or IRIs is too long" if "maximal size" in said or said == _TOO_LONG else "is too large"
        )
        return BadOntology(path, reason, hint)
    if "LoadDocumentCallback" in said:
        hint = "put the context into the file; nothing is fetched from the network"
        return BadOntology(path, "its @context lies elsewhere", hint)
    line = cause.lineno if isinstance(cause, SyntaxError | Unsound) else None
    hint = "mend the file there, or get it again if it was cut"
    if "IRI" in said:
        hint = "percent-encode what an IRI can't hold, such as a blank or a '|'"
    elif "UTF-8" in said:
        hint = "save the file in UTF-8"
    return BadOntology(path, f"is no valid {_SPOKEN[file.format]} ({said[:300]})", hint, line=line)


def _line_of(error: Exception) -> int | None:
    """The line that an error of rdflib names, if it does."""
    told = getattr(error, "getLineNumber", None)
    line = told() if callable(told) else getattr(error, "lines", None)
    return line if isinstance(line, int) and line > 0 else None
