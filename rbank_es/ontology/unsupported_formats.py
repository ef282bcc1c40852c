"""Files that aren't RDF in a form that is read here: each is told by its content and named, with the way on.

A name proves nothing: OWL/XML and RDF/XML are both `.owl`, and a download may be a web page. A reader would call such a
file broken or, worse, make triples of it: of OWL/XML a lenient reader makes one for each XML element.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from xml.parsers import expat

from rbank_es import limits
from rbank_es.ontology.rdf_names import OWL, RDF

_ROBOT = "convert it: robot convert --input FILE --output model.ttl, or save it as Turtle in Protégé"
_MAPPED = "make RDF of it first, such as Turtle with rdflib"
_UNPACK = "unpack it first"
_DOWNLOAD = "download the data themselves: curl -L -H 'Accept: text/turtle' URL -o model.ttl"


class NotRdf(ValueError):
    """A file of another form, which the message names; `hint` says what to do, empty where nothing special helps."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(what)


_BYTES = {
    b"\x1f\x8b": NotRdf("is compressed (gzip)", _UNPACK),
    b"BZh": NotRdf("is compressed (bzip2)", _UNPACK),
    b"\xfd7zXZ": NotRdf("is compressed (xz)", _UNPACK),
    b"7z\xbc\xaf'\x1c": NotRdf("is a 7z archive", _UNPACK),
    b"\x28\xb5\x2f\xfd": NotRdf("is compressed (zstd)", _UNPACK),
    b"PK\x03\x04": NotRdf("is a zip archive, or an office document", _UNPACK),
    b"\xd0\xcf\x11\xe0": NotRdf("is an office document", _MAPPED),
    b"HDT": NotRdf("is an HDT file", "convert it to N-Triples: hdt2rdf"),
    b"$HDT": NotRdf("is an HDT file", "convert it to N-Triples: hdt2rdf"),
    b"%PDF": NotRdf("is a PDF"),
    b"SQLite": NotRdf("is a database", _MAPPED),
    b"PAR1": NotRdf("is a Parquet file", _MAPPED),
    b"version https://git-lfs": NotRdf("is a Git LFS pointer, not the file itself", "fetch the file: git lfs pull"),
    b"/annex/objects/": NotRdf("is a git-annex pointer, not the file itself", "fetch the file: git annex get"),
    b"\xff\xfe": NotRdf("is encoded in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > model.ttl"),
    b"\xfe\xff": NotRdf("is encoded in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > model.ttl"),
}
"""Files by their first bytes."""

# Atomic comments: each would else be tried with every end of a later one, which doubles the time with each comment.
_HTML = re.compile(r"(?:<\?xml[^>]*>)?\s*(?:<!--(?>.*?-->)\s*)*(?:<!DOCTYPE\s+html|<html\b)", re.IGNORECASE | re.DOTALL)
_OBO = re.compile(r"(?:!.*\n|\s)*+(?:format-version:|(?:[a-z][\w-]*+:[ \t].*\n|\s)*+\[(?:Term|Typedef|Instance)\]\s)")
_FUNCTIONAL = re.compile(r"(?:Prefix|Ontology|Import|Declaration)\s*\(")
_MANCHESTER = re.compile(
    r"(?:Prefix|Ontology|Import|Class|ObjectProperty|DataProperty|AnnotationProperty|Individual|Datatype"
    r"|EquivalentClasses|DisjointClasses):\s"
)
_OWL_SYNTAXES = {"OWL functional syntax": _FUNCTIONAL, "OWL Manchester syntax": _MANCHESTER, "OBO": _OBO}
_QUERY = re.compile(
    r"(?:(?:PREFIX\s+[\w.-]*:\s*<[^<>]*>|BASE\s*<[^<>]*>)\s*|#.*\n\s*)*+"
    r"(?:SELECT|ASK|CONSTRUCT|DESCRIBE|INSERT|DELETE|LOAD|WITH|CLEAR|DROP)(?![\w.:-])",
    re.IGNORECASE,
)
_PLAIN_TABLE = re.compile(r"[^\n,;\t<{]*+(?P<mark>[,;\t])[^\n<{]*+\n")
_BEGINNING = re.compile(
    r"(?!https?://)(?:@|[<\[({]|_:|PREFIX\b|BASE\b|VERSION\b|GRAPH\b|[\w.%\\-]*+:\S)", re.IGNORECASE
)  # fmt: skip
"""The first token of any Turtle, TriG or N-Triples."""
_TEXTS = re.compile(r'"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|<[^<>\s]*>|#.*')
_RULES = re.compile(r"\}\s*(?:=>|<=)|^\s*@(?:forAll|forSome|keywords)\b", re.MULTILINE)
JSON_LD_WORDS = (b'"@context"', b'"@id"', b'"@graph"', b'"@type"', b'"@set"', b'"@list"', b'"@value"', b'"@reverse"')

