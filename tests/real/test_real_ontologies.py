"""Real ontologies: all load, two parsers agree on what they say, and what must be found in each is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyoxigraph
import pytest
import rdflib

from rbank_es.ontology.description import describe
from rbank_es.ontology.loader import Ontology, load_ontology
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.ontology.void import load_void
from tests.ontology.graphs import triples_of_rdflib

pytestmark = pytest.mark.real

SETS = {
    "prov": ("prov-o.ttl",),
    "prov with examples": ("prov-o.ttl", "prov_examples.ttl"),
    "skos": ("skos.ttl",),
    "uniprot": ("uniprot_core.ttl",),
    "uniprot entries": ("uniprot_sample",),
    "brick": ("brick-1.4.ttl",),
    "brick building": ("brick-1.4.ttl", "brick_soda.ttl"),
    "void": ("void_uniprot.ttl",),
}
TRIPLES = {
    "prov": 1_146,
    "prov with examples": 1_263,
    "skos": 252,
    "uniprot": 2_816,
    "uniprot entries": 11_640,
    "brick": 60_604,
    "brick building": 64_378,
    "void": 14_594,
}
PROV, UP = WELL_KNOWN["prov"], WELL_KNOWN["up"]
BRICK = WELL_KNOWN["brick"]


Load = Callable[[str], Ontology]


@pytest.fixture(scope="module")
def load(ontologies: Path, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Loads each set once."""
    place = tmp_path_factory.mktemp("cache")

    @cache
    def load_set(name: str) -> Ontology:
        return load_ontology([ontologies / file for file in SETS[name]], cache=place)

    return load_set


def classes(ontology: Ontology) -> dict[str, ClassInfo]:
    return {found.iri: found for found in ontology.schema.classes}


def properties(ontology: Ontology) -> dict[str, PropertyInfo]:
    return {found.iri: found for found in ontology.schema.properties}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_every_ontology_loads_and_its_graph_holds_every_triple(name: str, load: Load) -> None:
    ontology = load(name)
    assert ontology.schema.triples == TRIPLES[name]
    store = pyoxigraph.Store()
    store.bulk_load(path=ontology.quads, format=pyoxigraph.RdfFormat.N_QUADS)
    assert len(store) == TRIPLES[name]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("brick")) for name in SETS]
)
def test_what_rdflib_parses_is_described_the_same(name: str, load: Load, ontologies: Path) -> None:
    """The whole schema, from graphs that share nothing with ours."""
    triples, declared = [], []
    for file in load(name).files:
        graph = rdflib.Graph(bind_namespaces="none")
        graph.parse(file.path, format="turtle", publicID=f"file:///{file.sha256[:12]}")
        triples += triples_of_rdflib(graph)
        # rdflib gives each namespace one prefix only: those of the file itself are read from it.
        declared += list(pyoxigraph_prefixes(file.path).items())
    assert describe(triples, declared) == load(name).schema


def pyoxigraph_prefixes(path: Path) -> dict[str, str]:
    parser = pyoxigraph.parse(path=path, format=pyoxigraph.RdfFormat.TURTLE, base_iri="file:///x")
    for _ in parser:
        pass
    return parser.prefixes


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_every_name_leads_back_and_every_term_is_known(name: str, load: Load) -> None:
    ontology = load(name)
    vocabulary = Vocabulary.from_schema(ontology.schema)
    for found in (*ontology.schema.classes, *ontology.schema.properties):
        assert ontology.prefixes.expand(ontology.prefixes.shorten(found.iri)) == found.iri
    assert all(vocabulary.knows_class(found.iri) for found in ontology.schema.classes)
    assert all(vocabulary.knows_property(found.iri) for found in ontology.schema.properties)


@pytest.mark.slow
def test_the_second_time_all_come_from_the_cache(load: Load, ontologies: Path) -> None:
    for name, files in SETS.items():
        first = load(name)
        again = load_ontology([ontologies / file for file in files], cache=first.quads.parents[2])
        assert (again.cached, again.schema) == (True, first.schema)


def test_prov_is_called_prov_and_has_its_classes_properties_and_disjointness(load: Load) -> None:
    ontology = load("prov")
    assert ontology.prefixes["prov"] == PROV
    assert (len(ontology.schema.classes), ontology.schema.individuals) == (30, 1)
    by_degree = sorted(ontology.schema.classes, key=lambda found: -found.degree)
    assert [found.iri.removeprefix(PROV) for found in by_degree[:3]] == ["Entity", "Activity", "Agent"]
    found = properties(ontology)
    used = found[PROV + "used"]
    assert [(bound.iri, bound.source) for bound in (*used.domains, *used.ranges)] == [
        (PROV + "Activity", "rdfs"),
        (PROV + "Entity", "rdfs"),
    ]
    at_location = found[PROV + "atLocation"]
    assert {bound.iri.removeprefix(PROV): bound.source for bound in at_location.domains} == dict.fromkeys(
        ("Activity", "Agent", "Entity", "InstantaneousEvent"), "owl"
    )
    assert found[PROV + "category"].kind == "annotation"
    assert found[PROV + "wasGeneratedBy"].inverses == (PROV + "generated",)
    assert (PROV + "Activity", PROV + "Entity") in ontology.schema.disjoint
    [card] = ontology.schema.cardinalities
    assert (card.cls, card.property, card.least, card.most) == (
        PROV + "ActivityInfluence",
        PROV + "hadActivity",
        None,
        0,
    )


