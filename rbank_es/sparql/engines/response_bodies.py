"""Bodies of answers in JSON, N-Triples and Turtle, read as they come in, piece by piece.

A body that the endpoint ended must be whole, because endpoints were seen to stop at their own time limit amid an answer
with status 200. A body that this client truncated gives the rows before the cut.
"""

from __future__ import annotations

import codecs
import json
import re
from contextlib import suppress
from typing import Any, Literal

from rbank_es import limits
from rbank_es.sparql.results import (
    TRIPLE,
    Form,
    NotResults,
    ResultContent,
    Row,
    cell_of_term,
    content_of_json,
    rows_of,
)

Syntax = Literal["n-triples", "turtle"]

_BINDINGS = re.compile(r'"bindings"\s*:\s*\[')
_SEPARATOR = re.compile(r"\s*,?\s*")


class JsonBody:
    """SPARQL 1.1 Query Results JSON. Each binding is taken from the text as soon as it is there."""

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._decoder = json.JSONDecoder()
        self._head = ""
        self._rest = ""
        self._bindings: list[Any] = []

    @property
    def whole_rows(self) -> int:
        """Bindings that have come in."""
        return len(self._bindings)

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self._rest += self._decoded(data)
        if not self._head and (start := _BINDINGS.search(self._rest)):
            self._head, self._rest = self._rest[: start.end()], self._rest[start.end() :]
        # No object ends without this: a body of one long value is not scanned again for every piece.
        if self._head and b"}" in data:
            self._take_bindings()

    def finish(self) -> ResultContent:
        """Return everything, where the body ended by itself."""
        self._rest += self._decoded(b"", final=True)
        # What is left after the bindings were taken out is a small document, in which the standard's form is checked.
        frame = content_of_json(self._head + self._rest)
        if frame.rows and self._bindings:
            raise NotResults("there is no comma between two bindings")
        return frame._replace(rows=frame.rows or rows_of(frame.variables, self._bindings))

    def part(self) -> ResultContent:
        """Return the rows that came in whole, where the body was cut."""
        variables = self._variables()
        return ResultContent(variables, rows_of(variables, self._bindings))

    def _variables(self) -> tuple[str, ...]:
        with suppress(NotResults):
            if variables := content_of_json(self._head + "]}}").variables:
                return variables
        # The head comes after the results, and never came.
        return tuple(dict.fromkeys(name for binding in self._bindings for name in binding))

    def _decoded(self, data: bytes, *, final: bool = False) -> str:
        try:
            return self._utf8.decode(data, final)
        except UnicodeDecodeError:
            raise NotResults("it is not UTF-8") from None

    def _take_bindings(self) -> None:
        place = 0
        while True:
            gap = _SEPARATOR.match(self._rest, place)
            start = gap.end() if gap else place
            try:
                binding, end = self._decoder.raw_decode(self._rest, start)
            except (ValueError, RecursionError):  # not whole yet, or nested too deeply for `finish` as well
                break
            # Between two bindings stands one comma, and before the first none.
            separated = ("," in self._rest[place:start]) == bool(self._bindings)
            if not isinstance(binding, dict) or not separated:
                break
            self._bindings.append(binding)
            place = end
        self._rest = self._rest[place:]


class TriplesBody:
    """N-Triples, or Turtle; the triples of a graph, each once."""

    def __init__(self, syntax: Syntax, base_iri: str) -> None:
        self._syntax = syntax
        self._base_iri = base_iri
        self._data = bytearray()
        self._lines: set[bytes] = set()
        self._counted = 0

    @property
    def whole_rows(self) -> int:
        """Lines of N-Triples that have come in, each counted once; of Turtle none is known to be whole."""
        return len(self._lines)

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self._data += data
        if self._syntax == "n-triples" and b"\n" in data:
            end = self._data.rindex(b"\n")
            lines = bytes(self._data[self._counted : end]).split(b"\n")
            self._lines.update(line.strip() for line in lines if line.strip())
            self._counted = end

    def finish(self) -> ResultContent:
        """Return everything, where the body ended by itself."""
        rows: dict[Row, None] = {}
        try:
            self._parse(bytes(self._data), rows)
        except SyntaxError as error:
            raise NotResults(str(error)) from None
        return ResultContent(TRIPLE, tuple(rows))

    def part(self) -> ResultContent:
        """Return the triples up to the last whole line, where the body was cut."""
        rows: dict[Row, None] = {}
        # No name and no number goes over a line's end, so none is taken for a shorter one.
        whole = bytes(self._data[: self._data.rfind(b"\n") + 1])
        with suppress(SyntaxError):
            self._parse(whole, rows)
        return ResultContent(TRIPLE, tuple(rows))

    def _parse(self, data: bytes, rows: dict[Row, None]) -> None:
        from pyoxigraph import RdfFormat, parse

        syntax = RdfFormat.N_TRIPLES if self._syntax == "n-triples" else RdfFormat.TURTLE
        for quad in parse(data, format=syntax, base_iri=self._base_iri):
            rows[tuple(map(cell_of_term, (quad.subject, quad.predicate, quad.object)))] = None


RESULTS_JSON = "application/sparql-results+json"
N_TRIPLES, TURTLE = "application/n-triples", "text/turtle"

BEGINNING_BYTES = 16
"""The beginning of a body that tells HTML from everything else."""

_HTML = (b"<!doctype", b"<html", b"<head", b"<body", b"<?xml")
_UNNAMED = ("", "text/plain", "application/octet-stream")


def accepted(form: Form) -> str:
    """Return the header `Accept` for a form. N-Triples come before Turtle: cut short, they can't seem whole."""
    if form in ("select", "ask"):
        return RESULTS_JSON
    return f"{N_TRIPLES}, {TURTLE};q=0.8"


Body = JsonBody | TriplesBody
"""A body that is being read. Every method raises `NotResults` for what can't be one of its kind."""


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
        """The number of rows that have come in whole."""
        return self._body.whole_rows if self._body else 0

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises `NotResults`."""
        if self._body:
            self._body.feed(data)
            return
        self._beginning += data
        if len(self._beginning.lstrip()) >= BEGINNING_BYTES:
            self._begin()

    def finish(self) -> ResultContent:
        """Return everything, where the body ended by itself. Raises `NotResults`."""
        content = (self._body or self._begin()).finish()
        if (content.boolean is None) == (self._form == "ask"):
            raise NotResults("it answers another form of query", complete=True)
        return content

    def part(self) -> ResultContent:
        """Return the rows that came in whole, where the body was cut. Raises `NotResults`."""
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
        if beginning.startswith(b"<"):
            raise NotResults("it is XML or HTML, not JSON", complete=True)
        if beginning and self._media != RESULTS_JSON:
            raise NotResults(self._otherwise(), complete=True)
        raise NotResults("it is empty" if not beginning else "it is no results document")

    def _triples(self, beginning: bytes) -> Body:
        if beginning.startswith(_HTML) or self._media not in (N_TRIPLES, TURTLE, *_UNNAMED):
            raise NotResults(self._otherwise(), complete=True)
        return TriplesBody("turtle" if self._media == TURTLE else "n-triples", self._base_iri)

    def _otherwise(self) -> str:
        return f"it is {self._media[: limits.ENDPOINT_MEDIA_CHARS]}" if self._media else "it says no type"
