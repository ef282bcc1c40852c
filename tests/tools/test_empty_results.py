"""What is said where a query found nothing: of this query, and of these data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.tools.graph.empty_results import DEFAULT, hint_for
from tests.tools.library import TURTLE, LibraryTools, open_library
from tests.tools.test_sparql_tools import endpoint_over

MORE = """
lib:Shelf a owl:Class . lib:Room a owl:Class .
lib:holds a owl:ObjectProperty . lib:isIn a owl:ObjectProperty ; owl:inverseOf lib:holds .
lib:near a owl:ObjectProperty . lib:beside a owl:ObjectProperty ; rdfs:subPropertyOf lib:near .
t:north a lib:Room . t:oak a lib:Shelf ; lib:isIn t:north . t:ash a lib:Shelf ; lib:isIn t:north ; lib:beside t:oak .
t:oak lib:holds t:tides .
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    opened = open_library(tmp_path_factory.mktemp("library"), TURTLE + MORE)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        # a class: nothing is typed with it, but things are with its subclasses; or nothing at all
        ("?x a lib:Work", "its subclasses have: lib:Book (2), lib:Atlas (1). Use ?x a/rdfs:subClassOf* lib:Work"),
        ("?x a lib:Map", "lib:Map has no instances in these data. Classes that have:"),
        # a property: never used, while its inverse or one below it is
        ("?w lib:writtenBy ?p", "its inverse lib:wrote (3 triples). Turn it round: ?p lib:wrote ?w"),
        ("?p ^lib:writtenBy ?w", "Turn it round: ?p lib:wrote ?w"),
        ("?s lib:near ?o", "the data never use lib:near itself, but lib:beside"),
        ("?p a lib:Person ; lib:translated ?w", "the data never use lib:translated. lib:Person has lib:wrote"),
        # a direction: used in the data, but not between these classes
        ("?r a lib:Room ; lib:holds ?s . ?s a lib:Shelf", "here the data have lib:isIn, the inverse of lib:holds"),
        ("?s a lib:Shelf ; lib:isIn ?x . ?x a lib:Book", "between these classes the data have lib:holds, not lib:isIn"),
        ("?b a lib:Book ; lib:wrote ?p . ?p a lib:Person", "here lib:wrote leads the other way: ?p lib:wrote ?b"),
        ("?r a lib:Room ; lib:isIn ?x", "here lib:isIn leads the other way. Turn it round: ?x lib:isIn ?r"),
        ("t:north lib:holds ?x", "here lib:isIn leads the other way. Turn it round: ?x lib:isIn t:north"),
        ("?p a lib:Person ; lib:pages ?n", "instances of lib:Person have no lib:pages; they have lib:wrote"),
        # a value, or a name
        ('?b lib:title "on tides"', "compare loosely: FILTER(CONTAINS("),
        ('?b lib:title ?t FILTER(?t = "on tides")', "values of lib:title look like"),
        ('?b lib:title ?t FILTER(REGEX(STR(?t), "^tides"))', "values of lib:title look like"),
        ("?b lib:pages ?n FILTER(?n > 1000)", "values of lib:pages look like 40, 80, 120"),
        ("t:nobody lib:wrote ?w", "no triple has t:nobody there"),
        # nothing that can be told
        ("?b lib:pages ?n FILTER(?n = ?b)", "FILTER may be too strict"),
        ("?a lib:pages ?n . ?b lib:title ?n", DEFAULT),
        ("<http://a/?\ue000> lib:wrote ?w", DEFAULT),
        ("?b lib:pages ?n OPTIONAL { ?x a lib:Map } MINUS { ?b lib:pages ?m }", DEFAULT),
    ],
)
def test_the_hint_names_what_is_most_likely_wrong(bank: Bank, source: Source, pattern: str, said: str) -> None:
    body = LibraryTools(bank, source)("sparql_query", query=f"SELECT * WHERE {{ {pattern} }}")
    assert body["rows"] == 0
    assert said in body["hint"]


