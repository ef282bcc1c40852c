"""Extraction without a model: procedures and pitfalls from queries, and the tools that propose them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.events import MemoryProposed
from rbank_es.events.items import Item
from rbank_es.law import find_similar
from rbank_es.ontology.schema_model import Bound, ClassInfo, Link, PropertyInfo, Schema
from rbank_es.sparql.data_source import Source, open_source
from rbank_es.tools.memory.query_extractor import ProposalEvidence, QueryPattern
from rbank_es.tools.shared.toolbox import Toolbox, build_tools
from tests.tools.tool_sessions import RUN

SEA = "https://sea.example/ns#"
PREFIXES = {"sea": SEA, "isle": "https://sea.example/isle/"}
SCHEMA = Schema(
    classes=(
        ClassInfo(iri=SEA + "Boat", instances=0),
        ClassInfo(iri=SEA + "Ferry", instances=12, parents=(SEA + "Boat",)),
        ClassInfo(iri=SEA + "Ghost"),
        ClassInfo(iri=SEA + "Harbour", instances=3),
    ),
    properties=(
        PropertyInfo(iri=SEA + "callsAt", triples=20, inverses=(SEA + "isCalledAtBy",)),
        PropertyInfo(iri=SEA + "isCalledAtBy", inverses=(SEA + "callsAt",)),
        PropertyInfo(iri=SEA + "hasName", triples=9, label="official name"),
        PropertyInfo(
            iri=SEA + "lengthM",
            comment="Over all,\n in metres.\x1b",
            triples=5,
            domains=(Bound(iri=SEA + "Boat", source="rdfs"),),
            ranges=(Bound(iri="http://www.w3.org/2001/XMLSchema#decimal", source="rdfs"),),
        ),
    ),
    links=(Link(subject=SEA + "Ferry", property=SEA + "callsAt", object=SEA + "Harbour", uses=20),),
)
QUERY = """
PREFIX s: <https://sea.example/ns#>
# which ferries call at Gull Bay?
select distinct ?f ?n where {
  ?f a s:Ferry ; s:callsAt <https://sea.example/isle/gull-bay> ; s:hasName ?n .
  optional { ?f s:lengthM ?metres filter(?metres > 30.5) }
} limit 10
"""


def evidence(query: str = QUERY, **more: Any) -> ProposalEvidence:
    given = {"variables": ("f", "n"), "rows": 3, "domain": "sea", "prefixes": PREFIXES, "schema": SCHEMA, **more}
    return ProposalEvidence(query=query, **given)


def procedure(query: str = QUERY, **more: Any) -> Item:
    item = QueryPattern().from_success(evidence(query, **more))
    assert item is not None
    return item


def pitfall(query: str = QUERY, **more: Any) -> Item:
    item = QueryPattern().from_failure(evidence(query, **more))
    assert item is not None
    return item


# ---------------------------------------------------------------- procedures


@pytest.mark.parametrize(
    "other",
    [
        QUERY.replace("gull-bay", "tern-sound").replace("30.5", "-7"),
        QUERY.replace(" s:", " water:"),
        QUERY.replace("<https://sea.example/isle/gull-bay>", "isle:gull-bay"),
        QUERY.replace("?f", "?ferryBoat").replace("?n ", "$called "),
        QUERY.replace("\n", " \t\n#noise\n").replace("select", "SeLeCt"),
        QUERY.replace("limit 10", "offset 20"),
        QUERY.replace(" .\n", "\n").replace(" }\n", " . }\n"),
        QUERY.replace("a s:Ferry", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> s:Ferry"),
    ],
    ids=["instances", "prefixes", "short names", "variables", "layout", "page", "full stops", "rdf:type"],
)
def test_what_is_no_structure_makes_no_other_item(other: str) -> None:
    assert other != QUERY
    names = ("ferryBoat", "called") if "ferryBoat" in other else ("f", "n")
    assert procedure(other, variables=names) == procedure()


@pytest.mark.parametrize(
    "path",
    [
        "a/rdfs:subClassOf*",
        "^sea:callsAt|sea:hasName",
        "(sea:callsAt|^sea:hasName)+/rdf:rest?",
        "!(a|^rdf:rest)",
    ],
)
def test_a_path_is_written_without_blanks(path: str) -> None:
    assert f" {path} ?" in procedure(f"SELECT * {{ ?boat {path} ?other . ?boat a sea:Boat }}").content


def test_terms_of_the_schema_stay_wherever_they_stand() -> None:
    item = procedure("SELECT ?x { VALUES ?type { sea:Ferry sea:Harbour } ?x a ?type ; ?p sea:Harbour }")
    assert "VALUES ?type { sea:Ferry sea:Harbour }" in item.content and "?property sea:Harbour" in item.content


def test_how_many_values_were_listed_is_not_told() -> None:
    few = "SELECT ?x { VALUES ?x { isle:a } VALUES (?x ?y) { (isle:a 1) } ?x sea:callsAt ?y }"
    many = few.replace("{ isle:a }", "{ isle:a isle:b isle:c }").replace(
        "(isle:a 1)", "(isle:a 1) (isle:b 2) (isle:c 3)"
    )
    assert procedure(few) == procedure(many)


def test_each_literal_has_a_place_of_its_own() -> None:
    same, different = 'ASK { ?x sea:hasName "a", "a", 3 }', 'ASK { ?x sea:hasName "a", "b", 3 }'
    assert procedure(same) == procedure(different)
    assert "sea:hasName «text», «text 2», «number»" in procedure(same).content


@pytest.mark.parametrize(
    ("literal", "shown"),
    [
        ('"x"', "«text»"),
        ("'''x'''", "«text»"),
        ('"x"@en-GB', "«text with language»"),
        ("42", "«number»"),
        ("-4.2e1", "«number»"),
        ('"42"^^xsd:integer', "«number»"),
        ('"2026-01-31"^^<http://www.w3.org/2001/XMLSchema#date>', "«date»"),
        ('"POINT(1 2)"^^isle:private', "«typed value»"),
        ("true", "«boolean»"),
    ],
)
def test_a_literal_becomes_a_place_that_tells_its_kind(literal: str, shown: str) -> None:
    assert f"?thing sea:hasName {shown} }}" in procedure(f"SELECT * {{ ?x sea:hasName {literal} }}").content


COUNTED = "Query: count of things with calls at, given official name"


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("ASK { ?x a sea:Ferry }", "Query: check for ferry"),
        ("SELECT (COUNT(*) AS ?n) { ?x a sea:Ferry }", "Query: count of ferry"),
        ("SELECT (MAX(?m) AS ?n) { ?x sea:lengthM ?m }", "Query: figures over things with length m"),
        (
            "CONSTRUCT { ?x sea:callsAt ?y } { ?y sea:isCalledAtBy ?x }",
            "Query: graph of things with calls at, is called at by",
        ),
        ("SELECT ?m { ?x sea:lengthM ?m }", "Query: length m"),
        ("SELECT ?m { ?x sea:hasName ?m ; sea:lengthM - 5 }", "Query: official name, given length m"),
        ("SELECT ?m { ?x sea:hasName 'x' ; sea:lengthM ?m }", "Query: length m, given official name"),
        ("SELECT (COUNT(?y) AS ?n) { ?x sea:hasName 'x' ; sea:callsAt ?y }", COUNTED),
        ("SELECT ?x { ?x a sea:Ferry }", "Query: ferry"),
        ("SELECT ?x { ?x sea:hasName 'x' }", "Query: things, given official name"),
        ("DESCRIBE ?x { ?x sea:hasName 'x' }", "Query: description of things, given official name"),
    ],
)
def test_the_title_says_what_the_query_does(query: str, title: str) -> None:
    assert procedure(query).title == title


def test_a_computed_group_is_named_by_its_function() -> None:
    query = "SELECT ?y (COUNT(*) AS ?n) { ?x sea:lengthM ?m } GROUP BY (FLOOR(?m) AS ?y)"
    written = (
        "SELECT ?floor (COUNT(*) AS ?count) { ?thing sea:lengthM ?lengthM }\nGROUP BY (FLOOR(?lengthM) AS ?floor)\n"
    )
    assert procedure(query, variables=("y", "n")).content.startswith(written)


@pytest.mark.parametrize(
    "query", ["SELECT * { ?s ?p ?o }", "DESCRIBE <http://x/y>", "no query at all", "", "{", "SELECT"]
)
def test_a_query_without_terms_teaches_nothing(query: str) -> None:
    assert QueryPattern().from_success(evidence(query)) is None
    assert QueryPattern().from_failure(evidence(query)) is None
    assert QueryPattern().from_success(evidence('SELECT ?x { ?x sea:hasName "open }')) is None, "it cannot be read"


def test_without_a_schema_classes_and_properties_are_known_by_their_places() -> None:
    item = procedure("SELECT ?x { ?x a <http://x/A> ; <http://x/p> <http://x/thing1> }", schema=None, prefixes={})
    assert "?a a x:A ;\n    x:p «p»" in item.content and "PREFIX x: <http://x/>" in item.content
    taxa = procedure("SELECT ?x { ?x rdfs:subClassOf isle:a ; sea:hasName ?n }", schema=None)
    assert "rdfs:subClassOf «sub class of»" in taxa.content


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT ?y { ?x sea:callsAt ?y }", "sea:callsAt: calls at, ferry to harbour"),
        ("SELECT ?y { ?x sea:isCalledAtBy ?y }", "sea:isCalledAtBy: is called at by, anything to boat"),
        ("SELECT ?y { ?x a sea:Ferry }", "sea:Ferry: ferry"),
        ("SELECT ?y { ?x <http://x/madeOf> ?y }", "x:madeOf: made of"),
    ],
)
def test_a_term_without_a_comment_is_told_by_its_name_and_where_it_leads(query: str, said: str) -> None:
    ranges = (Bound(iri=SEA + "Boat", source="rdfs"), Bound(iri=SEA + "Boat", source="shacl"))
    called = PropertyInfo(iri=SEA + "isCalledAtBy", ranges=ranges)
    properties = (*(each for each in SCHEMA.properties if each.iri != called.iri), called)
    schema = msgspec.structs.replace(SCHEMA, properties=properties)
    assert procedure(query, schema=schema).content.split("\n\n")[1].startswith(said)


def test_the_description_names_three_classes_and_four_properties() -> None:
    iris = [SEA + name for name in "ABCDEF"]
    classes = tuple(ClassInfo(iri=iri) for iri in iris)
    properties = tuple(PropertyInfo(iri=iri.replace("#", "#p")) for iri in iris)
    schema = msgspec.structs.replace(SCHEMA, classes=classes, properties=properties)
    query = f"SELECT * {{ {' '.join(f'?{n} a sea:{n} ; sea:p{n} ?o{n} .' for n in 'ABCDEF')} }}"
    assert procedure(query, schema=schema).desc.startswith(
        "A SELECT query over sea:A, sea:B, sea:C and 3 more by sea:pA, sea:pB, sea:pC, sea:pD and 2 more"
    )


def test_prefixes_take_so_many_characters_of_an_item() -> None:
    spaces = "".join(f"PREFIX own{n}: <https://own.example/{n}/> " for n in range(40))
    query = f"{spaces} SELECT * {{ ?x sea:callsAt ?y . {' '.join(f'?x own{n}:size ?z{n} .' for n in range(40))} }}"
    listed = procedure(query).content.split("\n\n")[-1]
    assert listed.startswith("PREFIX own") and 480 < len(listed) <= 500


# ---------------------------------------------------------------- pitfalls


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"error_code": "timeout"}, "it took too long"),
        ({"reason": "slow_here: unbound predicate"}, "it took too long"),
        ({"reason": "the endpoint timed out"}, "it took too long"),
        ({"error_code": "syntax", "reason": "line 3"}, "it could not be parsed"),
        ({"reason": "no rows came back"}, "it found nothing"),
        ({"error_code": "unknown_term"}, "it names what the ontology doesn't have"),
        ({"error_code": "service_refused"}, "it is not allowed"),
        ({"error_code": "out_of_memory"}, "it was too large"),
        ({"reason": "counts every ferry twice"}, "its answer was wrong"),
        ({"reason": "who knows", "rows": None}, "it failed"),
        ({"rows": 0, "reason": "wrong"}, "it found nothing"),
    ],
)
def test_what_went_wrong_is_told_in_one_of_a_few_phrases(told: dict[str, Any], fault: str) -> None:
    item = pitfall(**told)
    assert item.title.endswith("; " + fault) and f"What went wrong: {fault}." in item.content


def checks(query: str, **more: Any) -> str:
    return pitfall(query, rows=0, **more).content.split("Check:\n")[1].split("\n\n")[0]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("?x sea:isCalledAtBy ?y", "no triple has sea:isCalledAtBy; its inverse sea:callsAt is used"),
        ("?x a sea:Boat", "nothing is typed sea:Boat itself, but perhaps sea:Ferry: ask by a/rdfs:subClassOf*"),
        ("?x a sea:Ghost", "nothing is typed sea:Ghost"),
        ("?x a sea:Fery ; sea:callAt ?y", "sea:Fery is not in the ontology; near it: sea:Ferry"),
        ("?x a sea:Fery ; sea:callAt ?y", "sea:callAt is not in the ontology; near it: sea:callsAt"),
        ("?x a nope:Ferry", "the prefix of nope:Ferry is not known"),
    ],
)
def test_a_term_that_finds_nothing_is_told_with_what_to_ask(pattern: str, said: str) -> None:
    assert said in checks(f"ASK {{ {pattern} }}")
    assert "nothing is typed" not in checks("ASK { ?x a/rdfs:subClassOf* sea:Boat }")


def test_a_query_that_cannot_be_read_to_its_end_is_a_pitfall_as_far_as_it_can() -> None:
    item = pitfall('SELECT ?x {\n ?x a sea:Ferry ;\n sea:hasName "Gull Bay }', error_code="syntax")
    assert "a sea:Ferry" in item.content and "Gull" not in item.content


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT COUNT(?x) { ?x a sea:Ferry }", "?ferry a sea:Ferry"),
        ("SELECT ?x { ?x sea:hasName Berlin . ?x sea:callsAt ?y }", "?thing sea:callsAt ?callsAt"),
        ("SELECT ?x { OPTIONAL { ?x a sea:Ferry FILTER( } ?x sea:callsAt 'y' }", "sea:callsAt «text»"),
        ("SELECT ?x { ?x sea:hasName 'y' } ORDER ?x LIMIT", "sea:hasName «text»"),
        ("PREFIX sea <x> SELECT ?x { ?x sea:hasName 'y' }", "sea:hasName «text»"),
        ("SELECT ?x { SERVICE <http://x/> { ?x sea:hasName 'y' } }", "SERVICE «graph» { ?thing sea:hasName «text» }"),
    ],
)
def test_what_stands_behind_a_fault_is_in_the_pitfall_too(query: str, kept: str) -> None:
    assert kept in pitfall(query, error_code="syntax").content


def test_a_query_of_many_faults_is_read_in_no_time() -> None:
    began = time.process_time()
    pitfall("SELECT ?x { ?x a sea:Ferry . " + "?x sea:hasName . " * 1_000, error_code="syntax")
    assert time.process_time() - began < 1


def test_the_reason_is_told_without_the_data_of_the_query() -> None:
    query = 'SELECT ?x { ?x sea:hasName "Gull Bay"@en ; sea:callsAt isle:gannet ; sea:lengthM 30 }'
    item = pitfall(
        query, reason='no 30 m ferry "is" called GULL, isle:gannet isn\'t <https://sea.example/isle/x>\n`sea:hasName`'
    )
    words = item.content.split("\n\n")[0]
    assert words == (
        "What went wrong: its answer was wrong. no «…» m ferry «…» called «…», isle:«…» isn't «…» `sea:hasName`"
    )


# ---------------------------------------------------------------- the tools

LIGHTS = Path(__file__).parents[2] / "rbank_es" / "data" / "lights.ttl"
HEIGHT = 'SELECT ?metres { ?light a lt:Lighthouse ; lt:name "Cormorant Rock" ; lt:focalHeight ?metres }'
SUCCESS = {"success": True, "reason": "one height"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    from rbank_es.ontology.loader import load_ontology

    opened = open_source(load_ontology(LIGHTS, cache=tmp_path_factory.mktemp("cache")))
    yield opened
    opened.close()


@pytest.fixture
def box(bank: Bank, source: Source) -> Toolbox:
    return build_tools(bank, run=RUN, source=source)


def proposals(bank: Bank) -> list[MemoryProposed]:
    return [event for event in bank.events(resolve=True) if isinstance(event, MemoryProposed)]


def asked(box: Toolbox, query: str = HEIGHT) -> dict[str, Any]:
    result = box.call("sparql_query", {"query": query, "store_pattern": False})
    assert result["ok"], result
    return result


def test_patterns_that_differ_in_one_property_are_no_near_duplicates(source: Source) -> None:
    """Else the pattern of one property would be taken for that of another: what the ontology says tells them apart."""
    schema, prefixes = source.schema, source.surroundings.prefixes
    for query in (
        "SELECT ?v WHERE { ?l lt:name 'X' ; lt:%s ?v }",
        "SELECT ?l ?v WHERE { ?l a lt:Lighthouse ; lt:name 'X' ; lt:%s ?v }",
        "SELECT (COUNT(DISTINCT ?v) AS ?n) WHERE { ?l a/rdfs:subClassOf* lt:Light ; lt:%s ?v }",
    ):
        names = ("focalHeight", "towerHeight", "establishedIn", "date", "keptBy", "cause", "lensOrder", "fogSignal")
        items = [procedure(query % name, schema=schema, prefixes=prefixes) for name in names]
        assert [find_similar(item, [other]) for item in items for other in items if other != item] == [None] * 56


def test_a_result_is_taken_by_key_alias_or_handle(bank: Bank, box: Toolbox) -> None:
    result = asked(box)
    seen = {
        box.call("mem_extract", {"result": given, "task": "", "judgment": SUCCESS})["id"]
        for given in (result, result["key"], result["alias"], box.session.store.resolve(result))
    }
    assert len(seen) == 1 and len(proposals(bank)) == 1


def error_of(result: dict[str, Any]) -> tuple[str, str]:
    assert result["ok"] is False
    return result["error"]["code"], result["error"]["hint"]


def test_a_judgment_of_failure_points_to_the_other_tool(bank: Bank, box: Toolbox) -> None:
    arguments = {"result": asked(box), "task": "x", "judgment": {"success": False, "reason": "wrong"}}
    code, hint = error_of(box.call("mem_extract", arguments))
    assert code == "judged_a_failure" and "mem_learn_from_failure" in hint
    for judgment in ({}, {"success": "yes"}, {"success": True, "reason": 7}):
        assert error_of(box.call("mem_extract", {**arguments, "judgment": judgment}))[0] == "bad_arguments"
    assert proposals(bank) == []


def test_what_is_no_result_of_a_query_is_refused(bank: Bank, box: Toolbox) -> None:
    text = box.call("mem_extract", {"result": asked(box), "task": "", "judgment": SUCCESS, "auto_store": False})
    for given, code in ((text, "not_a_query"), ("results_9", "unknown_handle"), ({"rows": 1}, "unknown_handle")):
        assert error_of(box.call("mem_extract", {"result": given, "task": "", "judgment": SUCCESS}))[0] == code
        assert error_of(box.call("mem_learn_from_failure", {"result": given, "task": "", "error": "x"}))[0] == code


def test_an_empty_result_is_no_procedure_but_a_pitfall(bank: Bank, box: Toolbox) -> None:
    result = asked(box, HEIGHT.replace("Cormorant", "No such"))
    code, hint = error_of(box.call("mem_extract", {"result": result, "task": "", "judgment": SUCCESS}))
    assert code == "nothing_to_learn" and "mem_learn_from_failure" in hint
    done = box.call("mem_learn_from_failure", {"result": result, "task": "How high?", "error": "nothing came"})
    assert done["proposed"] and done["src"] == "failure" and done["title"].endswith("it found nothing")
    [event] = proposals(bank)
    assert event.head.polarity == "failure" and event.why.endswith("task How high?; because nothing came")


def test_a_query_that_was_refused_is_learned_from_by_its_text_and_its_error(bank: Bank, box: Toolbox) -> None:
    query = HEIGHT.replace("lt:focalHeight", "lt:focalHeigth")
    refused = box.call("sparql_query", {"query": query})
    assert refused["ok"] is False
    for error in (refused, refused["error"]):
        done = box.call("mem_learn_from_failure", {"result": query, "task": "How high?", "error": error})
        assert done["ok"] and done["title"].endswith("it names what the ontology doesn't have")
    [event] = proposals(bank)
    content = Item.join(event.head, event.candidate).content
    assert "lt:focalHeigth is not in the ontology; near it: lt:focalHeight" in content


def test_prose_is_no_query_to_learn_from(box: Toolbox) -> None:
    given = {"result": "it did not work at all", "task": "", "error": "x"}
    code, hint = error_of(box.call("mem_learn_from_failure", given))
    assert code == "nothing_to_learn" and "mem_add" in hint
