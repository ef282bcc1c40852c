"""Changes between two versions of an ontology: terms that are gone, renamed, or have other domains and ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.data import lights
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


def test_the_same_ontology_has_no_changes(tmp_path: Path) -> None:
    assert changes(tmp_path, OLD) == {}


def test_a_removed_term_is_gone_with_the_nearest_names(tmp_path: Path) -> None:
    new = OLD.replace("e:Pole a owl:Class .", "e:Poles a owl:Class ; rdfs:label 'Several' . e:Other a owl:Class .")
    [gone] = changes(tmp_path, new)["Pole"]
    assert (gone.change, gone.kind, gone.now) == ("gone", "class", ("http://e.org/Poles",))


@pytest.mark.parametrize(
    ("new", "term", "now", "how"),
    [
        (OLD.replace("e:Lamp", "e:Luminaire"), "Lamp", "http://e.org/Luminaire", "label"),
        (OLD.replace("e:height", "e:metres"), "height", "http://e.org/metres", "label"),
        (OLD.replace("e:height", "<http://f.org/height>"), "height", "http://f.org/height", "name"),
        (OLD.replace("e:on ", "e:mountedAt "), "on", "http://e.org/mountedAt", "use"),
        (OLD.replace("e:Mast", "e:Tower").replace('"Mast"', '"Tower"'), "Mast", None, ""),
        (OLD.replace("e:Lamp", "e:X").replace('"Lamp"', '"X"'), "Lamp", "http://e.org/X", "use"),
    ],
)
def test_a_rename_is_found_by_name_label_or_use(new: str, term: str, now: str | None, how: str, tmp_path: Path) -> None:
    """A thing of which nothing is said but its type has no use to tell its class by."""
    [found] = changes(tmp_path, new)[term]
    assert (found.change, found.how) == (("renamed", how) if now else ("gone", ""))
    assert now is None or found.now == (now,)


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


def test_each_term_of_the_lights_that_is_renamed_is_found_and_nothing_else(tmp_path: Path) -> None:
    text = lights().ontology.read_text(encoding="utf-8")
    (tmp_path / "old.ttl").write_text(text)
    (tmp_path / "new.ttl").write_text(text.replace("lt:towerHeight", "lt:height"))
    old, new = (load_ontology(tmp_path / name, cache=tmp_path / "cache").schema for name in ("old.ttl", "new.ttl"))
    ns = "https://lights.example/ns#"
    found = schema_changes(old, new)
    assert {iri: [(each.change, each.now, each.how) for each in made] for iri, made in found.items()} == {
        f"{ns}towerHeight": [("renamed", (f"{ns}height",), "label")]
    }