BOOKS = "SELECT * WHERE { ?x a lib:Book }"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"{BOOKS} LIMIT 0", "LIMIT 0 asks for no rows"),
        (f"{BOOKS} LIMIT 5 OFFSET 1000", "OFFSET 1000 lies behind the last row"),
        (f"{BOOKS} OFFSET 0007 LIMIT 5", "OFFSET 7 lies behind the last row"),
        ("SELECT * WHERE { ?x a lib:Work } OFFSET 3", "its subclasses have: lib:Book"),
        ("SELECT * WHERE { { SELECT ?x WHERE { ?x a lib:Work } OFFSET 3 } }", "its subclasses have: lib:Book"),
        ("SELECT * WHERE { GRAPH lib:none { ?x a lib:Book } }", "there is no graph <http://library.example/ns#none>"),
    ],
)
def test_limit_offset_and_graph_are_looked_at_before_directions_and_spelling(
    bank: Bank, source: Source, query: str, said: str
) -> None:
    body = LibraryTools(bank, source)("sparql_query", query=query)
    assert body["rows"] == 0
    assert said in body["hint"]
    assert "spelling" not in body["hint"]


def test_the_graphs_that_there_are_are_named(bank: Bank, tmp_path: Path) -> None:
    (tmp_path / "two.trig").write_text("@prefix e: <http://e.org/> . e:one { e:a e:p e:b } e:two { e:a e:p e:c }")
    source = open_source(load_ontology(tmp_path / "two.trig", cache=tmp_path / "cache"))
    body = LibraryTools(bank, source)("sparql_query", query="SELECT * { GRAPH <http://e.org/three> { ?s ?p ?o } }")
    source.close()
    assert "http://e.org/one, http://e.org/two" in body["hint"]


def test_of_an_endpoint_an_offset_is_doubted_without_asking_again(source: Source) -> None:
    assert "OFFSET 9 may lie behind" in hint_for(
        parse_query("SELECT * WHERE { ?x a <urn:none> } OFFSET 9"), endpoint_over(source)
    )


def test_a_count_of_nothing_has_a_hint_too(bank: Bank, source: Source) -> None:
    body = LibraryTools(bank, source)("sparql_query", query="SELECT (COUNT(?x) AS ?n) WHERE { ?x a lib:Work }")
    assert (body["rows"], "its subclasses have" in body["hint"]) == (1, True)


def test_a_pattern_in_a_union_or_a_subselect_counts(bank: Bank, source: Source) -> None:
    query = "SELECT * WHERE { { SELECT ?x WHERE { { ?x a lib:Work } UNION { ?x a lib:Map } } } }"
    assert "lib:Work has no direct instances" in LibraryTools(bank, source)("sparql_query", query=query)["hint"]


def test_what_was_found_has_no_hint(bank: Bank, source: Source) -> None:
    assert "hint" not in LibraryTools(bank, source)("sparql_query", query="SELECT * WHERE { ?x a lib:Book }")


def test_of_an_endpoint_without_a_description_little_can_be_said(source: Source) -> None:
    assert hint_for(parse_query("SELECT * WHERE { ?x a <urn:none> }"), endpoint_over(source)) == DEFAULT


def test_of_an_endpoint_nothing_more_is_asked_than_the_query(source: Source) -> None:
    class Counting:
        asked = 0

        def run(self, *given: object) -> object:
            self.asked += 1
            return source.engine.run(*given)  # type: ignore[arg-type]

        def close(self) -> None: ...

    far = endpoint_over(source, source.schema)
    engine = Counting()
    counted = type(far)(**{name: getattr(far, name) for name in far.__struct_fields__} | {"engine": engine})
    query = 'SELECT * WHERE { ?b <http://library.example/ns#title> "on tides" }'
    assert hint_for(parse_query(query), counted) == DEFAULT
    assert engine.asked == 0