_JSON_KINDS: tuple[tuple[Callable[[bytes], bool], str, str], ...] = (
    (lambda head: b'"bindings"' in head and b'"head"' in head, "is the result of a query (SPARQL JSON)",
     "ask with CONSTRUCT for a graph instead"),
    (lambda head: b'"graphs"' in head and b'"nodes"' in head, "is OBO Graphs JSON", _ROBOT),
    (lambda head: b'"uri"' in head and b'"value"' in head and b'"type"' in head, "is RDF/JSON",
     "convert it to Turtle: riot --syntax=rdfjson --output=ttl FILE"),
)  # fmt: skip


def refuse_bytes(head: bytes) -> None:
    """Raise `NotRdf` for a file that its first bytes show to be empty, compressed, binary, or of another form."""
    if not head.strip():
        raise NotRdf("is empty", "look whether its download or its export was completed")
    for magic, found in _BYTES.items():
        if head.startswith(magic):
            raise NotRdf(str(found), found.hint)
    if b"\0" in head:
        raise NotRdf("is binary, not text")


def refuse_json(head: bytes) -> None:
    """Raise `NotRdf` for JSON that has no word of JSON-LD, and has another content."""
    if any(word in head for word in JSON_LD_WORDS) or not head.strip(b"[]{} \t\r\n"):
        return
    for fits, what, hint in _JSON_KINDS:
        if fits(head):
            raise NotRdf(what, hint)
    raise NotRdf("is JSON, not JSON-LD: it has no @context, @id or @type", "add a @context, or make RDF of it first")


def refuse_page(start: str) -> None:
    """Raise `NotRdf` for a web page, which may be XML too."""
    if _HTML.match(start):
        raise NotRdf("is a web page (HTML), not RDF", _DOWNLOAD)


def refuse_text(start: str) -> None:
    """Raise `NotRdf` for a text of another form; `start` has no comments in front."""
    for what, pattern in _OWL_SYNTAXES.items():
        if pattern.match(start):
            raise NotRdf(f"is {what}, not RDF", _ROBOT)
    if _QUERY.match(start):
        raise NotRdf("is a SPARQL query, not data", "give the file that the query is about")
    if _RULES.search(_TEXTS.sub("", start)):
        raise NotRdf("is Notation3 with rules, not Turtle", "let a reasoner write what follows from it as Turtle")
    if not start or _BEGINNING.match(start):
        return
    if table := _PLAIN_TABLE.match(start):
        name = {",": "comma", ";": "semicolon", "\t": "tab"}[table["mark"]]
        raise NotRdf(f"is a table ({name}-separated values), not RDF", _MAPPED)
    first = start.split(maxsplit=1)[0][: limits.GIVEN_CHARS]
    raise NotRdf(f"is no RDF: it begins with {first!r}, as no form of RDF does")


# ---------------------------------------------------------------- XML

