"""The shipped data: the ontology is what its companions say of it, and every query in them does what it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest
import rdflib
from rdflib import OWL, RDF, RDFS, URIRef

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.context.constraints import load_curated
from rbank_es.context.guide_summary import guide_summary
from rbank_es.data import LIGHTS, lights, shipped
from rbank_es.errors import BadInput
from rbank_es.exchange import import_paths
from rbank_es.ontology.loader import load_ontology
from rbank_es.tools.shared.toolbox import Toolbox, build_tools

NAMESPACE = "https://lights.example/ns#"
TASKS: list[dict[str, Any]] = json.loads(lights().tasks.read_text())["tasks"]
SEED: list[dict[str, Any]] = json.loads(lights().seed.read_text())
GUIDE = lights().guide.read_text()
GUIDE_QUERIES = re.findall(r"^```sparql\n(.*?)^```", GUIDE, re.M | re.S)
TERM = re.compile(r"(?<![\w:/<])(?:lt|l|k|area|hazard|mark):[\w-]+")

Rows = list[list[list[Any]]]


@pytest.fixture(scope="module")
def graph() -> rdflib.Graph:
    return rdflib.Graph().parse(lights().ontology)


@pytest.fixture(scope="module")
def store() -> pyoxigraph.Store:
    made = pyoxigraph.Store()
    made.load(path=str(lights().ontology), format=pyoxigraph.RdfFormat.TURTLE)
    return made


@pytest.fixture(scope="module")
def prefixes(graph: rdflib.Graph) -> dict[str, str]:
    return {prefix: str(namespace) for prefix, namespace in graph.namespaces()}


def cell(value: str, lang: str | None, datatype: str | None) -> list[Any]:
    if (datatype or "").endswith(("#integer", "#decimal")):
        return ["num", float(value)]
    return ["lit", value, lang or ""]


def by_rdflib(graph: rdflib.Graph, query: str) -> Rows:
    rows: Any = graph.query(query)
    cells = [
        [
            ["iri", str(term)] if isinstance(term, URIRef) else cell(str(term), term.language, term.datatype)
            for term in row
        ]
        for row in rows
    ]
    return sorted(cells, key=str)


def by_pyoxigraph(store: pyoxigraph.Store, query: str) -> Rows:
    rows: Any = store.query(query)
    cells = [
        [
            ["iri", term.value]
            if isinstance(term, pyoxigraph.NamedNode)
            else cell(term.value, term.language, term.datatype.value)
            for term in row
        ]
        for row in rows
    ]
    return sorted(cells, key=str)


def declared(prefixes: dict[str, str], query: str) -> str:
    """The query with the prefixes of the ontology in front of it."""
    return "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes.items()) + query


def terms(graph: rdflib.Graph) -> set[str]:
    """Everything in the graph that has a name, shortened."""
    named = {node for triple in graph for node in triple if isinstance(node, URIRef)}
    return {graph.namespace_manager.normalizeUri(node) for node in named}


# ---------------------------------------------------------------- the ontology


def test_it_is_a_few_hundred_triples(graph: rdflib.Graph):
    """Small enough to be read; its guide says how many there are."""
    assert 300 <= len(graph) <= 600
    assert f"{len(graph)} triples" in GUIDE


def test_every_class_and_property_says_what_it_is(graph: rdflib.Graph):
    """Each has a label and a definition."""
    kinds = (OWL.Class, OWL.ObjectProperty, OWL.DatatypeProperty, OWL.AnnotationProperty)
    named = {term for kind in kinds for term in graph.subjects(RDF.type, kind) if isinstance(term, URIRef)}
    assert len(named) > 30
    bare = [term for term in named if not (graph.value(term, RDFS.label, any=True) and graph.value(term, RDFS.comment))]
    assert bare == []


def test_every_term_that_is_used_is_declared(graph: rdflib.Graph):
    """No property and no class of the ontology is used without being declared."""
    own = {term for triple in graph for term in triple if isinstance(term, URIRef) and str(term).startswith(NAMESPACE)}
    assert {term for term in own if graph.value(term, RDF.type, any=True) is None} == set()


def test_both_engines_read_as_many_triples(graph: rdflib.Graph, store: pyoxigraph.Store):
    """Neither reader drops a statement, nor makes two of them one."""
    assert len(store) == len(graph)


@pytest.mark.parametrize(
    ("trap", "query"),
    [
        ("a declared inverse of which no triple is held", "ASK { lt:marks owl:inverseOf lt:markedBy }"),
        ("held on the one side", "ASK { ?x lt:marks ?y FILTER NOT EXISTS { ?z lt:markedBy ?w } }"),
        ("an inverse pair of which each side is held", "ASK { ?x lt:inArea ?y . ?z lt:covers ?w }"),
        ("and no statement twice", "ASK { FILTER NOT EXISTS { ?x lt:inArea ?y . ?y lt:covers ?x } }"),
        ("superclasses two levels up", "ASK { lt:Lighthouse rdfs:subClassOf/rdfs:subClassOf lt:SeaMark }"),
        (
            "nothing typed with a superclass",
            "ASK { FILTER NOT EXISTS { ?x a ?c . ?s rdfs:subClassOf ?c . ?c a owl:Class } }",
        ),
        ("a deprecated property in use", "ASK { ?p owl:deprecated true . ?x ?p ?y }"),
        ("whose unit is another", "ASK { lt:range lt:unit ?a . lt:nominalRange lt:unit ?b FILTER(?a != ?b) }"),
        ("a shortcut that names fewer", "ASK { ?w lt:ofLight ?l ; lt:keeper ?k MINUS { ?l lt:keptBy ?k } }"),
        (
            "and none that isn't so",
            "ASK { FILTER NOT EXISTS { ?l lt:keptBy ?k MINUS { ?w lt:ofLight ?l ; lt:keeper ?k } } }",
        ),
        ("a name that a light and a hazard share", "ASK { ?x lt:name ?n ; lt:marks ?y . ?y lt:name ?n }"),
        ("labels in two languages", 'ASK { area:south rdfs:label "South District"@en , "district sud"@fr }'),
        ("disjoint classes", "ASK { lt:Lighthouse owl:disjointWith lt:Lightship }"),
        ("that are disjoint", "ASK { FILTER NOT EXISTS { ?c owl:disjointWith ?d . ?x a ?c , ?d } }"),
        ("a functional property", "ASK { lt:ofLight a owl:FunctionalProperty }"),
        ("that has one value", "ASK { FILTER NOT EXISTS { ?x lt:ofLight ?y , ?z FILTER(?y != ?z) } }"),
        (
            "a cardinality in a restriction",
            "ASK { lt:Watch rdfs:subClassOf [ owl:onProperty lt:keeper ; owl:cardinality ?one ] FILTER(?one = 1) }",
        ),
        ("a shape", "ASK { lt:InspectionShape sh:targetClass lt:Inspection ; sh:property [ sh:path lt:date ] }"),
        ("a note", "ASK { lt:date skos:note ?note }"),
    ],
)
def test_it_has_the_traps_that_matter(graph: rdflib.Graph, prefixes: dict[str, str], trap: str, query: str):
    """Each trap that the guide warns of is really there."""
    assert graph.query(declared(prefixes, query)).askAnswer, trap


# ---------------------------------------------------------------- the tasks


def test_the_tasks_cover_all_levels():
    """Eight to twelve questions, each with an id of its own, from level 1 to level 5."""
    assert 8 <= len(TASKS) <= 12
    assert len({task["id"] for task in TASKS}) == len(TASKS)
    assert {task["level"] for task in TASKS} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_query_of_a_task_gives_its_answer_on_both_engines(
    task: dict[str, Any], graph: rdflib.Graph, store: pyoxigraph.Store
):
    """The gold query needs nothing but itself, and finds exactly the answer, which is not empty."""
    assert task["answer"]
    assert by_rdflib(graph, task["gold_sparql"]) == task["answer"]
    assert by_pyoxigraph(store, task["gold_sparql"]) == task["answer"]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_misleading_query_of_a_task_gives_another_answer(
    task: dict[str, Any], graph: rdflib.Graph, store: pyoxigraph.Store
):
    """The plausible query runs without an error on both engines, and is wrong."""
    answer = by_pyoxigraph(store, task["misleading_sparql"])
    assert answer == by_rdflib(graph, task["misleading_sparql"])
    assert answer != task["answer"]


@pytest.mark.parametrize(
    "task", [task for task in TASKS if "LIMIT 1" in task["gold_sparql"]], ids=lambda task: task["id"]
)
def test_no_tie_stands_at_a_limit(task: dict[str, Any], store: pyoxigraph.Store):
    """The row that is first is first alone: the next has another value."""
    query = task["gold_sparql"].replace("SELECT ?light", "SELECT ?light ?order").replace("LIMIT 1", "LIMIT 2")
    first, second = by_pyoxigraph(store, query)
    assert first[1] != second[1]


# ---------------------------------------------------------------- guide, constraints, seed


def test_the_numbers_of_the_guide_are_those_of_the_data(graph: rdflib.Graph, prefixes: dict[str, str]):
    """`9 lt:Lighthouse` means that nine things are typed so; the table's totals count subclasses too."""
    told = dict(re.findall(r"^\| `(lt:\w+)` \| (\d+) \|", GUIDE, re.M))
    assert len(told) >= 6
    told |= {name: number for number, name in re.findall(r"(\d+) `(lt:\w+)`", GUIDE)}
    told |= dict(zip(("lt:Watch", "lt:Outage", "lt:Inspection"), ("9", "8", "9"), strict=True))
    assert "`lt:Watch`, `lt:Outage`, `lt:Inspection` | 9, 8, 9" in GUIDE
    for name, number in told.items():
        query = f"SELECT (COUNT(DISTINCT ?x) AS ?n) WHERE {{ ?x a/rdfs:subClassOf* {name} }}"
        assert by_rdflib(graph, declared(prefixes, query)) == [[["num", float(number)]]], name


