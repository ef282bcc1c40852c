"""VoID: the schema of an endpoint from what its maintainers counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.errors import BadOntology
from rbank_es.ontology.schema_model import Schema
from rbank_es.ontology.void import load_void
from tests.ontology.graphs import HEAD, properties

VOID = (
    HEAD
    + """
PREFIX void: <http://rdfs.org/ns/void#>
PREFIX ext: <http://ldf.fi/void-ext#>
PREFIX sd: <http://www.w3.org/ns/sparql-service-description#>
[] a sd:Service ; sd:defaultDataset :all .
:all a sd:Dataset ; dcterms:title "Zoos of the world" ; void:triples 1000 ;
    sd:namedGraph [ sd:name :g1 ; sd:graph :one ], [ sd:name :g2 ; sd:graph :two ] .
:one void:triples 700 ; void:classPartition :one-cat, :one-mouse, :one-empty ;
    void:propertyPartition [ void:property :chases ; void:triples 90 ], [ void:property :age ; void:triples 50 ] .
:one-cat void:class :Cat ; void:entities 40 ;
    void:propertyPartition [ void:property :chases ; void:triples 80 ;
            void:classPartition [ void:class :Mouse ; void:triples 70 ] ],
        [ void:property :age ; void:triples 40 ; ext:datatypePartition [ ext:datatype xsd:integer ] ],
        [ void:property :purrs ; void:triples 30 ] .
:one-mouse void:class :Mouse ; void:entities 60 .
:one-empty void:class :Unicorn .
:two void:classPartition :two-cat ; void:propertyPartition [ void:property :chases ; void:triples 5 ] .
:two-cat void:class :Cat ; void:entities "2"^^xsd:long .
[] a void:Linkset ; void:linkPredicate :fears ; void:subjectsTarget :one-mouse ; void:objectsTarget :one-cat .
"""
)


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    (tmp_path / "void.ttl").write_text(VOID)
    return load_void(tmp_path / "void.ttl")


def test_property_partitions_give_properties_with_their_triples(schema: Schema) -> None:
    """Those of whole graphs; those of classes may overlap, so they give no sum."""
    found = {name: info.triples for name, info in properties(schema).items()}
    assert found == {"chases": 95, "age": 50, "purrs": None, "fears": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [(":tom a :Cat .", "no class and no property in VoID"), ("", "holds no triple"), (":tom a", "Turtle")],
)
def test_what_describes_nothing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "void.ttl").write_text(HEAD + text)
    with pytest.raises(BadOntology, match=said):
        load_void(tmp_path / "void.ttl")