_XML_LANGUAGES = {
    "http://www.w3.org/1999/xhtml": ("a web page (XHTML)", _DOWNLOAD),
    "http://www.w3.org/2000/svg": ("a picture (SVG)", ""),
    "http://www.w3.org/2001/XMLSchema": ("an XML Schema", ""),
    "http://www.w3.org/2005/sparql-results#": ("the result of a query", "ask with CONSTRUCT for a graph instead"),
    "http://www.w3.org/2004/03/trix/trix-1/": ("TriX", "convert it to TriG: riot --syntax=trix --output=trig FILE"),
    "http://www.w3.org/2005/Atom": ("a feed (Atom)", ""),
    "http://graphml.graphdrawing.org/xmlns": ("GraphML", _MAPPED),
}
_OLD_OWL_XML = frozenset({"http://www.w3.org/2003/05/owl-xml", "http://www.w3.org/2006/12/owl11-xml#"})
_OF_A_NODE = frozenset({f"{RDF} {name}" for name in ("about", "ID", "nodeID")})


class _XmlReading(NamedTuple):
    """The first elements of an XML file: names as `namespace local`, attributes of the root."""

    root: str
    attributes: frozenset[str]
    children: frozenset[str]
    uses_rdf: bool
    holds_rdf: bool
    """Whether an `rdf:RDF` lies inside of another element."""


def refuse_xml(head: bytes) -> bool:
    """Raise `NotRdf` for XML that is no RDF/XML: it has neither the root rdf:RDF nor a single node as its root.

    Return whether there is a root in these bytes; broken XML is left to the parser, which says where it is broken.
    """
    found = _xml_reading(head)
    if found is None or found.root == f"{RDF} RDF":
        return found is not None
    namespace, _, name = found.root.rpartition(" ")
    if namespace in _OLD_OWL_XML or (namespace == OWL and _is_owl_xml(found)):
        raise NotRdf("is OWL/XML, not RDF/XML", _ROBOT)
    unknown = ("XML of another kind", "if it is RDF/XML, put <rdf:RDF> around it" if namespace else _MAPPED)
    what, hint = _XML_LANGUAGES.get(namespace, unknown)
    if found.holds_rdf:
        hint = "give the part that begins with <rdf:RDF as a file of its own"
    plain = {each for each in found.attributes if " " not in each} - {"about", "ID"}
    if namespace in _XML_LANGUAGES or found.holds_rdf or not namespace or plain or not found.uses_rdf:
        raise NotRdf(f"is {what}, not RDF/XML: its root is <{name[: limits.GIVEN_CHARS]}>", hint)
    return True


def _is_owl_xml(found: _XmlReading) -> bool:
    """Return whether the root owl:Ontology holds axioms instead of properties of a node."""
    if found.root != f"{OWL} Ontology" or found.attributes & _OF_A_NODE:
        return False
    axioms = {each for each in found.children if each.startswith(f"{OWL} ") and each.rpartition(" ")[2][:1].isupper()}
    return "ontologyIRI" in found.attributes or bool(axioms) or not found.uses_rdf


def _xml_reading(head: bytes) -> _XmlReading | None:
    parser = expat.ParserCreate(namespace_separator=" ")
    names: list[str] = []
    children, attributes = set[str](), frozenset[str]()
    depth, uses_rdf = 0, False

    def start(name: str, given: dict[str, str]) -> None:
        nonlocal depth, uses_rdf, attributes
        attributes = attributes if names else frozenset(given)
        names.append(name)
        children.update([name] if depth == 1 else [])
        uses_rdf = uses_rdf or any(each.startswith(f"{RDF} ") for each in (name, *given))
        depth += 1

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = start, end
    with suppress(expat.ExpatError):
        parser.Parse(head, False)
    if not names:
        return None
    return _XmlReading(names[0], attributes, frozenset(children), uses_rdf, f"{RDF} RDF" in names[1:])
