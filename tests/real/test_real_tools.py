"""Questions about real ontologies: the gold query, asked and paged as an agent does it, gives the stored answer."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source
from tests.tools.library import LibraryTools
from tests.tools.tool_sessions import bank_at

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("data")]

PLACE = os.environ.get("RBANK_REAL_DATA")
TASKS: list[dict[str, Any]] = (
    json.loads((Path(PLACE) / "tasks" / "ontology_tasks.json").read_text(encoding="utf-8"))["tasks"] if PLACE else []
)
SETS = {task["dataset"]: tuple(task["files"]) for task in TASKS}


@pytest.fixture(scope="module")
def sources(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Source]]:
    cache = tmp_path_factory.mktemp("cache")
    opened = {
        name: open_source(load_ontology([data / file for file in files], id=name, cache=cache))
        for name, files in SETS.items()
    }
    yield opened
    for source in opened.values():
        source.close()


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with bank_at(tmp_path / "bank") as made:
        yield made


def rows_of(tools: LibraryTools, handle: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """All rows of a result, page by page, and the kinds of their columns; no value may be clipped."""
    rows: list[dict[str, Any]] = []
    kinds: dict[str, str] = {}
    while True:
        body = tools("sparql_slice", result=handle, offset=len(rows), limit=13)
        assert "clipped" not in body
        rows, kinds = rows + body["rows"], kinds | body["kinds"]
        if not body["has_more"]:
            return rows, kinds
        assert body["next_offset"] == len(rows)


def term(value: Any, kind: str) -> tuple[Any, ...]:
    """A value in the form of the stored answers: an IRI, a number by value, or a literal by words and language."""
    if kind == "number":
        return ("num", float(value))
    return ("iri", value) if kind == "iri" else ("lit", str(value), kind.partition("@")[2])


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_gold_query_gives_the_stored_answer(bank: Bank, sources: dict[str, Source], task: dict[str, Any]) -> None:
    tools = LibraryTools(bank, sources[task["dataset"]])
    handle = tools("sparql_query", query=task["gold_sparql"], limit=1_000)
    assert (handle["rows"], handle["truncated"]) == (task["n_rows"], False)
    rows, kinds = rows_of(tools, handle)
    found = Counter(tuple(term(row[name], kinds[name]) for name in task["vars"]) for row in rows)
    assert found == Counter(tuple(tuple(cell) for cell in row) for row in task["answer"])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SETS))
def test_every_class_and_property_can_be_paged_through_and_looked_at(
    sources: dict[str, Source], bank: Bank, name: str
) -> None:
    tools = LibraryTools(bank, sources[name])
    schema = sources[name].schema
    assert schema is not None
    classes, offset = [], 0
    while True:
        body = tools("g_classes", offset=offset, limit=100)
        classes += [row["uri"] for row in body["classes"]]
        if not body["has_more"]:
            break
        offset = body["next_offset"]
    assert len(set(classes)) == len(schema.classes)
    for uri in classes[:: max(1, len(classes) // 15)]:
        for mode in ("sample", "schema"):
            assert tools("sparql_peek", resource=uri, output_mode=mode, related_memories=False)["uri"] == uri
    for each in [*schema.properties][:: max(1, len(schema.properties) // 15)]:
        assert tools("g_describe", resource=each.iri)["kind"] in ("property", "class")


def test_the_schema_of_a_described_endpoint_is_answered_without_a_query(data: Path, bank: Bank) -> None:
    source = open_source(endpoint="http://127.0.0.1:1/none", void=data / "ontologies" / "void_uniprot.ttl")
    tools = LibraryTools(bank, source)
    assert tools("sparql_schema")["class_count"] > 150
    rows = tools("sparql_schema", output_mode="classes", filter_prefix="up:")["classes"]
    assert max(row["count"] for row in rows) > 1_000_000
    assert tools("sparql_peek", resource="up:Protein", output_mode="schema", related_memories=False)["properties"]
    assert tools.fails("sparql_query", query="SELECT ?p WHERE { ?p a up:Protien }")["code"] == "unknown_term"
