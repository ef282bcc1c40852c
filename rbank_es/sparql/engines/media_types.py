"""Which kind of body an endpoint sends: by what it says, and by how the body begins, for some say what isn't so."""

from __future__ import annotations

from rbank_es.sparql.answers import Form
from rbank_es.sparql.engines.response_bodies import Body, JsonBody, TriplesBody, XmlBody
from rbank_es.sparql.results import Content, NotResults

RESULTS_JSON, RESULTS_XML = "application/sparql-results+json", "application/sparql-results+xml"
N_TRIPLES, TURTLE = "application/n-triples", "text/turtle"

BEGINNING_BYTES = 16
"""What is looked at to tell HTML from everything else."""

_HTML = (b"<!doctype", b"<html", b"<head", b"<body", b"<?xml")
_RESULTS = (RESULTS_JSON, RESULTS_XML)
_UNTOLD = ("", "text/plain", "application/octet-stream")


def accepted(form: Form) -> str:
    """The header `Accept` for a form. JSON and N-Triples first: in both, an answer that was cut can't seem whole."""
    if form in ("select", "ask"):
        return f"{RESULTS_JSON}, {RESULTS_XML};q=0.5"
    return f"{N_TRIPLES}, {TURTLE};q=0.8"


class AnswerBody:
    """The body of an answer to a query of some form, of whatever kind it turns out to be."""

    def __init__(self, form: Form, media: str, base_iri: str) -> None:
        """`media` is the header `Content-Type`."""
        self._form = form
        self._media = media.partition(";")[0].strip().lower()
        self._base_iri = base_iri
        self._beginning = b""
        self._body: Body | None = None

    @property
    def whole_rows(self) -> int:
        """Rows of which all has come in."""
        return self._body.whole_rows if self._body else 0

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises `NotResults`."""
        if self._body:
            self._body.feed(data)
            return
        self._beginning += data
        if len(self._beginning.lstrip()) >= BEGINNING_BYTES:
            self._begin()

    def finish(self) -> Content:
        """Everything, where the body ended by itself. Raises `NotResults`."""
        content = (self._body or self._begin()).finish()
        if (content.boolean is None) == (self._form == "ask"):
            raise NotResults("it answers another form of query", complete=True)
        return content

    def part(self) -> Content:
        """The rows of which all has come in, where the body was cut. Raises `NotResults`."""
        return (self._body or self._begin()).part()

    def _begin(self) -> Body:
        beginning = self._beginning.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        triples = self._form not in ("select", "ask")
        body = self._triples(beginning) if triples else self._results(beginning)
        body.feed(self._beginning)
        self._body, self._beginning = body, b""
        return body

    def _results(self, beginning: bytes) -> Body:
        if beginning.startswith(b"{"):
            return JsonBody()
        if beginning.startswith(b"<") and self._media != "text/html":
            return XmlBody()
        if beginning and self._media not in _RESULTS:
            raise NotResults(self._otherwise(), complete=True)
        raise NotResults("it is empty" if not beginning else "it is no results document")

    def _triples(self, beginning: bytes) -> Body:
        if beginning.startswith(_HTML) or self._media not in (N_TRIPLES, TURTLE, *_UNTOLD):
            raise NotResults(self._otherwise(), complete=True)
        return TriplesBody("turtle" if self._media == TURTLE else "n-triples", self._base_iri)

    def _otherwise(self) -> str:
        return f"it is {self._media[:60]}" if self._media else "it says no type"
