"""Answers, runs and items for tests of judges."""

from __future__ import annotations

from typing import Any

from rbank_es.bank import Bank
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item
from rbank_es.judging.run_outcome import QueryRun, RunOutcome
from rbank_es.ontology.rdf_names import XSD
from rbank_es.sparql.results import Answer, Cell


def iri(name: str) -> Cell:
    return Cell("iri", f"http://example.org/{name}")


def text(value: str, lang: str = "") -> Cell:
    return Cell("literal", value, lang)


def typed(value: object, datatype: str = "integer") -> Cell:
    return Cell("literal", str(value), "", XSD + datatype)


def blank(label: str) -> Cell:
    return Cell("bnode", label)


def table(*rows: tuple[Cell | None, ...], names: str = "", **more: Any) -> Answer:
    """Return a SELECT's answer; columns are called a, b, c … unless named."""
    width = len(rows[0]) if rows else len(names)
    return Answer(form="select", variables=tuple(names or "abcdefghij"[:width]), rows=rows, **more)


def yes_or_no(value: bool) -> Answer:
    return Answer(form="ask", boolean=value)


def run_of(sparql: str, task: str = "Which things are there?", answer: str = "", **more: Any) -> RunOutcome:
    """Return a run that submitted a query."""
    return RunOutcome(task=task, sparql=sparql, answer=answer, **more)


def ran(query: str, answer: Answer | None = None, **more: Any) -> QueryRun:
    return QueryRun(query=query, answer=answer, **more)


def add(bank: Bank, *items: Item) -> None:
    """Give a bank items, as if by hand."""
    heads, candidates = tuple(item.head for item in items), tuple(item.text for item in items)
    extracted = bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=candidates)).events[0].id
    decisions = tuple(Decision(candidate=at, action="add", item=item.id) for at, item in enumerate(items))
    bank.append(MemoriesConsolidated(extraction=extracted, policy="append-1", decisions=decisions))
