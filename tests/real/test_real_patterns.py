"""Patterns of recorded queries: each is a query again when it is filled in, and holds none of the data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest

from rbank_es import limits
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.tools.memory.generalised_query import Terms, generalise
from rbank_es.tools.memory.query_extractor import ProposalEvidence, QueryPattern

pytestmark = pytest.mark.real

QUERIES = 49
"""Distinct queries in the task files."""


@pytest.fixture(scope="module")
def queries(data: Path) -> list[str]:
    files = sorted((data / "tasks").glob("*.json"))
    return sorted({text for path in files for text in texts_of(json.loads(path.read_text())) if is_query(text)})


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_of(part)


def is_query(text: str) -> bool:
    return "{" in text and re.search(r"\b(SELECT|ASK|CONSTRUCT|DESCRIBE)\b", text) is not None


def refill(place: re.Match[str]) -> str:
    if place[1].startswith(("number", "count")):
        return "7"
    return '"x"' if place[1].startswith(("text", "date", "boolean", "typed")) else "<http://x.example/x>"


def test_every_pattern_filled_in_is_a_query_again(queries: list[str]) -> None:
    assert len(queries) == QUERIES
    for query in queries:
        pattern = generalise(parse_query(query), {}, Terms(None))
        assert pattern is not None
        declared = {**WELL_KNOWN, **pattern.prefixes}
        prologue = "".join(f"PREFIX {prefix}: <{namespace}>\n" for prefix, namespace in declared.items())
        pyoxigraph.Store().query(prologue + re.sub("«([^»]*)»", refill, pattern.text))


def test_what_stands_in_quotes_is_in_no_item(queries: list[str]) -> None:
    told = 0
    for query in queries:
        quoted = {text for text in re.findall(r'"([^"\n]*)"', query) if len(text) > 3}
        for make in (QueryPattern().from_success, QueryPattern().from_failure):
            item = make(ProposalEvidence(query=query, reason=f"nothing for {' and '.join(sorted(quoted))}"))
            if item is None:
                continue
            told += len(quoted)
            assert not [text for text in quoted if text in item.content or text in item.title]
            assert len(item.content) <= limits.ITEM_CONTENT_CHARS
    assert told > 10
