"""Bare names: which words of a text mean a term of the old ontology, and which are only words."""

from __future__ import annotations

import time

import pytest

from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.ontology.written_terms import BareNames

OLD = Schema(
    classes=tuple(
        ClassInfo(iri=f"http://e.org/{name}", label=label)
        for name, label in (("Outage", "outage"), ("LightVessel", "Light vessel"), ("Light", "light"), ("Kept", "kept"))
    ),
    properties=tuple(
        PropertyInfo(iri=f"http://e.org/{name}", label=label)
        for name, label in (
            ("hasColour", "colour"), ("tower_height", "height of the tower"), ("weight", "weight"), ("covers", ""),
            ("lists", ""), ("path", ""), ("name", ""), ("moved", ""), ("stays", "stays"),
        )
    ),
)  # fmt: skip
NEW = Schema(
    classes=(ClassInfo(iri="http://e.org/Kept", label="kept"), ClassInfo(iri="http://e.org/Lamp", label="light")),
    properties=(PropertyInfo(iri="http://f.org/moved"), PropertyInfo(iri="http://e.org/stays", label="stays")),
)
NAMES = BareNames.of_changes(OLD, NEW)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ask for hasColour first.", ["hasColour"]),
        ("tower_height, in metres", ["tower_height"]),
        ("Never use hasColour; use `weight`.", ["hasColour", "weight"]),
        ("'Outage', \u201cLight vessel\u201d and \u00abweight\u00bb", ["Outage", "LightVessel", "weight"]),
        ("The property weight is in kilograms", ["weight"]),
        ("Sort by the property called weight.", ["weight"]),
        ("Ask for the property weight there", ["weight"]),
        ("the property covers of a light", ["covers"]),
        ("The weight property of a lamp", ["weight"]),
        ("Instances of the class Outage end", ["Outage"]),
        ("the outage class", ["Outage"]),
        ("of the class Light Vessel, count", ["LightVessel"]),
        ("of the class Light count", ["Light"]),
        ("the property height of the tower counts", ["tower_height"]),
        ('in "path" is a term', ["path"]),
        ("the property stays and `Kept` too", ["Kept", "stays"]),
    ],
)
def test_a_compound_a_quoted_word_and_a_word_beside_its_kind_name_a_term(text: str, names: list[str]) -> None:
    assert sorted(iri.rpartition("/")[2] for iri in NAMES.in_text(text)) == sorted(names)


@pytest.mark.parametrize(
    "text",
    [
        "An outage has a weight, and light covers it by name.",
        "f:hasColour, x:tower_height and http://f.org/hasColour are other terms",
        "hasColours, hascolour and my_tower_height",
        "Bind ?hasColour and $tower_height; row['weight'] and row.hasColour; hasColour(x); weight()",
        "in data/hasColour.csv and hasColour.csv",
        "A property covers all lights, and a class covers some",
        "properties weight what they list",
        "a query that lists properties by their property path and the class name",
        "the property outage is no class, the class weight no property",
        "of moved and 'moved' the namespace changed; 'light' is the label of another class",
        "SELECT ?x { ?x <http://f.org/a> 'Outage' ; a ?hasColour }",
        "a light's outage isn't its keeper's weight",
        "",
    ],
)
def test_other_words_are_only_words(text: str) -> None:
    assert NAMES.in_text(text) == {}


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["class ", "a-", "'", "property x", "SELECT ", "a_b.", "\u00e9 "])
def test_a_long_hostile_text_takes_time_in_proportion(piece: str) -> None:
    begun = time.process_time()
    NAMES.in_text(piece * (50_000 // len(piece)))
    assert time.process_time() - begun < 1
