"""What is made of triples: classes, properties, constraints, data, by each of the ways in which they are said."""

from __future__ import annotations

import pytest

from rbank_es.ontology.description import describe
from rbank_es.ontology.statements import Literal
from tests.ontology.graphs import PREFIXES, ZOO, classes, described, domains, properties, ranges, triples_of


def test_words_of_the_schema_languages_are_no_classes_of_an_ontology_that_only_uses_them() -> None:
    schema = described(
        "owl:Thing a owl:Class . :Cat a owl:Class ; rdfs:subClassOf owl:Thing . :a rdfs:range rdfs:Literal ."
    )
    assert classes(schema).keys() == {"Cat"}
    assert classes(schema)["Cat"].parents == ()


def test_domain_and_range_from_restrictions() -> None:
    found = properties(
        described("""
        :Cat rdfs:subClassOf [ owl:onProperty :eats ; owl:someValuesFrom :Fish ] .
        :Dog owl:equivalentClass [ owl:intersectionOf ( :Animal [ owl:onProperty :eats ; owl:allValuesFrom :Bone ] ) ] .
        :Cow owl:intersectionOf ( :Animal
            [ owl:onProperty :eats ; owl:minQualifiedCardinality 1 ; owl:onClass :Grass ] ) .
        :Stone rdfs:subClassOf [ owl:onProperty :eats ; owl:maxCardinality 0 ] .
        :Ant rdfs:subClassOf [ owl:onProperty [ owl:inverseOf :eats ] ; owl:someValuesFrom :Bear ] .
    """)
    )
    assert domains(found["eats"]) == {("Cat", "owl"), ("Dog", "owl"), ("Cow", "owl")}
    assert ranges(found["eats"]) == {("Fish", "owl"), ("Bone", "owl"), ("Grass", "owl")}


def test_domain_and_range_from_domain_includes() -> None:
    found = properties(described(":eats schema:domainIncludes :Cat, :Dog ; schema:rangeIncludes :Food ."))
    assert domains(found["eats"]) == {("Cat", "includes"), ("Dog", "includes")}
    assert ranges(found["eats"]) == {("Food", "includes")}


def test_domain_and_range_from_shapes() -> None:
    found = properties(
        described("""
        :CatShape a sh:NodeShape ; sh:targetClass :Cat ;
            sh:property [ sh:path :eats ; sh:class :Fish ], [ sh:path :name ; sh:datatype xsd:string ],
                [ sh:path :owner ; sh:or ( [ sh:class :Person ] [ sh:node :FirmShape ] ) ],
                [ sh:path [ sh:inversePath :feeds ] ; sh:class :Keeper ],
                [ sh:path :wings ; sh:maxCount 0 ],
                [ sh:path :old ; sh:class :Thing ; sh:deactivated true ] .
        :FirmShape a sh:NodeShape ; sh:targetClass :Firm ; sh:property [ sh:path :name ] .
        :Dog a rdfs:Class, sh:NodeShape ; sh:property [ sh:path :eats ; sh:class :Bone ] .
        [] sh:targetSubjectsOf :barks ; sh:class :Dog .
        [] sh:targetObjectsOf :barks ; sh:class :Stranger .
    """)
    )
    assert domains(found["eats"]) == {("Cat", "shacl"), ("Dog", "shacl")}
    assert ranges(found["eats"]) == {("Fish", "shacl"), ("Bone", "shacl")}
    assert domains(found["name"]) == {("Cat", "shacl"), ("Firm", "shacl")}
    assert ranges(found["name"]) == {("string", "shacl")}
    assert ranges(found["owner"]) == {("Person", "shacl"), ("Firm", "shacl")}
    assert (domains(found["barks"]), ranges(found["barks"])) == ({("Dog", "shacl")}, {("Stranger", "shacl")})
    assert "wings" not in found or domains(found["wings"]) == set()
    assert domains(found["old"]) == set(), "what is switched off holds for nothing"
    assert "feeds" not in found


