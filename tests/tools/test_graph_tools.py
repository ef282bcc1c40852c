"""The local graph as an agent reaches it, each question in one call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.ontology.schema_model import Bound, ClassInfo, PropertyInfo, Schema
from rbank_es.sparql.data_source import Source
from rbank_es.tools.memory.proposal import query_of
from rbank_es.tools.shared.tool_family import ToolPolicy
from tests.effort import examples
from tests.tools.library import THINGS, TURTLE, LibraryTools, open_library
from tests.tools.test_sparql_tools import endpoint_over
from tests.tools.tool_sessions import types


def test_classes_with_instances_come_first(tools: LibraryTools) -> None:
    counts = [row["count"] for row in tools("g_classes")["classes"]]
    assert counts == sorted(counts, reverse=True)


def test_the_properties_of_a_class_say_why_it_has_them(tools: LibraryTools) -> None:
    rows = {row["uri"]: row for row in tools("g_props", cls="lib:Atlas")["properties"]}
    assert (rows["lib:title"]["how"], rows["lib:title"]["triples"]) == ("used", 1)
    assert (rows["lib:writtenBy"]["how"], rows["lib:writtenBy"]["triples"]) == ("inherited", 0)
    assert rows["lib:writtenBy"]["ranges"] == ["lib:Person"]


def test_without_a_class_all_properties_are_listed_the_most_used_first(tools: LibraryTools) -> None:
    rows = tools("g_props")["properties"]
    own = [row["triples"] for row in rows if row["kind"] != "annotation" and row["uri"] != "rdf:type"]
    assert own == sorted(own, reverse=True)


def test_something_that_is_no_class_has_no_properties(tools: LibraryTools) -> None:
    assert tools.fails("g_props", cls="lib:wrote")["code"] == "unknown_resource"
    assert tools.fails("g_sample", cls="t:ada")["code"] == "unknown_resource"


@pytest.mark.slow
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
    tools: LibraryTools, text: str, uri: str
) -> None:
    assert uri in [row["uri"] for row in tools("g_search", text=text, k=3)["hits"]]


SPELLINGS = """
@prefix e: <http://spellings.example/ns#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:Bay a owl:Class ; rdfs:label "Bucht" . e:HTTPServer a owl:Class .
e:height a owl:DatatypeProperty ; rdfs:label "灯塔高度" .
e:Quantity a owl:Class ; rdfs:label "quantities" . e:istGrößeVon a owl:ObjectProperty .
e:b1 a e:Bay ; rdfs:label "Renée Bucht"@de . e:b2 a e:Bay ; rdfs:label "Ｗｉｄｅ bay" .
e:b3 a e:Bay ; rdfs:label "Rene\u0301 Soleil" . e:b4 a e:Bay ; rdfs:label "город" .
e:b5 a e:Bay ; rdfs:label "Two cities" .
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("Renee", "e:b1"),
        ("RENÉE", "e:b1"),
        ("wide", "e:b2"),
        ("rene soleil", "e:b3"),
        ("Город", "e:b4"),
        ("city", "e:b5"),
        ("灯塔", "e:height"),
        ("quantity", "e:Quantity"),
        ("server", "e:HTTPServer"),
        ("grosse größe", "e:istGrößeVon"),
    ],
)
def test_a_search_reads_names_as_a_bank_reads_items(bank: Bank, tmp_path: Path, text: str, uri: str) -> None:
    tools = LibraryTools(bank, open_library(tmp_path, SPELLINGS))
    assert uri in [row["uri"] for row in tools("g_search", text=text, k=2)["hits"]]


@pytest.mark.parametrize("name", ["quantity", "QUANTITIES", "ist Große von", "istgroßevon"])
def test_a_class_or_property_is_named_without_its_accents_and_joints(bank: Bank, tmp_path: Path, name: str) -> None:
    tools = LibraryTools(bank, open_library(tmp_path, SPELLINGS))
    assert tools("g_describe", resource=name)["kind"] in ("class", "property")


def test_a_search_that_finds_nothing_says_what_to_try(tools: LibraryTools) -> None:
    body = tools("g_search", text="submarine")
    assert body["hits"] == []
    assert body["hint"]


def test_a_class_of_another_vocabulary_is_counted_unless_an_endpoint_would_have_to(
    bank: Bank, tools: LibraryTools, source: Source
) -> None:
    """Counting the things of a popular class can take an endpoint minutes."""
    body = tools("g_describe", resource="owl:Class")
    assert (body["kind"], body["count"]) == ("class", 6)
    far = LibraryTools(bank, endpoint_over(source))("sparql_peek", resource="lib:Book", output_mode="schema")
    assert far["kind"] == "class" and "count" not in far


def test_a_property_is_described_with_examples(tools: LibraryTools) -> None:
    body = tools("g_describe", resource="lib:wrote")
    assert (body["kind"], body["triples"], body["comment"]) == ("property", 3, "Who wrote a work.")
    assert len(body["examples"]) == 3