def texts() -> Iterator[tuple[str, str]]:
    yield "guide", GUIDE
    for number, line in enumerate(load_curated(lights().constraints), 1):
        yield f"constraint {number}", " ".join((line.text, *line.terms))
    for item in SEED:
        yield item["title"], f"{item['title']} {item['content']}"
    for task in TASKS:
        yield task["id"], task["trap"]


@pytest.mark.parametrize(("place", "text"), list(texts()), ids=lambda value: value[:20])
def test_no_text_names_a_term_that_is_not_there(place: str, text: str, graph: rdflib.Graph):
    """A guide that invents a property is worse than none."""
    assert {term for term in TERM.findall(text)} - terms(graph) == set(), place


def test_the_summary_of_the_guide_is_what_a_run_sees():
    """Its summary fits into the budget of its layer whole, and even the lean one says what the graph is about."""
    summary = " ".join(GUIDE.split("## Summary")[1].split("## ")[0].split())
    assert summary[-60:] in guide_summary(GUIDE).text
    assert "invented coast" in guide_summary(GUIDE, limits.CONTEXT_LEAN_L3_CHARS).text


def test_the_constraints_have_each_kind_and_fit_their_layer():
    """Constraints, anti-patterns and rubrics; the most urgent of each fit into the lean budget together."""
    lines = load_curated(lights().constraints)
    assert {line.kind for line in lines} == {"constraint", "anti_pattern", "rubric"}
    first = {line.kind: line.text for line in reversed(lines)}
    assert sum(map(len, first.values())) < limits.CONTEXT_LEAN_L1_CHARS


