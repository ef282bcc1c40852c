"""A small library as an ontology with data, with the traps that real ones have; and toolboxes over it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from rbank_es.bank import Bank
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source
from rbank_es.tools.shared.tool_answers import encode, size
from rbank_es.tools.shared.tool_family import TOOL_FAMILIES, ToolPolicy, public_methods
from rbank_es.tools.shared.toolbox import Toolbox
from tests.tools.tool_sessions import session_for, ticking

NAMESPACE = "http://library.example/ns#"
THINGS = "http://library.example/thing/"

TURTLE = """
@prefix lib: <http://library.example/ns#> .
@prefix t: <http://library.example/thing/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

lib:Work a owl:Class ; rdfs:label "Work" ; rdfs:comment "Anything that someone wrote." .
lib:Book a owl:Class ; rdfs:subClassOf lib:Work ; rdfs:label "Book" .
lib:Atlas a owl:Class ; rdfs:subClassOf lib:Book ; rdfs:label "Atlas" .
lib:Person a owl:Class ; rdfs:label "Person" .
lib:Loan a owl:Class ; rdfs:label "Loan" ; rdfs:comment "That someone took a book home." .
lib:Map a owl:Class ; rdfs:label "Map" ; rdfs:comment "Declared, and used by nothing." .

lib:wrote a owl:ObjectProperty ; rdfs:label "wrote" ; rdfs:domain lib:Person ; rdfs:range lib:Work ;
    rdfs:comment "Who wrote a work." .
lib:writtenBy a owl:ObjectProperty ; rdfs:label "written by" ; owl:inverseOf lib:wrote ;
    rdfs:domain lib:Work ; rdfs:range lib:Person .
lib:translated a owl:ObjectProperty ; rdfs:label "translated" ; rdfs:domain lib:Person ; rdfs:range lib:Work .
lib:title a owl:DatatypeProperty , owl:FunctionalProperty ; rdfs:label "title" ; rdfs:domain lib:Work .
lib:pages a owl:DatatypeProperty ; rdfs:label "pages" ; rdfs:domain lib:Work ; rdfs:range xsd:integer .
lib:loanOf a owl:ObjectProperty ; rdfs:label "loan of" ; rdfs:domain lib:Loan ; rdfs:range lib:Book .

t:ada a lib:Person ; rdfs:label "Ada Quill" ; lib:wrote t:tides , t:stars .
t:bo a lib:Person ; rdfs:label "Bo Marsh" ; lib:wrote t:tides .
t:tides a lib:Book ; lib:title "On Tides" ; lib:pages 120 .
t:stars a lib:Book ; lib:title "Of Stars"@en , "Des étoiles"@fr ; lib:pages 80 .
t:coast a lib:Atlas ; lib:title "The Coast" ; lib:pages 40 .
t:bindery rdfs:label "A thing without a class" .
[] a lib:Loan ; lib:loanOf t:tides .
[] a lib:Loan ; lib:loanOf t:stars .
"""


def open_library(folder: Path, turtle: str = TURTLE) -> Source:
    """The library as a source; its cache is in the folder too."""
    (folder / "library.ttl").write_text(turtle, encoding="utf-8")
    return open_source(load_ontology(folder / "library.ttl", cache=folder / "cache"))


class Pattern:
    """An extractor that makes one item of every query that worked, and remembers what it was told."""

    label = "fake-1"

    def __init__(self) -> None:
        self.told: list[Any] = []

    def from_success(self, evidence: Any) -> Any:
        from rbank_es.events.items import Item

        self.told.append(evidence)
        return Item.make("Ask the library", evidence.query)

    def from_failure(self, evidence: Any) -> Any:
        return None


class LibraryTools:
    """The tools of one run over a source, called as an agent calls them."""

    def __init__(self, bank: Bank, source: Source | None, policy: ToolPolicy | None = None) -> None:
        self.bank = bank
        self.extractor = Pattern()
        self.session = session_for(bank, policy, extractor=self.extractor, source=source)
        families = (TOOL_FAMILIES.get("sparql"), TOOL_FAMILIES.get("graph"))
        raw = dict(chain.from_iterable(public_methods(family.tools(self.session)) for family in families))
        self.box = Toolbox(self.session, raw, families[0].caps_chars, ticking())

    def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a call, which is within its cap and survives the encoder unchanged."""
        answer = self.box.call(name, arguments)
        if not self.session.naive:
            cap_chars = 4_000 if name == "sparql_slice" else 1_000
            assert size(answer) <= cap_chars
            assert encode(answer, cap_chars) == answer
            assert "ask for less" not in str(answer.get("next")), "the encoder had to cut"
        return answer

    def fails(self, name: str, **arguments: Any) -> dict[str, str]:
        """The error of a call that can't be answered."""
        answer = self(name, **arguments)
        assert answer["ok"] is False
        error: dict[str, str] = answer["error"]
        assert error["message"]
        assert error["hint"]
        return error
