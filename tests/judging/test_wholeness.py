"""What a check may be sure of: sources of several kinds, terms of several kinds, declared whole or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.source_evidence import ground
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source
from rbank_es.sparql.parser.parsed_query import parse_query
from tests.judging.answers import run_of

PREFIXES = {
    "e": "http://e.example/ns#",
    "f": "http://f.example/ns#",
    "u": "http://used.example/",
    "t": "http://e.example/taxon/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "glued": "http://e.example/ns",
}
HEAD = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items())
QUERY_HEAD = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in PREFIXES.items())

SCHEMA = "e:Dog a owl:Class . e:name a owl:DatatypeProperty ; rdfs:domain e:Dog .\n"
SOURCES = {
    "schema": SCHEMA,
    "schema with a header": SCHEMA + "<http://e.example/ns> a owl:Ontology .\n",
    "schema with examples": SCHEMA + 'e:rex a e:Dog ; e:name "Rex" ; u:colour u:brown . t:9606 a e:Dog .\n',
    "schema that uses others": SCHEMA
    + "<http://e.example/ns> a owl:Ontology . u:Thing a owl:Class . foaf:name a owl:DatatypeProperty .\n"
    + 'e:rex a e:Dog , u:Thing ; foaf:name "Rex" .\n',
    "data alone": 'e:rex a e:Dog ; e:name "Rex" .\n',
    "schema with an import of another host": SCHEMA + "<http://e.example/ns> owl:imports <http://f.example/ns> .\n",
    "schema with an import of its own host": SCHEMA + "<http://e.example/ns> owl:imports <http://e.example/core> .\n",
    "schema with an import of another namespace of its host": SCHEMA
    + "<http://e.example/ns> owl:imports <http://e.example/taxon> . t:9606 a e:Dog .\n",
    "schema of a well-known vocabulary beside its own": SCHEMA
    + "<http://e.example/ns> a owl:Ontology . foaf:name a owl:DatatypeProperty ; rdfs:label 'name' .\n"
    + "e:Cat2 a owl:Class ; rdfs:label 'cat' .\n",
    "schema with the import at hand": SCHEMA
    + "<http://e.example/ns> a owl:Ontology ; owl:imports e:core . e:core a owl:Ontology .\n",
}  # fmt: skip
DEFINES_NOTHING = {"data alone", "schema with an import of its own host"}

# The pattern that every solution needs, and when a check may be sure that its term exists nowhere.
TERMS = {
    "a class of its own": ("?x a e:Cat", "defined"),
    "a property of its own": ("?x e:weight ?y", "defined"),
    "a class on a path": ("?x a/rdfs:subClassOf* e:Cat", "defined"),
    "an individual of its own": ("e:fido ?p ?y", "whole"),
    "an individual of its own as object": ("?x ?p e:fido", "whole"),
    "an individual of another namespace": ("t:83333 ?p ?y", "whole"),
    "a class of a namespace that is used": ("?x a u:Other", "whole"),
    "a property of a namespace that is used": ("?x u:size ?y", "whole"),
    "a property of a known vocabulary": ("?x foaf:nickname ?y", "whole"),
    "a class of another ontology": ("?x a f:Boat", "whole"),
    "a class behind a prefix that lacks its mark": ("?x a glued:Dog", "whole"),
    "a class of a vocabulary that is fixed": ("?x a owl:Klass", "always"),
    "a text": ('?x e:name "Nobody"', "never"),
}


@contextmanager
def opened(folder: Path, text: str, *, whole: bool | None = None) -> Iterator[Source]:
    (folder / "model.ttl").write_text(HEAD + text)
    with closing(open_source(load_ontology(folder / "model.ttl", cache=folder / "cache"), whole=whole)) as it:
        yield it


@pytest.mark.parametrize("source", SOURCES)
def test_a_missing_term_is_a_failure_only_where_the_source_can_know(source: str, tmp_path: Path) -> None:
    with opened(tmp_path, SOURCES[source]) as asked:
        for (term, (pattern, when)), whole in product(TERMS.items(), (True, False, None)):
            defined = source not in DEFINES_NOTHING
            sure = {"always": True, "never": False, "whole": bool(whole), "defined": whole or defined}[when]
            run = run_of(f"{QUERY_HEAD} SELECT * {{ {pattern} }}", answer="see above")
            verdict = judge_by_checks(run, replace(asked, whole=whole))
            assert verdict.sure is sure, (term, whole, verdict.reason)
            assert verdict.verdict == ("failure" if sure else "undecided")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["?x a e:Dog", "?x e:name ?y", 'e:rex e:name "Rex"', "?x a ?c"])
def test_what_is_there_is_held_against_nobody(pattern: str, tmp_path: Path) -> None:
    query = parse_query(f"{QUERY_HEAD} SELECT * {{ {pattern} }}")
    with opened(tmp_path, SOURCES["schema with examples"]) as asked:
        for whole in (True, False, None):
            found = ground(query, "e:rex is an e:Dog", replace(asked, whole=whole))
            assert found.grounded and not found.absent


def test_two_ontologies_together_define_what_each_defines(tmp_path: Path) -> None:
    other = "f:Boat a owl:Class ; rdfs:label 'boat' .\n"
    with opened(tmp_path, SOURCES["schema with a header"] + other, whole=None) as asked:
        for pattern, sure in (
            ("?x a f:Ship", True),
            ("?x a e:Cat", True),
            ("?x a u:Thing", False),
            ("f:one ?p ?o", False),
        ):
            verdict = judge_by_checks(run_of(f"{QUERY_HEAD} SELECT * {{ {pattern} }}", answer="none"), asked)
            assert verdict.sure is sure, pattern


def test_ontologies_of_obo_share_a_namespace_and_each_defines_its_own_terms(tmp_path: Path) -> None:
    """They repeat the terms of others, with labels and definitions."""
    obo = "http://purl.obolibrary.org/obo/"
    terms = f"<{obo}GO_0001> a owl:Class ; rdfs:label 'a' . <{obo}BFO_0001> a owl:Class ; rdfs:label 'b' .\n"
    with opened(tmp_path, f"<{obo}go.owl> a owl:Ontology . {terms}") as asked:
        for name, sure in (("GO_0002", True), ("BFO_0002", False), ("CHEBI_0001", False)):
            run = run_of(f"SELECT * {{ ?x a <{obo}{name}> }}", answer="none")
            assert judge_by_checks(run, asked).sure is sure, name
