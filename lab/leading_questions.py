"""Leading questions: those that give their answer away, or the property by which it is found."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from rbank_es.judging.result_comparison import value_of
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery
from rbank_es.sparql.results import Answer, Cell, Row, row_line

_WORD = re.compile(r"\w+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CAMEL = re.compile(r"[a-z0-9]+[A-Z]")


def given_away(question: str, answer: Answer) -> str:
    """Return a row of the answer that can be read off the question whole; empty if there is none.

    A literal is looked for in its words, an IRI in the words of its local name; case and punctuation don't count. A row
    of which only a part is in the question is no answer yet: it may repeat what was asked about.
    """
    return next(map(row_line, rows_said(question, answer)), "")


def rows_said(text: str, answer: Answer) -> Iterator[Row]:
    """Yield the rows of an answer of which a text holds every value, found as by `given_away`."""
    said = f" {plain_words(text)} "
    yield from (row for row in answer.rows if row and all(_is_said(cell, said) for cell in row))


def named_properties(question: str, query: ParsedQuery) -> tuple[str, ...]:
    """Return the properties of a query that the question writes as the data do, as in `lt:name` or `focalHeight`.

    A plain word, such as `marks`, is a word of the question's own.
    """
    return tuple(dict.fromkeys(name for name, iri in _predicates(query) if _names(question, name, iri)))


def _is_said(cell: Cell | None, said: str) -> bool:
    return cell is not None and any(f" {form} " in said for form in _forms(cell) if form)


def _forms(cell: Cell) -> Iterator[str]:
    """Yield the words in which a value could stand in a question; none for a blank node and for yes or no."""
    if cell.kind == "iri":
        local = _local(cell.value)
        yield plain_words(local)
        yield plain_words(_HUMP.sub(" ", local))
        return
    value = value_of(cell)
    if cell.kind == "bnode" or (value is not None and value[0] == "boolean"):
        return
    if value is not None and value[0] == "number":
        yield plain_words(str(value[1]))
    yield plain_words(cell.value)


def plain_words(text: str) -> str:
    """Return the words of a text, in one case, with a blank between any two."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold().replace("_", " ")))


def _local(iri: str) -> str:
    return re.split(r"[#/:]", iri.rstrip("#/:"))[-1]


def _predicates(query: ParsedQuery) -> Iterator[tuple[str, str]]:
    """Yield the predicates of a query, each as it is written and as an IRI."""
    for triple in tree.triples(query.tree):
        if not isinstance(triple.predicate, tree.Variable):
            yield from ((query.token_at(step.offset).text, step.iri) for step in tree.steps(triple.predicate))


def _names(question: str, written: str, iri: str) -> bool:
    local = _local(iri)
    if iri in question or (":" in written and re.search(rf"(?<!\w){re.escape(written)}(?!\w)", question)):
        return True
    return bool(_CAMEL.search(local) and re.search(rf"(?<!\w){re.escape(local)}(?!\w)", question))
