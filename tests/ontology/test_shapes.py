"""Graphs of many shapes, a small one of each: true numbers on their cards, and first what a question needs."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest

from rbank_es.context.constraints import constraints
from rbank_es.context.ontology_card import sense_card
from rbank_es.ontology.loader import Ontology, load_ontology
from tests.context.schemas import line_of
from tests.laws.test_count_laws import differing

SHAPES = {path.stem: path for path in sorted((Path(__file__).parent / "shapes").iterdir())}


@pytest.fixture
def shape(request: pytest.FixtureRequest, tmp_path: Path) -> Ontology:
    return load_ontology(SHAPES[request.param], cache=tmp_path)


def card(ontology: Ontology) -> str:
    return sense_card(ontology.schema, ontology.prefixes, name=ontology.id).text


def shape_of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shape", [name], indirect=True)


@pytest.mark.parametrize("shape", SHAPES, indirect=True)
def test_every_number_is_what_sparql_counts(shape: Ontology) -> None:
    compared, wrong = differing(shape.schema, shape.quads)
    assert wrong == []
    assert compared > 20


@shape_of("dbpedia")
def test_a_foreign_taxonomy_comes_after_the_graphs_own_classes_and_is_no_step(shape: Ontology) -> None:
    text = card(shape)
    assert "Prefixes: dbo <" in text
    shown = line_of(text, "Classes (×instances): ").split(", ")
    assert shown[:4] == ["Place×3", "Town×3", "Person×8", "Scientist×8"]
    assert "yago:" not in line_of(text, "Properties: ")


@shape_of("punning")
def test_classes_without_instances_of_their_own_are_not_said_to_have_none(shape: Ontology) -> None:
    """A bird's class had none of its own, and was said to have none, beside an eagle and a hawk."""
    text = constraints(shape.schema, shape.prefixes).text
    assert "Only 5 of 6 classes have instances of their own: Species×2, Status×2, Eagle×1, …\n" in text
    assert line_of(text, "- Typed with subclasses").endswith("Bird 0+2")


@shape_of("odd_names")
def test_a_name_on_a_card_means_its_term_in_a_query(shape: Ontology, tmp_path: Path) -> None:
    """A name with characters that nobody sees was shown without them, and then named nothing."""
    shown = line_of(card(shape), "Classes (×instances): ")
    assert "<http://odd.example/Turned\\u202Egnp>×1" in shown
    assert "No\\u00A0Break>×1" in shown
    store = ox.Store()
    store.load(path=str(SHAPES["odd_names"]))
    for entry in shown.split(", "):
        name, count = entry.split("×")
        full = name if name.startswith("<") else f"<http://odd.example/{name}>"
        assert len(list(store.query(f"SELECT ?x {{ ?x a {full} }}"))) == int(count)  # type: ignore[arg-type]
