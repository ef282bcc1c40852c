"""The provenance tools: the bank's own history as a graph, as of the start of the run, bounded like any other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.memory_graph import MemoryGraph
from rbank_es.errors import LimitExceeded
from rbank_es.limits import tool_limits
from rbank_es.sparql.data_source import Source
from rbank_es.tools.shared.tool_answers import size
from rbank_es.tools.shared.tool_family import ToolPolicy
from rbank_es.tools.shared.toolbox import Toolbox, build_tools
from tests.cli.misled import HEIGHT, misled_bank, ran
from tests.processes import alone

MISLED = 'SELECT ?t { ?i rbank:used_in ?r ; prov:value ?t . ?r rbank:verdict "failure" }'


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with misled_bank(tmp_path_factory.mktemp("past") / "bank") as bank:
        yield bank


@pytest.fixture
def graph(past: Bank) -> Iterator[MemoryGraph]:
    with MemoryGraph(past, past.position) as made:
        yield made


def tools_of(bank: Bank, source: Source, graph: MemoryGraph | None) -> Toolbox:
    return build_tools(bank, run="now", source=source, memory_graph=graph, policy=ToolPolicy(mode="both"))


def test_the_schema_of_the_history_comes_in_pages_within_the_cap(
    past: Bank, source: Source, graph: MemoryGraph
) -> None:
    box = tools_of(past, source, graph)
    overview = box.call("memory_schema")
    assert overview["ok"] and "memory_query" in overview["next"] and "rbank" in overview["prefixes"]
    names = set[str]()
    page: dict[str, Any] = {"next_offset": 0, "has_more": True}
    while page["has_more"]:
        page = box.call("memory_schema", {"output_mode": "properties", "offset": page["next_offset"]})
        assert page["ok"] and size(page) <= tool_limits.TOOL_RETURN_CHARS
        names |= {row["uri"] for row in page["properties"]}
    assert {"rbank:used_in", "rbank:drawn_from", "rbank:judged_by", "prov:value"} <= names


def test_it_is_guarded_like_any_other_graph(past: Bank, source: Source, graph: MemoryGraph) -> None:
    box = tools_of(past, source, graph)
    for query in (
        "SELECT ?i { ?i rbank:misled ?r }",
        "SELECT ?x { SERVICE <http://127.0.0.1:9/> { ?x ?y ?z } }",
        "DELETE WHERE { ?s ?p ?o }",
        "SELECT ?x FROM <file:///etc/passwd> { ?x ?y ?z }",
    ):
        answer = box.call("memory_query", {"query": query})
        assert not answer["ok"] and answer["error"]["hint"], query
    many = box.call("memory_query", {"query": "SELECT * { ?s ?p ?o }", "limit": 5})
    assert many["rows"] == 5 and many["truncated"]


def test_advice_names_the_schema_of_this_graph_and_not_that_of_the_run_s_source(
    past: Bank, source: Source, graph: MemoryGraph
) -> None:
    box = tools_of(past, source, graph)
    for query in ("SELECT * { ?s ?p ?o }", 'SELECT * { ?s ?p ?o FILTER(REGEX(STR(?p), "used")) }'):
        [*warnings] = box.call("memory_query", {"query": query})["warnings"]
        advice = " ".join(each["alternative"] for each in warnings)
        assert "memory_schema" in advice and "sparql_schema" not in advice


def test_no_copy_of_the_bank_s_words_outlives_it(past: Bank) -> None:
    graph = MemoryGraph(past, past.position)
    quads = graph.source.ontology.quads  # type: ignore[union-attr]
    folder = quads.parents[[parent.name.startswith("rbank-es-memory") for parent in quads.parents].index(True)]
    assert HEIGHT.title in quads.read_text()
    graph.close()
    assert not folder.exists()
    assert graph.source.id == "memory", "it is made again when it is asked again"
    graph.close()


@pytest.mark.slow
def test_a_forked_child_makes_a_graph_of_its_own_and_leaves_that_of_its_parent(past: Bank) -> None:
    assert alone(fork_beside_a_graph, past.place) == 0


def fork_beside_a_graph(place: str) -> None:
    with Bank.open(place) as bank, MemoryGraph(bank, bank.position) as graph:
        quads = graph.source.ontology.quads  # type: ignore[union-attr]
        child = os.fork()
        if child == 0:
            own = graph.source.ontology.quads  # type: ignore[union-attr]
            graph.close()
            os._exit(0 if own != quads and not own.exists() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert quads.exists()


def test_a_history_that_is_too_large_is_an_answer_to_an_agent(
    past: Bank, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ONTOLOGY_BYTES", 1_000)
    with MemoryGraph(past, past.position) as graph:
        with pytest.raises(LimitExceeded, match="earlier point"):
            graph.source  # noqa: B018
        answer = tools_of(past, source, graph).call("memory_query", {"query": MISLED})
        assert answer["error"]["code"] == "too_large"


def test_texts_of_any_kind_survive_the_way_into_the_graph(tmp_path: Path) -> None:
    """Quotes, backslashes, line breaks, controls, other scripts; names of runs with blanks and signs."""
    from rbank_es.events.items import Item
    from tests.cli.misled import judged, learned

    run, title = 'run "<1>" \\ %41 ünï', 'Say "x\\n" — \x07 <b> \u2028 日本語 \U0001f600'
    with Bank.create(tmp_path / "bank") as bank:
        bank.append([*ran(run), judged(run, "success")])
        learned(bank, Item.make(title, "content", "success"), (run, "success"))
        with MemoryGraph(bank, bank.position) as graph:
            _, answer = graph.source.query("SELECT ?t { ?i a rbank:Item ; prov:value ?t }")
            assert [row[0].value for row in answer.rows if row[0]] == [title]
            _, answer = graph.source.query("SELECT ?t { ?r a rbank:Run ; prov:value ?t }")
            assert [row[0].value for row in answer.rows if row[0]] == [f"Which lighthouse is the tallest? ({run})"]