def test_prov_examples_bring_instances(load: Load) -> None:
    found = classes(load("prov with examples"))
    assert [found[PROV + name].instances for name in ("Entity", "Activity", "Agent")] == [18, 8, 4]
    assert properties(load("prov with examples"))[PROV + "used"].triples == 6


def test_uniprot_prefers_up_and_its_ranks_belong_to_the_vocabulary(load: Load) -> None:
    ontology = load("uniprot")
    assert ontology.prefixes["up"] == UP
    assert "core" not in ontology.prefixes
    found = classes(ontology)
    assert (found[UP + "Rank"].instances, found[UP + "Rank"].listed) == (13, 13)
    assert sum(info.declared for info in found.values()) == 171
    assert max(found.values(), key=lambda info: info.degree).iri == UP + "Protein"
    assert ontology.schema.title == "UniProt RDF schema ontology"
    assert sum(info.deprecated for info in found.values()) > 0


def test_uniprot_taxa_are_instances_although_they_form_a_hierarchy(load: Load) -> None:
    found = classes(load("uniprot entries"))
    assert (found[UP + "Taxon"].instances, found[UP + "Protein"].instances) == (36, 5)
    assert "http://purl.uniprot.org/taxonomy/9606" not in found


@pytest.mark.slow
def test_brick_is_known_by_its_shapes(load: Load) -> None:
    """Two rdfs:domain are all that it has beside them."""
    ontology = load("brick")
    assert ontology.schema.formalisms == ("RDFS", "OWL", "SKOS", "SHACL")
    assert ontology.schema.shapes >= 1_753
    sources = [bound.source for found in ontology.schema.properties for bound in found.domains]
    assert sources.count("shacl") > 200 > 10 > sources.count("rdfs")
    assert any(card.source == "shacl" and card.most == 1 for card in ontology.schema.cardinalities)
    has_point = properties(ontology)[BRICK + "hasPoint"]
    assert {bound.iri for bound in has_point.domains} == {BRICK + "Equipment", BRICK + "Location"}
    assert {bound.iri for bound in has_point.ranges} == {BRICK + "Point"}
    assert has_point.inverses == (BRICK + "isPointOf",)
    tag = classes(ontology)[BRICK + "Tag"]
    assert (tag.instances, tag.listed) == (533, 533)


@pytest.mark.slow
def test_the_brick_building_has_its_rooms_and_machines(load: Load) -> None:
    ontology = load("brick building")
    found = classes(ontology)
    counts = {name: found[BRICK + name].instances for name in ("VAV", "Room", "HVAC_Zone", "AHU", "Floor", "Tag")}
    assert counts == {"VAV": 243, "Room": 243, "HVAC_Zone": 243, "AHU": 5, "Floor": 7, "Tag": 533}
    used = sorted(ontology.schema.properties, key=lambda info: info.listed - (info.triples or 0))
    names = [info.iri.removeprefix(BRICK) for info in used if info.iri.startswith(BRICK)][:4]
    assert names == ["hasPoint", "feeds", "isPartOf", "hasPart"]
    links = {(link.subject.removeprefix(BRICK), link.object.removeprefix(BRICK)) for link in ontology.schema.links}
    assert ("AHU", "VAV") in links
    assert found[BRICK + "AHU"].label == "AHU"


def test_names_that_people_get_wrong_lead_to_the_right_brick_classes(load: Load) -> None:
    vocabulary = Vocabulary.from_schema(load("brick building").schema)
    wanted = {
        "ahu": "AHU",
        "AirHandlingUnit": "Air_Handling_Unit",
        "Zone_Temperature_Sensor": "Zone_Air_Temperature_Sensor",
        "Rooms": "Room",
    }
    assert {name: vocabulary.nearest(BRICK + name, "class")[0] for name in wanted} == {
        name: BRICK + right for name, right in wanted.items()
    }
    assert vocabulary.nearest(BRICK + "has_point", "property")[0] == BRICK + "hasPoint"


def test_the_void_description_gives_the_schema_of_the_endpoint(ontologies: Path) -> None:
    schema = load_void(ontologies / "void_uniprot.ttl")
    assert (len(schema.classes), len(schema.properties), len(schema.graphs)) == (173, 335, 21)
    assert schema.title == "UniProt"
    assert schema.prefixes["up"] == UP
    protein = next(found for found in schema.classes if found.iri == UP + "Protein")
    assert protein.instances == 254_254_986 + 187_280_873
    encoded_by = next(found for found in schema.properties if found.iri == UP + "encodedBy")
    assert UP + "Protein" in {bound.iri for bound in encoded_by.domains}
    assert UP + "Gene" in {bound.iri for bound in encoded_by.ranges}
    assert {bound.source for found in schema.properties for bound in (*found.domains, *found.ranges)} == {"void"}
