"""By which id a bank knows an ontology, and what it remembers to be declared of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.bank.ontology_registrations import as_registered, confused_ids, is_registered, registration
from rbank_es.data import lights
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source

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


def test_a_registration_without_terms_is_told_by_its_namespaces(bank: Bank, tmp_path: Path) -> None:
    shipped = open_source(load_ontology(lights().ontology, cache=tmp_path / "cache"))
    assert seen(bank, shipped) == "lights"
    assert seen(bank, source(tmp_path / "A" / "lights.ttl", SHIPS)) != "lights"
    later = lights().ontology.read_text() + "lt:Foghorn a owl:Class .\n"
    assert seen(bank, source(tmp_path / "B" / "lights.ttl", later)) == "lights"


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
