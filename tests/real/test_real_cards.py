"""Cards and constraints of real ontologies: what an agent must find there, by name, within the budgets."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.context.assembly import build_context
from rbank_es.context.constraints import constraints
from rbank_es.context.ontology_card import sense_card
from rbank_es.ontology.loader import Ontology, load_ontology
from rbank_es.ontology.prefixes import Prefixes
from rbank_es.ontology.schema_model import Schema
from rbank_es.ontology.void import load_void

pytestmark = pytest.mark.real

FILES = {
    "prov": ("prov-o.ttl",),
    "prov_data": ("prov-o.ttl", "prov_examples.ttl"),
    "brick": ("brick-1.4.ttl",),
    "soda": ("brick-1.4.ttl", "brick_soda.ttl"),
    "uniprot": ("uniprot_core.ttl",),
    "uniprot_sample": ("uniprot_sample",),
    "skos": ("skos.ttl",),
}
ENDPOINT = "endpoint"

Describe = Callable[[str], tuple[Schema, Prefixes]]


@pytest.fixture(scope="module")
def load(ontologies: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ontology]:
    cache = tmp_path_factory.mktemp("cache")
    return lambda name: load_ontology([ontologies / file for file in FILES[name]], id=name, cache=cache)


@pytest.fixture(scope="module")
def describe(ontologies: Path, load: Callable[[str], Ontology]) -> Describe:
    def described(name: str) -> tuple[Schema, Prefixes]:
        if name == ENDPOINT:
            schema = load_void(ontologies / "void_uniprot.ttl")
            return schema, Prefixes(schema.prefixes)
        ontology = load(name)
        return ontology.schema, ontology.prefixes

    return described


def names_in(text: str) -> list[str]:
    """The names on a card, in order."""
    return re.findall(r"[A-Za-z_]+:[A-Za-z_]\w*|[A-Za-z_]\w*", text)


def line_of(text: str, title: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(title)), "")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FILES, ENDPOINT])
@pytest.mark.parametrize("budget", [0, 60, 200, 600, 3_000])
def test_every_card_and_every_list_of_constraints_fits_and_ends_on_a_whole_entry(
    describe: Describe, name: str, budget: int
) -> None:
    schema, prefixes = describe(name)
    for pack in (sense_card, constraints):
        packed = pack(schema, prefixes, budget_chars=budget)
        assert len(packed.text) <= budget
        assert packed.truncated == bool(packed.cut)
        whole = pack(schema, prefixes, budget_chars=1_000_000).text
        known = set(names_in(whole))
        assert set(names_in(packed.text)) <= known, "no name is cut in two"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "prefix", "classes"),
    [
        ("prov", "prov", "Entity Activity Agent"),
        ("prov_data", "prov", "Entity×18 Activity×8 Agent×4"),
        ("soda", "brick", "VAV×243 Room×243 AHU×5 HVAC_Zone×243 Floor×7"),
        ("brick", "brick", "Equipment Point rec:Asset rec:Architecture"),
        ("uniprot", "up", "Protein Annotation Taxon Sequence Citation"),
        ("uniprot_sample", "up", "Protein×5 Taxon×36 Sequence×115 Journal_Citation×54"),
        ("skos", "skos", "Concept ConceptScheme Collection OrderedCollection"),
        (ENDPOINT, "up", "Protein×442M Sequence×464M Cluster×703M"),
    ],
)
def test_a_card_names_the_classes_that_matter_there(describe: Describe, name: str, prefix: str, classes: str) -> None:
    schema, prefixes = describe(name)
    text = sense_card(schema, prefixes).text
    assert line_of(text, "Prefixes: ").startswith(f"Prefixes: {prefix} <")
    shown = set(line_of(text, "Classes").partition(": ")[2].partition(" …")[0].split(", "))
    assert set(classes.split()) <= shown


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("prov", ["wasGeneratedBy (Entity→Activity)", "used (Activity→Entity)", "wasDerivedFrom (Entity→Entity)"]),
        ("prov_data", ["used (Activity→Entity)", "wasGeneratedBy (Entity→Activity)", "wasDerivedFrom (Entity→Entity)"]),
        (
            "soda",
            [
                "hasPoint (",
                "feeds (VAV→HVAC_Zone, AHU→VAV)",
                "isPartOf (Room→Floor, Floor→Building, …)",
                "hasPart (HVAC_Zone→Room)",
            ],
        ),
        ("uniprot", ["annotation (Protein→Annotation)"]),
        ("uniprot_sample", ["annotation (Protein→Annotation)", "memberOf (Sequence→Cluster, …)"]),
        ("skos", ["broader", "hasTopConcept (ConceptScheme→Concept)"]),
    ],
)
def test_a_card_names_the_properties_that_matter_there(describe: Describe, name: str, steps: list[str]) -> None:
    schema, prefixes = describe(name)
    told = line_of(sense_card(schema, prefixes).text, "Properties: ")
    assert [step for step in steps if step not in told] == []


@pytest.mark.parametrize("name", ["prov", "prov_data"])
def test_in_prov_generation_and_usage_come_before_location_and_no_annotation_is_named(
    describe: Describe, name: str
) -> None:
    schema, prefixes = describe(name)
    everything = names_in(line_of(sense_card(schema, prefixes, 20_000).text, "Properties: "))
    for better in ("wasGeneratedBy", "used"):
        assert everything.index(better) < everything.index("atLocation")
        assert everything.index(better) < everything.index("qualifiedInfluence")
    assert not {"category", "component", "dm", "editorialNote"} & set(everything)


@pytest.mark.parametrize(
    ("name", "where", "named"),
    [
        ("prov", "Definitions: ", "definition"),
        ("uniprot", "Labels: ", "rdfs:label"),
        ("soda", "Definitions: ", "skos:definition"),
    ],
)
def test_a_card_says_where_names_and_definitions_stand(describe: Describe, name: str, where: str, named: str) -> None:
    schema, prefixes = describe(name)
    assert named in line_of(sense_card(schema, prefixes).text, where)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "soda",
            [
                "isPartOf Room→Floor, Floor→Building, but hasPart HVAC_Zone→Room",
                "hasPoint not isPointOf, feeds not isFedBy",
                "Point 0+921",
                "Deprecated, yet in use here: Room",
            ],
        ),
        (
            "prov",
            [
                "Schema only, no class has instances",
                "wasGeneratedBy (Entity→Activity)",
                "wasGeneratedBy/generated",
                "Disjoint: Entity/Activity",
                "Entity/entity, Activity/activity",
            ],
        ),
        ("prov_data", ["wasGeneratedBy not generated", "InstantaneousEvent 0+5"]),
        (
            "uniprot",
            [
                "Only 6 of 175 classes have instances of their own: Rank×13",
                "annotation (Protein→Annotation)",
                "Protein/Sequence",
                "avoid: ",
            ],
        ),
        ("uniprot_sample", ["Annotation 2+243", "Citation 0+55"]),
        ("skos", ["broader/narrower", "Concept/ConceptScheme", "Transitive (ask p+): broaderTransitive"]),
        (ENDPOINT, ["memberOf", "annotation (Protein→", "Annotation/annotation"]),
    ],
)
def test_constraints_warn_of_the_traps_that_are_there(describe: Describe, name: str, lines: list[str]) -> None:
    schema, prefixes = describe(name)
    text = constraints(schema, prefixes).text
    assert [line for line in lines if line not in text] == []


@pytest.mark.slow
def test_constraints_come_from_shacl_where_there_is_little_else(describe: Describe) -> None:
    """Brick states two domains in RDFS, and the others in shapes."""
    schema, prefixes = describe("brick")
    told = line_of(constraints(schema, prefixes).text, "- Domain→range: ")
    assert "feeds (Equipment→Equipment|rec:Space)" in told


@pytest.mark.parametrize(
    ("name", "task", "terms"),
    [
        ("soda", "How many rooms does each floor have?", ["Room×243", "Floor×7", "isPartOf"]),
        ("soda", "How many VAV boxes does each AHU feed?", ["VAV×243", "AHU×5", "feeds"]),
        ("prov", "What is the direct superclass of prov:SoftwareAgent?", ["SoftwareAgent"]),
        (
            "uniprot",
            "Give the scientific name of the organism of every protein.",
            ["scientificName", "organism", "Protein"],
        ),
        (
            "uniprot_sample",
            "Which diseases are linked to which proteins through a disease annotation?",
            ["Disease_Annotation"],
        ),
    ],
)
def test_a_slice_for_a_task_names_the_terms_that_its_query_needs(
    describe: Describe, name: str, task: str, terms: list[str]
) -> None:
    schema, prefixes = describe(name)
    text = sense_card(schema, prefixes, task=task).text
    assert [term for term in terms if term not in text] == []


@pytest.mark.slow
def test_no_context_of_a_real_ontology_raises_the_red_flag(load: Callable[[str], Ontology]) -> None:
    for name in FILES:
        context = build_context(
            "What is there?", source=load(name), guide="# Guide\n" + "A sentence that says little. " * 200
        )
        assert len(context.text) <= limits.FLAG_CONTEXT_CHARS


def test_the_order_of_triples_changes_no_byte(load: Callable[[str], Ontology], tmp_path: Path) -> None:
    lines = load("prov_data").quads.read_text(encoding="utf-8").splitlines(keepends=True)
    texts = set()
    for number, ordered in enumerate((sorted(lines), sorted(lines, reverse=True))):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "prov.nq").write_text("".join(ordered), encoding="utf-8")
        loaded = load_ontology(tmp_path / f"{number}" / "prov.nq", cache=tmp_path)
        texts.add(build_context("Who used what?", source=loaded, task_slice=True).text)
    assert len(texts) == 1
