"""Answers of queries, and their text form: SPARQL 1.1 Query Results JSON, as the store keeps it and endpoints send it.

Sources: https://www.w3.org/TR/sparql11-results-json/ and https://www.w3.org/TR/rdf-sparql-XMLres/. Triples (construct,
describe) have no results form of their own: they are written as bindings of subject, predicate and object, and a member
`form` beside `head` says so. The members `truncated` and `clipped` are there too, because a later reader of the text
must know that it is incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from rbank_es import limits
from rbank_es.events.notebook_repr import Shown
from rbank_es.ontology.rdf_names import RDF, XSD
from rbank_es.system.text_cuts import cut

if TYPE_CHECKING:
    from pyoxigraph import BlankNode, NamedNode, Triple
    from pyoxigraph import Literal as OxLiteral


Form = Literal["select", "ask", "construct", "describe"]
TRIPLE = ("subject", "predicate", "object")
"""The variables of an answer whose rows are triples (construct, describe)."""


class Cell(NamedTuple):
    """One value. `lang` and `datatype` (an IRI; empty for plain strings) are for literals only."""

    kind: Literal["iri", "bnode", "literal"]
    value: str
    lang: str = ""
    datatype: str = ""


Row = tuple[Cell | None, ...]
"""A value per variable, None where it is unbound."""


class Answer(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """Rows of variables (select), triples as rows of `TRIPLE` (construct, describe), or yes and no (ask)."""

    form: Form
    variables: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    boolean: bool | None = None
    truncated: Literal["", "rows", "bytes"] = ""
    """The cap at which the answer was truncated; empty where it is whole."""
    clipped: int = 0
    """Number of values that were truncated to `RESULT_CELL_CHARS`."""
    duration_s: float = 0.0


# ---------------------------------------------------------------- JSON

XSD_STRING = XSD + "string"
# A language implies its datatype, and a plain literal is a string (RDF 1.1): engines differ in whether they say so.
_IMPLIED = frozenset((XSD_STRING, RDF + "langString", RDF + "dirLangString"))
"""Datatypes that say nothing beside a plain string or a language."""

_JSON_OF = {"iri": "uri", "bnode": "bnode", "literal": "literal"}
_CELL_KINDS = {"uri": "iri", "bnode": "bnode", "literal": "literal", "typed-literal": "literal"}


class NotResults(ValueError):
    """A text that is no results document. `complete` means that it is well-formed, but something else."""

    def __init__(self, reason: str, *, complete: bool = False) -> None:
        self.reason, self.complete = reason, complete
        super().__init__(reason)


class _Term(msgspec.Struct, omit_defaults=True):
    """A value in the results format."""

    type: str
    value: Any
    lang: str | None = msgspec.field(name="xml:lang", default="")
    datatype: str | None = ""


class _Head(msgspec.Struct, omit_defaults=True):
    vars: list[str] = []


class _Bindings(msgspec.Struct):
    bindings: list[dict[str, _Term]]


class _Document(msgspec.Struct, omit_defaults=True):
    """The standard's document; other members are ignored."""

    head: _Head = msgspec.field(default_factory=_Head)
    boolean: bool | None = None
    results: _Bindings | None = None


class _Kept(_Document, omit_defaults=True):
    """The standard's document with the members that the store adds."""

    form: Form = "select"
    truncated: Literal["", "rows", "bytes"] = ""
    clipped: int = 0


_DOCUMENT = msgspec.json.Decoder(_Document)
_KEPT = msgspec.json.Decoder(_Kept)
_D = TypeVar("_D", bound=_Document)


def to_json(answer: Answer) -> str:
    """Return an answer as SPARQL 1.1 Query Results JSON; `from_json` restores all of it, except `duration_s`."""
    return msgspec.json.encode(_document_of(answer)).decode()


def _document_of(answer: Answer) -> _Kept:
    results = None
    if answer.form != "ask":
        results = _Bindings([_binding(answer.variables, row) for row in answer.rows])
    return _Kept(
        head=_Head(list(answer.variables)),
        form="select" if answer.form == "ask" else answer.form,
        truncated=answer.truncated,
        clipped=answer.clipped,
        boolean=answer.boolean,
        results=results,
    )


def size_of(variables: Sequence[str], row: Row) -> int:
    """Return the bytes that a row takes in `to_json`."""
    return len(msgspec.json.encode(_binding(variables, row))) + 1


def _binding(variables: Sequence[str], row: Row) -> dict[str, _Term]:
    return {name: term_of(cell) for name, cell in zip(variables, row, strict=True) if cell is not None}


def term_of(cell: Cell) -> _Term:
    """Return a value in the results format."""
    return _Term(_JSON_OF[cell.kind], cell.value, cell.lang, cell.datatype)


