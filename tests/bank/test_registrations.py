"""By which id a bank knows an ontology, and what it remembers to be declared of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.registrations import as_registered, confused_ids, is_registered, registration, sketch
from rbank_es.data import lights
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.source import Source, open_source

OWL = "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"


def model(namespace: str, names: str, more: str = "") -> str:
    """An ontology of classes."""
    return f"@prefix m: <{namespace}> .\n{OWL}" + "".join(f"m:{name} a owl:Class .\n" for name in names.split()) + more


SHIPS, PATIENTS = model("http://s.example/", "Ship Port Crew Cargo"), model("http://p.example/", "Patient Ward Nurse")


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank.create("memory:") as made:
        yield made


def source(path: Path, text: str, id: str | None = None, *, whole: bool | None = None) -> Source:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return open_source(load_ontology(path, id=id, cache=path.parents[1] / "cache"), whole=whole)


def seen(bank: Bank, given: Source) -> str:
    """The id of a source in the bank, which registers it as a run does."""
    found = as_registered(bank, given)
    assert found.ontology is not None
    if not is_registered(bank, found):
        bank.append(registration(found, found.ontology))
    assert is_registered(bank, found) and as_registered(bank, found).id == found.id
    return found.id


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (SHIPS, SHIPS, True),
        (SHIPS, PATIENTS, False),
        (SHIPS, SHIPS + "m:Dock a owl:Class .\n", True),
        (SHIPS, SHIPS.replace("m:Cargo", "m:Freight"), True),
        (SHIPS, SHIPS + "m:one a m:Ship . m:two a m:Ship .\n", True),
        (SHIPS, model("http://s.example/", "Ship " + " ".join(f"C{n}" for n in range(9)) + " Port Crew"), True),
        # One namespace and other terms, as in examples that everybody begins with.
        (model("http://example.org/", "Ship Port Crew"), model("http://example.org/", "Patient Ward Nurse"), False),
        # Other namespaces and the same names.
        (model("http://s.example/", "Record status"), model("http://p.example/", "Record status"), False),
        # Both repeat the same foreign terms.
        (SHIPS + "<http://xmlns.com/foaf/0.1/name> a owl:DatatypeProperty .",
         PATIENTS + "<http://xmlns.com/foaf/0.1/name> a owl:DatatypeProperty .", False),
        ("<http://a.example/x> <http://a.example/p> 1 .", "<http://a.example/y> <http://a.example/p> 2 .", True),
        ("<http://a.example/x> <http://a.example/p> 1 .", "<http://b.example/y> <http://b.example/q> 2 .", False),
    ],
)  # fmt: skip
def test_files_of_one_name_are_one_ontology_if_they_share_half_of_their_terms(
    first: str, second: str, same: bool, bank: Bank, tmp_path: Path
) -> None:
    """In one folder or in two."""
    assert seen(bank, source(tmp_path / "A" / "model.ttl", first)) == "model"
    for folder in ("A", "B"):
        found = seen(bank, source(tmp_path / folder / "model.ttl", second))
        assert (found == "model") is same and found.startswith("model")
    # And the first one is still what it was.
    assert seen(bank, source(tmp_path / "C" / "model.ttl", first)) == "model"


def test_an_ontology_keeps_its_id_through_many_versions_beside_another_of_its_name(bank: Bank, tmp_path: Path) -> None:
    seen(bank, source(tmp_path / "A" / "model.ttl", SHIPS))
    text, ids = PATIENTS, set[str]()
    for name in ("Bed", "Doctor", "Drug", "Dose"):
        ids.add(seen(bank, source(tmp_path / "B" / "model.ttl", text)))
        text += f"m:{name} a owl:Class .\n"
    assert len(ids) == 1 and ids != {"model"}


def test_names_that_somebody_gives_are_kept_and_two_names_are_two_ontologies(bank: Bank, tmp_path: Path) -> None:
    assert seen(bank, source(tmp_path / "A" / "model.ttl", SHIPS)) == "model"
    assert seen(bank, source(tmp_path / "A" / "other.ttl", SHIPS)) == "other"
    assert seen(bank, source(tmp_path / "B" / "model.ttl", PATIENTS, "model")) == "model"
    assert seen(bank, source(tmp_path / "B" / "model.ttl", PATIENTS, "wards")) == "wards"


def test_a_registration_without_terms_is_told_by_its_namespaces(bank: Bank, tmp_path: Path) -> None:
    shipped = open_source(load_ontology(lights().ontology, cache=tmp_path / "cache"))
    assert seen(bank, shipped) == "lights"
    assert seen(bank, source(tmp_path / "A" / "lights.ttl", SHIPS)) != "lights"
    later = lights().ontology.read_text() + "lt:Foghorn a owl:Class .\n"
    assert seen(bank, source(tmp_path / "B" / "lights.ttl", later)) == "lights"


def test_large_ontologies_are_told_by_a_sample_of_their_terms(tmp_path: Path) -> None:
    first, second = ("C" + f" {name}".join(map(str, range(1000))) for name in ("C", "D"))
    half = "C" + " C".join(map(str, range(700))) + " E" + " E".join(map(str, range(300)))
    with Bank.create("memory:") as bank:
        assert seen(bank, source(tmp_path / "A" / "model.ttl", model("http://l.example/", first))) == "model"
        assert seen(bank, source(tmp_path / "A" / "model.ttl", model("http://l.example/", half))) == "model"
        assert seen(bank, source(tmp_path / "B" / "model.ttl", model("http://l.example/", second))) != "model"
        kept = sketch(load_ontology(tmp_path / "A" / "model.ttl", cache=tmp_path / "cache").schema)
        assert len(kept) == limits.ONTOLOGY_SKETCH


def test_a_bank_remembers_what_was_declared_of_a_content(bank: Bank, tmp_path: Path) -> None:
    place = tmp_path / "A" / "model.ttl"
    seen(bank, source(place, SHIPS))
    assert as_registered(bank, source(place, SHIPS)).whole is None
    seen(bank, source(place, SHIPS, whole=True))
    assert as_registered(bank, source(place, SHIPS)).is_whole
    assert as_registered(bank, source(tmp_path / "B" / "other.ttl", SHIPS)).is_whole
    assert not as_registered(bank, source(place, SHIPS + "m:Dock a owl:Class .\n")).is_whole
    seen(bank, source(place, SHIPS, whole=False))
    assert as_registered(bank, source(place, SHIPS)).whole is False


def test_two_banks_that_call_two_ontologies_alike_are_told_apart(tmp_path: Path) -> None:
    """And versions of one ontology are no cause for a warning."""
    with Bank.create("memory:") as one, Bank.create("memory:") as other, Bank.create("memory:") as third:
        seen(one, source(tmp_path / "A" / "model.ttl", SHIPS))
        seen(other, source(tmp_path / "B" / "model.ttl", PATIENTS))
        seen(third, source(tmp_path / "A" / "model.ttl", SHIPS + "m:Dock a owl:Class .\n"))
        assert (confused_ids(one, other), confused_ids(one, third), confused_ids(one)) == (["model"], [], [])
