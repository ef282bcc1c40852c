"""`rbank-es ontology`: what is in an ontology, and the card that an agent would be given."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.limits import tool_limits
from rbank_es.sparql.lint import CODES
from tests.cli_runner import ROOT, run

KILNS = """\
@prefix : <https://kilns.example/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Kiln a owl:Class . :Potter a owl:Class ; owl:disjointWith :Kiln .
:firedBy a owl:ObjectProperty ; rdfs:domain :Kiln ; rdfs:range :Potter ; owl:inverseOf :fires .
:fires a owl:ObjectProperty . :oldName a owl:DatatypeProperty ; owl:deprecated true .
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an ontology, and a cache of its own."""
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "kilns"
    folder.mkdir()
    (folder / "model.ttl").write_text(KILNS)
    return tmp_path


def test_people_see_the_card_whole_and_what_was_left_out_of_it(place: Path) -> None:
    """The card is printed as it is injected, and never exceeds the budget that was asked for."""
    card = run("ontology", "lights", "--json", cwd=place).json["card"]
    assert len(card["text"]) <= card["budget_chars"] == limits.CONTEXT_L0_CHARS
    printed = run("ontology", "lights", cwd=place).out
    assert card["text"] in printed and f"left out: {card['cut']}" in printed
    small = run("ontology", "lights", "--card-budget", "200", "--json", cwd=place).json["card"]
    assert 0 < len(small["text"]) <= 200 and small["truncated"]


@pytest.mark.slow
def test_a_cache_that_can_t_be_written_is_no_hindrance(place: Path) -> None:
    """Where nothing can be kept, it is parsed each time."""
    (place / "file").write_text("")
    env = {"RBANK_CACHE": os.fspath(place / "file" / "below")}
    assert [run("ontology", "kilns", "--json", cwd=place, env=env).json["cached"] for _ in range(2)] == [False, False]


# ---------------------------------------------------------------- the document

DOCUMENT = (ROOT / "docs" / "ontologies.md").read_text()


def test_the_document_tells_the_limits_as_they_are() -> None:
    """A limit that changes changes there, too."""
    told = re.findall(r"^\| `([A-Z_]+)` \| ([\d,]+)(?: (MiB|s))? \|", DOCUMENT, re.MULTILINE)
    units = {"MiB": limits.MIB, "s": 1, "": 1}
    assert len(told) > 10
    for name, number, unit in told:
        assert int(number.replace(",", "")) * units[unit] == {**vars(limits), **vars(tool_limits)}[name], name


def test_the_document_lists_every_finding_in_its_own_words() -> None:
    """The codes that a profile can refuse."""
    section = DOCUMENT.split("| code | what was found |")[1].split("\n\n")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)) == CODES
