"""The local graph as an agent reaches it, each question in one call."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.sparql.source import Source
from rbank_es.tools.desk import ToolPolicy
from tests.effort import examples
from tests.tools.desks import types
from tests.tools.library import THINGS, Desktop
from tests.tools.test_sparql_tools import endpoint_over


def test_the_statistics_are_those_of_the_schema(tools: Desktop, source: Source) -> None:
    body = tools("g_stats")
    assert source.schema is not None
    assert body["triples"] == source.schema.triples
    assert (body["classes"], body["individuals"]) == (6, source.schema.individuals)
    assert body["formalisms"] == ["RDFS", "OWL"]
    assert {"uri": "rdfs:label", "count": 15} in body["label_properties"]


def test_classes_with_instances_come_first(tools: Desktop) -> None:
    counts = [row["count"] for row in tools("g_classes")["classes"]]
    assert counts == sorted(counts, reverse=True)


def test_classes_are_paged(tools: Desktop) -> None:
    first = tools("g_classes", limit=2)
    assert (first["returned"], first["total"], first["has_more"], first["next_offset"]) == (2, 6, True, 2)
    second = tools("g_classes", limit=2, offset=2)
    assert not {row["uri"] for row in first["classes"]} & {row["uri"] for row in second["classes"]}


def test_the_properties_of_a_class_say_why_it_has_them(tools: Desktop) -> None:
    rows = {row["uri"]: row for row in tools("g_props", cls="lib:Atlas")["properties"]}
    assert (rows["lib:title"]["how"], rows["lib:title"]["uses"]) == ("used", 1)
    assert (rows["lib:writtenBy"]["how"], rows["lib:writtenBy"]["uses"]) == ("inherited", 0)
    assert rows["lib:writtenBy"]["ranges"] == ["lib:Person"]


def test_without_a_class_all_properties_are_listed_the_most_used_first(tools: Desktop) -> None:
    rows = tools("g_props")["properties"]
    own = [row["uses"] for row in rows if row["kind"] != "annotation" and row["uri"] != "rdf:type"]
    assert own == sorted(own, reverse=True)


def test_something_that_is_no_class_has_no_properties(tools: Desktop) -> None:
    assert tools.fails("g_props", cls="lib:wrote")["code"] == "unknown_resource"
    assert tools.fails("g_sample", cls="t:ada")["code"] == "unknown_resource"


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("book", "lib:Book"),
        ("written by", "lib:writtenBy"),
        ("writtenBy", "lib:writtenBy"),
        ("atlas", "lib:Atlas"),
        ("took a book home", "lib:Loan"),
        ("ada quill", "t:ada"),
        ("étoiles", "t:stars"),
        ("tides", "t:tides"),
        ("120", "t:tides"),
    ],
)
def test_things_are_found_by_the_words_of_their_names_labels_comments_and_texts(
    tools: Desktop, text: str, uri: str
) -> None:
    assert uri in [row["uri"] for row in tools("g_search", text=text, k=3)["hits"]]


def test_what_has_all_words_comes_before_what_has_some(tools: Desktop) -> None:
    assert tools("g_search", text="on tides")["hits"][0] == {
        "uri": "t:tides",
        "kind": "individual",
        "label": "On Tides",
    }


def test_a_search_that_finds_nothing_says_what_to_try(tools: Desktop) -> None:
    body = tools("g_search", text="submarine")
    assert body["hits"] == []
    assert body["hint"]


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_any_text_can_be_searched_for(tools: Desktop, text: str) -> None:
    assert tools("g_search", text=text)["ok"] is True


def test_a_class_is_described(tools: Desktop) -> None:
    body = tools("g_describe", resource="lib:Book")
    assert (body["kind"], body["label"], body["parents"], body["count"]) == ("class", "Book", ["lib:Work"], 2)
    assert (body["subclasses"], body["subclass_instances"]) == (1, 1)
    assert {row["uri"] for row in body["properties"]} >= {"lib:title", "lib:pages"}


def test_a_property_is_described_with_examples(tools: Desktop) -> None:
    body = tools("g_describe", resource="lib:wrote")
    assert (body["kind"], body["uses"], body["comment"]) == ("property", 3, "Who wrote a work.")
    assert len(body["examples"]) == 3


def test_an_individual_is_described_in_both_directions(tools: Desktop) -> None:
    body = tools("g_describe", resource="t:tides")
    assert {"uri": "lib:pages", "n": 1, "value": 120} in body["properties"]
    incoming = {row["uri"]: row["n"] for row in body["incoming"]}
    assert incoming == {"lib:wrote": 2, "lib:loanOf": 1}


def test_a_thing_without_a_class_is_described_too(tools: Desktop) -> None:
    assert tools("g_describe", resource=f"<{THINGS}bindery>")["properties"][0]["value"] == "A thing without a class"


def test_what_no_triple_names_is_unknown(tools: Desktop) -> None:
    assert tools.fails("g_describe", resource="t:nobody")["code"] == "unknown_resource"


def test_a_sample_has_instances_of_subclasses_unless_told_otherwise(tools: Desktop) -> None:
    deep = {row["uri"]: row["properties"] for row in tools("g_sample", cls="lib:Book")["instances"]}
    assert deep.keys() == {"t:tides", "t:stars", "t:coast"}
    assert deep["t:coast"]["rdf:type"] == "lib:Atlas"
    flat = tools("g_sample", cls="lib:Book", subclasses=False)["instances"]
    assert {row["uri"] for row in flat} == {"t:tides", "t:stars"}


def test_a_query_gives_a_handle_and_leaves_memory_alone(bank: Bank, tools: Desktop) -> None:
    query = "SELECT ?p WHERE { ?p lib:wrote t:tides }"
    body = tools("g_query", query=query)
    assert (body["rows"], body["variables"]) == (2, ["p"])
    assert len(tools("sparql_slice", result=body)["rows"]) == 2
    assert tools.desk.query_of(body) == query
    assert types([*bank.events()])[-2:] == ["tool_called", "tool_called"]
    assert tools.extractor.told == []


def test_an_endpoint_has_no_local_graph(bank: Bank, source: Source) -> None:
    far = Desktop(bank, endpoint_over(source))
    for name, arguments in (("g_stats", {}), ("g_query", {"query": "ASK { ?s ?p ?o }"}), ("g_search", {"text": "x"})):
        assert far.fails(name, **arguments)["code"] == "not_local"


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"offset": -1}, {"limit": "x"}])
def test_pages_that_can_not_be_are_refused(tools: Desktop, arguments: dict[str, object]) -> None:
    assert tools.fails("g_classes", **arguments)["code"] in {"bad_limit", "bad_offset", "bad_arguments"}


def test_the_naive_mode_gives_all_rows(bank: Bank, source: Source) -> None:
    tools = Desktop(bank, source, ToolPolicy(payloads="naive"))
    assert len(tools("g_classes", limit=1)["classes"]) == 6
    assert tools("g_props", limit=1)["has_more"] is False


SIMPLE = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just("lib:Book"))
ANYTHING = st.one_of(SIMPLE, st.lists(SIMPLE, max_size=3), st.dictionaries(st.text(max_size=5), SIMPLE, max_size=3))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_a_tool_is_given_its_answer_is_bounded_data(tools: Desktop, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(tools.box.functions)))
    parameters = [*inspect.signature(tools.box.functions[name]).parameters, "unknown"]
    answer = tools(name, **data.draw(st.dictionaries(st.sampled_from(parameters), ANYTHING, max_size=4)))
    assert answer["ok"] or answer["error"].keys() == {"code", "message", "hint"}
    assert answer["ok"] or answer["error"]["code"] != "tool_failed"
