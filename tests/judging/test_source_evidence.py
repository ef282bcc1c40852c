"""Grounding: which terms of a query and of an answer exist, asked of the schema first and then of the data, once."""

from __future__ import annotations

import msgspec
import pytest

from rbank_es import limits
from rbank_es.errors import QueryFailed, QueryRefused
from rbank_es.judging.source_evidence import ground, terms_of
from rbank_es.judging.verdict import Grounding
from rbank_es.sparql.data_source import Source
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset, QueryEngine
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.sparql.results import Answer, Form

PREFIXES = {"e": "http://e.org/", "lt": "https://lights.example/ns#"}


class Counting:
    """An engine that passes on what it is asked, and keeps it; or fails."""

    def __init__(self, engine: QueryEngine, *, fails: bool = False) -> None:
        self.engine, self.fails, self.asked = engine, fails, list[str]()

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        self.asked.append(query)
        if self.fails:
            raise QueryFailed("unreachable", "nobody answers", "try again")
        return self.engine.run(query, form, caps)

    def close(self) -> None: ...


def counted(source: Source, *, fails: bool = False) -> tuple[Source, Counting]:
    engine = Counting(source.engine, fails=fails)
    return msgspec.structs.replace(source, engine=engine), engine


def grounded(sparql: str, answer: str, source: Source) -> Grounding:
    """The grounding of a run with this query and this answer."""
    try:
        query = parse_query(sparql, source.surroundings.prefixes)
    except QueryRefused:
        query = None
    return ground(query, answer, source)


# ---------------------------------------------------------------- what is a term


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("SELECT * { ?x a e:A ; e:p/e:q* e:o }", ["e:A", "e:p", "e:q", "e:o"]),
        ("SELECT * { VALUES ?x { e:a <http://e.org/b> } ?x ?p ?o }", ["e:a", "<http://e.org/b>"]),
        ("SELECT * { ?x ?p ?o FILTER(?o IN (e:a, e:b)) BIND(e:c AS ?c) }", ["e:a", "e:b", "e:c"]),
        ("SELECT * { { SELECT ?x { ?x a e:A } } FILTER NOT EXISTS { ?x e:p ?y } }", ["e:A", "e:p"]),
        ('SELECT * { ?x e:p "1"^^e:int FILTER(e:cast(?x) = 1) }', ["e:p"]),
        ("SELECT * FROM e:g FROM NAMED e:h { GRAPH e:i { ?x a e:A } }", ["e:A"]),
        ("CONSTRUCT { ?x a e:B } { ?x a e:A }", ["e:B", "e:A"]),
        ("DESCRIBE e:a", ["e:a"]),
        ('# e:comment\nSELECT * { ?x e:p "e:string" }', ["e:p"]),
        ("PREFIX e: <http://other.org/> SELECT * { ?x a e:A }", ["e:A"]),
    ],
)
def test_the_terms_of_a_query_are_all_that_it_names_as_things(query: str, terms: list[str]) -> None:
    assert list(terms_of(parse_query(query, PREFIXES)).values()) == terms


# ---------------------------------------------------------------- looking up


def test_very_many_terms_are_looked_up_only_in_part(lights_source: Source) -> None:
    source, engine = counted(lights_source)
    values = " ".join(f"<http://e.org/{n}>" for n in range(limits.JUDGE_TERMS + 7))
    found = grounded(f"SELECT ?x {{ VALUES ?x {{ {values} }} ?x ?p ?o }}", "", source)
    assert (len(found.unknown_in_query), len(found.unchecked), len(engine.asked)) == (limits.JUDGE_TERMS, 7, 1)


@pytest.mark.parametrize("odd", ["http://e.org/%zz", "http://e.org:port/", "http://a@@b/", "http://e.org/\ufffe"])
def test_a_text_that_is_no_iri_does_not_hide_the_terms_beside_it(odd: str, lights_source: Source) -> None:
    """The look-up failed because of it, and what could not be looked up was held against nobody."""
    found = grounded("SELECT ?x { ?x lt:luminosity ?y }", f"{odd} and lt:Submarine", lights_source)
    assert (found.unknown_in_query, found.unknown_in_answer) == (("lt:luminosity",), (odd, "lt:Submarine"))
    beside = grounded("SELECT ?x { ?x lt:luminosity <beside> }", "", lights_source)
    assert beside.unknown_in_query == ("lt:luminosity", "<beside>")


@pytest.mark.parametrize(
    "names", ["xsd:date", "rdf:nil", "owl:Class", "owl:sameAs", "rdfs:label", "rdf:_1", "skos:prefLabel"]
)
def test_what_the_built_in_vocabularies_define_exists_and_what_they_do_not_does_not(
    names: str, lights_source: Source
) -> None:
    query = f"SELECT ?x {{ ?x ?p ?y FILTER(?y = {names} || DATATYPE(?y) = xsd:gYear) }}"
    assert grounded(query, f"It is {names}.", lights_source).grounded
    assert grounded("SELECT ?x { ?x a owl:Klass }", "rdf:kind", lights_source).unknown_in_answer == ("rdf:kind",)


def test_a_name_can_not_break_out_of_the_look_up(lights_source: Source) -> None:
    hostile = "http://e.org/a>}}<x"
    found = grounded("", f"{hostile} http://e.org/\u0001b", lights_source)
    assert not found.grounded
