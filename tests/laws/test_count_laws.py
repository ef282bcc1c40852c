"""Every number of a description equals its SPARQL query over the same files, answered by pyoxigraph."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.ontology import rdf_names
from rbank_es.ontology.count_queries import count_queries
from rbank_es.ontology.description import describe
from rbank_es.ontology.rdf_reader import read_files
from rbank_es.ontology.schema_model import Schema
from rbank_es.ontology.source_files import find_files
from tests.effort import examples
from tests.laws.test_ontology_laws import BLANKS, META, NAMES, PREDICATES

DATA_TYPES = sorted(
    rdf_names.within(rdf_names.SH, "SPARQLExecutable SPARQLRule")
    | rdf_names.within(rdf_names.SKOS, "Concept Collection")
    | {rdf_names.FOAF + "Person", rdf_names.XSD + "integer", rdf_names.OWL + "Nothing"}
)
HEADERS = [rdf_names.SH, rdf_names.OWL.rstrip("#"), "http://example.org/zoo"]


def written(node: str) -> str:
    return node if node.startswith("_:") else f"<{node}>"


VALUES = (
    *('"1"', '"01"^^<{}integer>', '"1"^^<{}integer>', '"+1"^^<{}int>', '"1.0"^^<{}decimal>', '"1.00"^^<{}decimal>'),
    *('"true"^^<{}boolean>', '"1"^^<{}boolean>', '"2020-01-01T00:00:00Z"^^<{}dateTime>', '"x"^^<{}integer>'),
    *('"2020-01-01T00:00:00.0Z"^^<{}dateTime>', '"NaN"^^<{}double>', '"1e0"^^<{}double>', '"10e-1"^^<{}double>'),
    *('"a"@en', '"a"@EN', '"a"', '"a\\n"', '"P1Y"^^<{}duration>', '"P12M"^^<{}duration>'),
)
literals = st.sampled_from([value.format(rdf_names.XSD) for value in VALUES])
nodes = st.sampled_from([*NAMES, *NAMES, *BLANKS, *HEADERS]).map(written)
classes = st.sampled_from([*NAMES, *META, *DATA_TYPES, *BLANKS[:2]]).map(written)
typings = st.tuples(nodes, st.just(written(rdf_names.TYPE)), classes)
plain = st.tuples(
    nodes, st.sampled_from([*PREDICATES, *NAMES]).map(written), st.one_of(nodes, nodes, literals, classes)
)
hierarchies = st.tuples(nodes, st.just(written(rdf_names.SUBCLASS)), nodes)
lists = st.tuples(
    nodes, st.sampled_from(sorted({rdf_names.FIRST, rdf_names.REST, *rdf_names.LISTS_OF_CLASSES})).map(written), nodes
)
graph_names = st.sampled_from(["", "", "<http://example.org/g1>", "<http://example.org/g2>", "_:g"])
quads = st.tuples(st.one_of(typings, typings, plain, plain, hierarchies, lists), graph_names).map(
    lambda quad: f"{' '.join(quad[0])} {quad[1]} ."
)


def differing(schema: Schema, quads: Path) -> tuple[int, list[str]]:
    """How many numbers were compared, and those that a query answers otherwise."""
    apart, merged = ox.Store(), ox.Store()
    apart.bulk_load(path=str(quads), format=ox.RdfFormat.N_QUADS)
    merged.bulk_extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in apart)
    compared, wrong = 0, []
    for name, number, query in count_queries(schema):
        store = apart if name == "named graphs" else merged
        [[found]] = store.query(query)  # type: ignore[misc]
        compared += 1
        if int(found.value) != number:
            wrong.append(f"{name}: {number}, and SPARQL counts {found.value}")
    return compared, wrong


@given(st.lists(quads, min_size=1, max_size=40))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_number_is_what_sparql_counts(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    """Types of any vocabulary, several of them, named graphs, punning, circles, typed literals, lists."""
    place = tmp_path_factory.mktemp("graph")
    (place / "graph.nq").write_text("\n".join(lines))
    content = read_files(find_files([place / "graph.nq"]), place / "quads.nq")
    schema = describe(content.triples, content.declared, content.graphs)
    assert differing(schema, place / "quads.nq")[1] == []