def test_the_seed_has_items_of_both_polarities_some_of_them_for_this_ontology(tmp_path: Path):
    """Every item comes into a bank as it is, none is taken for a duplicate of another, and each fits whole."""
    assert {item["polarity"] for item in SEED} == {"success", "failure"}
    assert {item.get("domain") for item in SEED} == {None, LIGHTS}
    assert all(len(item["title"]) + len(item["content"]) <= limits.CONTEXT_L2_ITEM_CHARS - 40 for item in SEED)
    with Bank.create(tmp_path / "bank") as bank:
        import_paths(bank, [lights().seed])
        assert len(SEED) >= 10
        assert len(bank.state().items) == len(SEED)


def test_a_path_is_given_only_to_what_ships():
    """A name that isn't there, or that leads out of the folder, is refused."""
    assert shipped("lights.ttl") == lights().ontology
    for name in ("darks.ttl", "../errors.py", "endpoints", ""):
        with pytest.raises(BadInput, match="comes with rbank-es"):
            shipped(name)


# ---------------------------------------------------------------- as an agent would ask


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    folder = tmp_path_factory.mktemp("data")
    ontology = load_ontology(lights().ontology, cache=folder / "cache")
    with Bank.create(folder / "bank") as bank, build_tools(bank, run="run-1", source=ontology) as box:
        yield box


def plain(cell: list[Any]) -> Any:
    """What `sparql_slice` shows of a cell of an answer."""
    return int(cell[1]) if cell[0] == "num" and cell[1] == int(cell[1]) else cell[1]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_tools_give_the_answer_of_a_task(task: dict[str, Any], toolbox: Toolbox):
    """The gold query through `sparql_query` and `sparql_slice`: the same rows, as plain values."""
    handle = toolbox.call("sparql_query", {"query": task["gold_sparql"]})
    assert handle["ok"] and handle["rows"] == len(task["answer"])
    rows = toolbox.call("sparql_slice", {"result": handle})["rows"]
    assert sorted(list(row.values()) for row in rows) == sorted([plain(cell) for cell in row] for row in task["answer"])


@pytest.mark.parametrize("query", GUIDE_QUERIES, ids=lambda query: query[:40])
def test_every_query_of_the_guide_passes_the_guard_as_it_stands(query: str, toolbox: Toolbox):
    """No PREFIX is needed, no term is unknown, and rows come back."""
    handle = toolbox.call("sparql_query", {"query": query})
    assert handle["ok"] and handle["rows"] > 0
    assert {warning["code"] for warning in handle.get("warnings", ())} <= {"order_without_limit"}
