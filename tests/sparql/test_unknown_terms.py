"""Classes and properties that nobody knows, told before anything runs, with what was probably meant."""

from __future__ import annotations

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.guard import Surroundings, check
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import parse_leniently

EX = "http://ex/"
VOCABULARY = Vocabulary(
    (EX + name for name in ("Protein", "Gene", "ProteinFamily")),
    (EX + name for name in ("encodes", "encodedBy", "memberOf", "name")),
)
LOCAL = Surroundings(prefixes={"ex": EX}, vocabulary=VOCABULARY)
REMOTE = Surroundings(prefixes={"ex": EX}, vocabulary=VOCABULARY, remote=True)


def refusal(query: str, surroundings: Surroundings = LOCAL) -> QueryRefused:
    with pytest.raises(QueryRefused) as refused:
        check(query, surroundings, 10)
    assert refused.value.code == "unknown_term"
    return refused.value


def test_the_description_of_an_endpoint_knows_classes_with_instances_only() -> None:
    assert check("SELECT * { ?x rdfs:subClassOf ex:Proteins ; a/rdfs:subClassOf* ex:Sequence }", REMOTE, 10)
    assert "ex:Proteins" in refusal("SELECT * { ?x a ex:Proteins }", REMOTE).message


def test_all_unknown_terms_are_told_each_once_the_first_with_its_place() -> None:
    error = refusal("SELECT *\n{ ?x a ex:Proteine ; ex:encodez ?y . ?z ex:encodez ?y ; ex:nom ?n }")
    assert error.message == (
        "unknown: ex:Proteine (no class here), ex:encodez (no property here), ex:nom (no property here)"
    )
    assert error.hint.startswith("instead of ex:Proteine try ex:Protein or ex:ProteinFamily; ")
    assert "instead of ex:encodez try ex:encodes or ex:encodedBy" in error.hint
    assert (error.line, error.column) == (2, 8)


def test_a_term_of_the_other_kind_is_told_as_what_it_is() -> None:
    assert "?x a ex:Gene" in refusal("SELECT * { ?x ex:Gene ?y }").hint
    assert "?x ex:encodes ?y" in refusal("SELECT * { ?x a ex:encodes }").hint


def test_the_template_of_a_construct_may_name_anything() -> None:
    assert check("CONSTRUCT { ?x ex:mine ex:Mine ; a ex:Mine } WHERE { ?x ex:name ?y }", LOCAL, 10)
    refusal("CONSTRUCT WHERE { ?x ex:mine ?y }")


@pytest.mark.parametrize(("faults", "read"), [(20, True), (21, False)])
def test_behind_twenty_faults_the_rest_of_a_group_is_not_read(faults: int, read: bool) -> None:
    query = f"SELECT * {{ {'?x <http://ex/p> . ' * faults} ?y a <http://ex/Ferry> . }}"
    parsed = parse_leniently(query)
    assert parsed is not None
    assert any("Ferry" in str(triple.object) for triple in tree.triples(parsed.tree)) == read
