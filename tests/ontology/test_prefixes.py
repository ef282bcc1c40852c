"""Prefixes: IRIs to names and back, and which namespace gets which prefix."""

from __future__ import annotations

import pytest

from rbank_es.ontology.prefixes import Prefixes, choose_prefixes

UP, ZOO, GO = "http://purl.uniprot.org/core/", "http://example.org/zoo#", "http://purl.obolibrary.org/obo/GO_"


@pytest.fixture
def prefixes() -> Prefixes:
    return Prefixes({"zoo": ZOO, "up": UP, "go": GO, "obo": "http://purl.obolibrary.org/obo/"})


@pytest.mark.parametrize(
    ("iri", "name"),
    [
        (UP + "Protein", "up:Protein"),
        (ZOO + "has-part.1", "zoo:has-part.1"),
        (ZOO + "Größe", "zoo:Größe"),
        (GO + "0008150", "go:0008150"),
        ("http://purl.obolibrary.org/obo/CHEBI_1", "obo:CHEBI_1"),
        (ZOO, f"<{ZOO}>"),
        (ZOO + "ends.", f"<{ZOO}ends.>"),
        (ZOO + "a/b", f"<{ZOO}a/b>"),
        (ZOO + "50%", f"<{ZOO}50%>"),
        (ZOO + "²", f"<{ZOO}²>"),
        ("http://elsewhere.org/x", "<http://elsewhere.org/x>"),
        ("", "<>"),
    ],
)
def test_an_iri_is_shortened_where_the_rest_needs_no_escape(prefixes: Prefixes, iri: str, name: str) -> None:
    assert prefixes.shorten(iri) == name
    assert prefixes.expand(name) == iri


@pytest.mark.parametrize(
    ("name", "iri"),
    [
        ("rdfs:label", "http://www.w3.org/2000/01/rdf-schema#label"),
        (" up:Protein ", UP + "Protein"),
        ("http://example.org/x", "http://example.org/x"),
        ("urn:isbn:1", "urn:isbn:1"),
        ("nowhere:x", None),
        (":x", None),
        ("Protein", None),
        ("", None),
    ],
)
def test_names_are_expanded_with_the_well_known_prefixes_too(prefixes: Prefixes, name: str, iri: str | None) -> None:
    assert prefixes.expand(name) == iri


@pytest.mark.parametrize(
    ("namespace", "prefix"),
    [
        ("http://example.org/building/onto.owl#", "onto"),
        ("http://example.org/farm/0.1/", "farm"),
        ("https://www.example.org/", "example"),
        ("http://example.org/2024/#", "example"),
        ("urn:farm:", "farm"),
        ("https://schema.org/", "schema"),
        ("http://example.org/my_Zoo-1#", "myzoo1"),
        ("http://example.org/owl#", "owl2"),
        ("http://123/", "ns"),
    ],
)
def test_a_made_up_prefix_is_the_last_word_of_the_namespace(namespace: str, prefix: str) -> None:
    assert choose_prefixes([], {namespace: 1}, (), {namespace}) == {prefix: namespace}


def test_made_up_prefixes_differ() -> None:
    spaces = {f"http://example{number}.org/zoo#" for number in range(3)}
    assert sorted(choose_prefixes([], dict.fromkeys(spaces, 1), (), spaces)) == ["zoo", "zoo2", "zoo3"]