NOTED = (
    """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
lib:pages skos:note "Plates are not counted."@en , "Ohne Tafeln."@de .
lib:Work skos:scopeNote "Pamphlets too." ; skos:example "An almanac." .
lib:title skos:note """
    + ", ".join(f'"{letter} {"word " * 60}"' for letter in "abcdefghijkl")
    + " .\n"
)


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The library with notes."""
    opened = open_library(tmp_path_factory.mktemp("noted"), TURTLE + NOTED)
    yield opened
    opened.close()


def test_a_thing_without_notes_has_no_field_for_them(bank: Bank, noted: Source) -> None:
    assert not {"notes", "notes_total"} & LibraryTools(bank, noted)("g_describe", resource="lib:wrote").keys()


def test_the_schema_of_an_endpoint_tells_notes_too(bank: Bank, noted: Source) -> None:
    tools = LibraryTools(bank, endpoint_over(noted, noted.schema))
    assert tools("sparql_peek", resource="lib:pages", output_mode="schema")["notes"] == ["Plates are not counted."]
    assert "notes" not in tools("sparql_peek", resource="lib:pages")


def test_what_only_a_note_says_is_found_after_all_else(bank: Bank, noted: Source, tools: LibraryTools) -> None:
    with_notes = LibraryTools(bank, noted)
    assert tools("g_search", text="plates counted")["hits"] == []
    assert [row["uri"] for row in with_notes("g_search", text="plates counted")["hits"]] == ["lib:pages"]
    for text in ("works", "book", "almanac of the coast"):
        before = [row["uri"] for row in tools("g_search", text=text, k=50)["hits"]]
        after = [row["uri"] for row in with_notes("g_search", text=text, k=50)["hits"]]
        assert after[: len(before)] == before
    assert with_notes("g_search", text="almanac of the coast", k=50)["hits"][-1]["uri"] == "lib:Work"


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    iri_chars=st.integers(1, 400),
    bounds=st.integers(0, 4),
    words=st.sampled_from(["", "word " * 60, '"\\\\' * 200, "🦉" * 300]),
    notes=st.integers(0, 8),
    left_out=st.integers(0, 3),
)
def test_notes_of_any_number_and_wording_stay_within_the_cap(
    bank: Bank, noted: Source, iri_chars: int, bounds: int, words: str, notes: int, left_out: int
) -> None:
    name = "http://long.example/" + "x" * iri_chars
    said: dict[str, Any] = {"label": words[:120], "comment": words[:500], "notes": (words[:500],) * notes}
    said |= {"notes_left_out": left_out if notes else 0}
    ends = tuple(Bound(iri=f"{name}C{number}", source="rdfs") for number in range(bounds))
    known = tuple(each.iri for each in ends)
    found = PropertyInfo(iri=name, domains=ends, ranges=ends, parents=known, inverses=known, **said)
    schema = Schema(classes=(ClassInfo(iri=f"{name}C", parents=known, **said),), properties=(found,))
    tools = LibraryTools(bank, endpoint_over(noted, schema))
    for iri in (name, f"{name}C"):  # the desktop checks the size
        body = tools("sparql_peek", resource=iri, output_mode="schema", related_memories=False)
        assert len(body.get("notes", ())) <= notes


def test_a_thing_without_a_class_is_described_too(tools: LibraryTools) -> None:
    assert tools("g_describe", resource=f"<{THINGS}bindery>")["properties"][0]["value"] == "A thing without a class"


def test_what_no_triple_names_is_unknown(tools: LibraryTools) -> None:
    assert tools.fails("g_describe", resource="t:nobody")["code"] == "unknown_resource"


def test_a_query_gives_a_handle_and_leaves_memory_alone(bank: Bank, tools: LibraryTools) -> None:
    query = "SELECT ?p WHERE { ?p lib:wrote t:tides }"
    body = tools("g_query", query=query)
    assert (body["rows"], body["variables"]) == (2, ["p"])
    assert len(tools("sparql_slice", result=body)["rows"]) == 2
    assert query_of(tools.session, body) == query
    assert types([*bank.events()])[-2:] == ["tool_called", "tool_called"]
    assert tools.extractor.told == []


def test_an_endpoint_has_no_local_graph(bank: Bank, source: Source) -> None:
    far = LibraryTools(bank, endpoint_over(source))
    for name, arguments in (("g_stats", {}), ("g_query", {"query": "ASK { ?s ?p ?o }"}), ("g_search", {"text": "x"})):
        assert far.fails(name, **arguments)["code"] == "not_local"


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"offset": -1}, {"limit": "x"}])
def test_pages_that_can_not_be_are_refused(tools: LibraryTools, arguments: dict[str, object]) -> None:
    assert tools.fails("g_classes", **arguments)["code"] in {"bad_limit", "bad_offset", "bad_arguments"}


def test_the_naive_mode_gives_all_rows(bank: Bank, source: Source) -> None:
    tools = LibraryTools(bank, source, ToolPolicy(payloads="naive"))
    assert len(tools("g_classes", limit=1)["classes"]) == 6
    assert tools("g_props", limit=1)["has_more"] is False


SIMPLE = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just("lib:Book"))
ANYTHING = st.one_of(SIMPLE, st.lists(SIMPLE, max_size=3), st.dictionaries(st.text(max_size=5), SIMPLE, max_size=3))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_a_tool_is_given_its_answer_is_bounded_data(tools: LibraryTools, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(tools.box.functions)))
    parameters = [*inspect.signature(tools.box.functions[name]).parameters, "unknown"]
    answer = tools(name, **data.draw(st.dictionaries(st.sampled_from(parameters), ANYTHING, max_size=4)))
    assert answer["ok"] or answer["error"].keys() == {"code", "message", "hint"}
    assert answer["ok"] or answer["error"]["code"] != "tool_failed"
