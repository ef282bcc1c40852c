"""Changes between two versions of an ontology: terms that are gone, renamed, or have other domains and ranges."""

from __future__ import annotations

from pathlib import Path

from rbank_es.ontology.loader import load_ontology
from rbank_es.ontology.schema_changes import TermChange, gone_from, schema_changes
from rbank_es.ontology.schema_model import Schema

HEAD = """
@prefix e: <http://e.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
"""
OLD = """
e:Lamp a owl:Class ; rdfs:label "Lamp" .
e:Mast a owl:Class ; rdfs:label "Mast" .
e:Pole a owl:Class .
e:height a owl:DatatypeProperty ; rdfs:label "height" ; rdfs:domain e:Lamp .
e:on a owl:ObjectProperty ; rdfs:domain e:Lamp ; rdfs:range e:Mast .
e:l1 a e:Lamp ; e:height 3 ; e:on e:m1 .
e:l2 a e:Lamp ; e:height 4 .
e:m1 a e:Mast .
"""


def schema(tmp_path: Path, turtle: str) -> Schema:
    file = tmp_path / "model.ttl"
    file.write_text(HEAD + turtle)
    return load_ontology(file, cache=tmp_path / "cache").schema


def changes(tmp_path: Path, new: str, old: str = OLD) -> dict[str, list[TermChange]]:
    """The changes by local name."""
    found = schema_changes(schema(tmp_path, old), schema(tmp_path, new))
    return {iri.rpartition("/")[2]: list(each) for iri, each in found.items()}


def test_a_removed_term_is_gone_with_the_nearest_names(tmp_path: Path) -> None:
    new = OLD.replace("e:Pole a owl:Class .", "e:Poles a owl:Class ; rdfs:label 'Several' . e:Other a owl:Class .")
    [gone] = changes(tmp_path, new)["Pole"]
    assert (gone.change, gone.kind, gone.now) == ("gone", "class", ("http://e.org/Poles",))


def test_a_rename_that_could_be_two_is_none(tmp_path: Path) -> None:
    new = OLD.replace('e:Lamp a owl:Class ; rdfs:label "Lamp"', 'e:L1 a owl:Class ; rdfs:label "Lamp"')
    twin = 'e:L2 a owl:Class ; rdfs:label "Lamp" . e:l3 a e:L2 ; e:height 3 ; e:on e:m1 . e:l4 a e:L2 ; e:height 4 .'
    new = new.replace("e:Lamp", "e:L1") + twin
    [found] = changes(tmp_path, new)["Lamp"]
    assert found.change == "gone"


def test_another_domain_or_range_is_a_change_and_a_renamed_class_is_none(tmp_path: Path) -> None:
    new = OLD.replace("rdfs:domain e:Lamp ; rdfs:range e:Mast", "rdfs:domain e:Mast ; rdfs:range e:Pole")
    by_end = {each.change: (each.before, each.after) for each in changes(tmp_path, new)["on"]}
    lamp, mast, pole = (f"http://e.org/{name}" for name in ("Lamp", "Mast", "Pole"))
    assert by_end == {"domain": ((lamp,), (mast,)), "range": ((mast,), (pole,))}
    assert set(changes(tmp_path, OLD.replace("e:Lamp", "e:Luminaire"))) == {"Lamp"}


def test_without_the_old_one_only_unknown_names_in_its_own_namespaces_are_gone(tmp_path: Path) -> None:
    new = schema(tmp_path, OLD)
    names = ("http://e.org/Lamp", "http://e.org/heigth", "http://else.org/Lamp", "http://www.w3.org/2002/07/owl#Class")
    [(iri, [gone])] = gone_from(new, names).items()
    assert (iri, gone.change, gone.now) == ("http://e.org/heigth", "gone", ("http://e.org/height",))
