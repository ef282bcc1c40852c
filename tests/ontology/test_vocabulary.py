"""Vocabularies: what a query may name, and what comes nearest to a name that is none."""

from __future__ import annotations

import pytest

from rbank_es.ontology.vocabulary import Vocabulary
from tests.ontology.graphs import PREFIXES, ZOO, described

RDF, RDFS, OWL, SKOS, SH = (PREFIXES[name] for name in ("rdf", "rdfs", "owl", "skos", "sh"))
FARM = "http://example.org/farm#"


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.from_schema(
        described("""
        :Cat a owl:Class . :House_Cat rdfs:subClassOf :Cat . :AHU a owl:Class ; rdfs:label "Air Handling Unit" .
        :tom a :Tomcat ; :sleepsIn :box . :hasPart a owl:ObjectProperty . :isPartOf a owl:ObjectProperty .
        <http://example.org/farm#hasPart> a owl:ObjectProperty . :Zone a owl:Class .
        :Air_Temperature_Sensor a owl:Class .
    """)
    )


def test_open_vocabularies_are_known_unless_the_ontology_is_one_of_them(vocabulary: Vocabulary) -> None:
    terms = (SH + "anything", PREFIXES["dcterms"] + "title", PREFIXES["xsd"] + "integer")
    assert all(vocabulary.knows_property(term) and vocabulary.knows_class(term) for term in terms)
    shacl = Vocabulary({SH + "NodeShape"}, {SH + "path"})
    assert shacl.knows_property(SH + "path")
    assert not shacl.knows_property(SH + "anything")


def test_of_equals_the_same_namespace_comes_first(vocabulary: Vocabulary) -> None:
    assert vocabulary.nearest(ZOO + "has_part", "property", 2) == (ZOO + "hasPart", FARM + "hasPart")
    assert vocabulary.nearest(FARM + "has_part", "property", 2) == (FARM + "hasPart", ZOO + "hasPart")
    assert vocabulary.nearest("http://elsewhere.org/HasPart", "property", 2) == (FARM + "hasPart", ZOO + "hasPart")


def test_closed_vocabularies_have_their_terms_and_no_others(vocabulary: Vocabulary) -> None:
    known = (RDFS + "subClassOf", RDF + "type", OWL + "sameAs", SKOS + "prefLabel", RDF + "_12")
    assert all(map(vocabulary.knows_property, known))
    assert all(map(vocabulary.knows_class, (OWL + "Class", SKOS + "Concept", RDF + "Property")))
    mistakes = (RDFS + "subclassOf", OWL + "Class", SKOS + "preferredLabel", RDF + "_", RDF + "_x")
    assert not any(map(vocabulary.knows_property, mistakes))