def test_cardinalities_keep_the_stricter_of_two_and_count_all_values_only() -> None:
    schema = described("""
        :Cat rdfs:subClassOf [ owl:onProperty :leg ; owl:cardinality 4 ],
            [ owl:onProperty :eye ; owl:minCardinality 1 ], [ owl:onProperty :eye ; owl:minCardinality 2 ],
            [ owl:onProperty :eye ; owl:maxCardinality 3 ],
            [ owl:onProperty :paw ; owl:qualifiedCardinality 2 ; owl:onClass :FrontPaw ],
            [ owl:onProperty :tail ; owl:maxQualifiedCardinality 1 ; owl:onClass :Tail ],
            [ owl:onProperty :ear ; owl:maxCardinality "many" ] .
    """)
    found = {card.property.removeprefix(ZOO): (card.least, card.most) for card in schema.cardinalities}
    assert found == {"leg": (4, 4), "eye": (2, 3), "paw": (2, None)}


def test_disjoint_pairs_from_pairs_groups_and_unions_smaller_first() -> None:
    schema = described("""
        :Dog owl:disjointWith :Cat . :Cat owl:disjointWith :Dog . :Cat owl:disjointWith :Cat .
        [] a owl:AllDisjointClasses ; owl:members ( :Ant :Bee :Cat ) .
        :Animal owl:disjointUnionOf ( :Wild :Tame ) .
    """)
    pairs = [tuple(iri.removeprefix(ZOO) for iri in pair) for pair in schema.disjoint]
    assert pairs == [("Ant", "Bee"), ("Ant", "Cat"), ("Bee", "Cat"), ("Cat", "Dog"), ("Tame", "Wild")]


def notes_of(statements: str) -> tuple[str, ...]:
    """The notes of a class of which so much is said."""
    return classes(described(f":Cat a owl:Class ; {statements} ."))["Cat"].notes


def test_a_scope_note_is_the_comment_of_what_has_no_other_and_a_note_of_what_has() -> None:
    only = classes(described(':Cat a owl:Class ; skos:scopeNote "Tame ones." .'))["Cat"]
    assert (only.comment, only.notes) == ("Tame ones.", ())
    assert notes_of('skos:scopeNote "Tame ones." ; rdfs:comment "An animal."') == ("Tame ones.",)


def test_notes_of_an_ontologys_own_are_those_called_alike_and_subproperties() -> None:
    schema = described("""
        :Cat a owl:Class ; :editorialNote "Called alike." ; :hint "Below a note." ; :remark "Neither." .
        :hint rdfs:subPropertyOf skos:note .
        :purrs a owl:DatatypeProperty ; skos:note "Not lions." .
    """)
    assert classes(schema)["Cat"].notes == ("Called alike.", "Below a note.")
    assert properties(schema)["purrs"].notes == ("Not lions.",)


def test_definitions_and_changes_are_no_notes_though_skos_has_them_below_its_notes() -> None:
    below = "".join(f"skos:{name} rdfs:subPropertyOf skos:note . " for name in ("definition", "changeNote", "example"))
    said = 'skos:definition "An animal.", "A pet." ; skos:changeNote "Moved." ; skos:historyNote "Old."'
    schema = described(
        f':Cat a owl:Class ; {said} ; skos:example "Tom." ; rdfs:seeAlso <http://cats.example/> . {below}'
    )
    assert classes(schema)["Cat"].notes == ("Tom.",)


def test_the_empty_prefix_takes_the_name_that_the_ontology_prefers() -> None:
    preferring = described(""":Cat a owl:Class . <http://example.org/zoo#> vann:preferredNamespacePrefix "z" .""")
    assert preferring.prefixes["z"] == ZOO
    by_uri = described(f""":Cat a owl:Class .
        <http://example.org/> vann:preferredNamespacePrefix "zz" ; vann:preferredNamespaceUri "{ZOO}" .""")
    assert by_uri.prefixes["zz"] == ZOO
    assert described(":Cat a owl:Class .").prefixes["zoo"] == ZOO


@pytest.mark.parametrize("sign", ["\x07", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u2069"])
def test_signs_that_a_terminal_obeys_or_that_turn_text_round_are_no_part_of_labels_and_comments(sign: str) -> None:
    words = Literal(f"a{sign} lamp\u200d\tin\r\nthe{sign} hall")
    triples = [(ZOO + "Lamp", PREFIXES["rdfs"] + name, words) for name in ("label", "comment")]
    triples.append((ZOO + "Lamp", PREFIXES["skos"] + "note", Literal(f"Mind{sign} it.")))
    [lamp] = describe([*triples, *triples_of(":Lamp a owl:Class .")]).classes
    assert lamp.label == lamp.comment == "a lamp\u200d in the hall"
    assert lamp.notes == ("Mind it.",)