def from_json(text: str | bytes) -> Answer:
    """Return the answer in a text of `to_json`, or in any other results document in JSON.

    Raises `NotResults`, with `complete` where the text is JSON, but not a document of results.
    """
    document = _decoded(_KEPT, text)
    content = _content_of(document)
    if content.boolean is not None:
        return Answer(form="ask", boolean=content.boolean)
    return Answer(
        form=document.form,
        variables=content.variables,
        rows=content.rows,
        truncated=document.truncated,
        clipped=document.clipped,
    )


class ResultContent(NamedTuple):
    """The content of a results document: rows, or yes and no."""

    variables: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    boolean: bool | None = None


def content_of_json(text: str | bytes) -> ResultContent:
    """Return the content of an endpoint's document. Raises `NotResults` as `from_json` does."""
    return _content_of(_decoded(_DOCUMENT, text))


def _decoded(decoder: msgspec.json.Decoder[_D], text: str | bytes) -> _D:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise NotResults(str(error), complete=True) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:  # nested deeper than the decoder goes
        raise NotResults(str(error)) from None


def _content_of(document: _Document) -> ResultContent:
    if document.boolean is not None:
        return ResultContent(boolean=document.boolean)
    if document.results is None:
        raise NotResults("neither `results` nor `boolean` is in it", complete=True)
    variables = tuple(dict.fromkeys(document.head.vars))
    return ResultContent(variables, tuple(_row_of(variables, binding) for binding in document.results.bindings))


def rows_of(variables: Sequence[str], bindings: Iterable[object]) -> tuple[Row, ...]:
    """Return the rows of bindings that were decoded one by one. Raises `NotResults`."""
    try:
        typed = msgspec.convert(list(bindings), list[dict[str, _Term]])
    except msgspec.ValidationError as error:
        raise NotResults(str(error), complete=True) from None
    return tuple(_row_of(variables, binding) for binding in typed)


def _row_of(variables: Sequence[str], binding: Mapping[str, _Term]) -> Row:
    return tuple(cell_of(binding[name]) if name in binding else None for name in variables)


def cell_of(term: _Term) -> Cell:
    """Return the value of a term in a results document; for a quoted triple its text. Raises `NotResults`."""
    if term.type == "triple":
        return Cell("literal", _shown_triple(term.value))
    kind = _CELL_KINDS.get(term.type)
    if kind is None or not isinstance(term.value, str):
        raise NotResults(f"a value of type {term.type[: limits.GIVEN_WORD_CHARS]!r}", complete=True)
    if kind != "literal":
        return Cell(kind, term.value)  # type: ignore[arg-type]
    return literal(term.value, term.lang or "", term.datatype or "")


def literal(value: str, lang: str = "", datatype: str = "") -> Cell:
    """Return a literal, without a datatype that its language, or the lack of one, implies."""
    return Cell("literal", value, lang, "" if lang or datatype in _IMPLIED else datatype)


def _shown_triple(value: object) -> str:
    """Return a quoted triple as text for people."""
    try:
        parts = msgspec.convert(value, dict[str, _Term])
        return f"<<( {' '.join(_shown(cell_of(parts[name])) for name in TRIPLE)} )>>"
    except (msgspec.ValidationError, KeyError, RecursionError):
        raise NotResults("a quoted triple that is none", complete=True) from None


def _shown(cell: Cell) -> str:
    if cell.kind == "iri":
        return f"<{cell.value}>"
    if cell.kind == "bnode":
        return f"_:{cell.value}"
    text = cell.value if cell.value.startswith("<<( ") else msgspec.json.encode(cell.value).decode()
    return text + (f"@{cell.lang}" if cell.lang else "") + (f"^^<{cell.datatype}>" if cell.datatype else "")


# ---------------------------------------------------------------- pyoxigraph's terms


def cell_of_term(term: NamedNode | BlankNode | OxLiteral | Triple | None) -> Cell | None:
    """Return the value of a term of pyoxigraph; for a quoted triple a literal with its text."""
    if term is None:
        return None
    kind = type(term).__name__
    if kind == "NamedNode":
        return Cell("iri", term.value)  # type: ignore[union-attr]
    if kind == "Literal":
        return literal(term.value, term.language or "", term.datatype.value)  # type: ignore[union-attr]
    if kind == "BlankNode":
        return Cell("bnode", term.value)  # type: ignore[union-attr]
    return Cell("literal", f"<<( {term} )>>")


def row_line(row: Row) -> str:
    """Return a row in one line: values separated by bars, long ones truncated, `-` for an unbound variable."""
    return " | ".join(_cell_text(cell) for cell in row) or "(an empty row)"


def _cell_text(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    text = {"iri": f"<{cell.value}>", "bnode": "[]"}.get(cell.kind, cell.value)
    short = cut(" ".join(text.split()), limits.JUDGE_VALUE_CHARS)
    return f"{short}@{cell.lang}" if cell.lang else short
