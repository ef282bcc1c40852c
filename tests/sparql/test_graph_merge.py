"""A triple that stands in several graphs counts once: in the default graph, under several FROMs, and for every tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.ontology.loader import Ontology, load_ontology
from rbank_es.sparql.data_source import Source, open_source
from tests.tools.library import LibraryTools
from tests.tools.tool_sessions import bank_at

# rdflib calls its own old names.
pytestmark = pytest.mark.filterwarnings("ignore:Dataset:DeprecationWarning")

PREFIXES = "@prefix e: <http://example.org/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
TRIG = f"""{PREFIXES}
e:Lamp a owl:Class . e:lamp a e:Lamp ; e:watt 40 .
e:one {{ e:lamp a e:Lamp ; e:watt 40 . e:bulb a e:Lamp ; e:watt 7 . _:x e:name 'hall' }}
e:two {{ e:lamp a e:Lamp ; e:watt 40 . e:bulb a e:Lamp ; e:watt 7 . e:tube a e:Lamp ; e:watt 20 . _:x e:name 'hall' }}
"""
TURTLE = f"{PREFIXES} e:Lamp a owl:Class . e:lamp a e:Lamp ; e:watt 40 . e:bulb a e:Lamp ; e:watt 7 ."
JSON_LD = """{"@context": {"e": "http://example.org/", "xsd": "http://www.w3.org/2001/XMLSchema#"}, "@graph": [
{"@id": "e:one", "@graph": [{"@id": "e:lamp", "@type": "e:Lamp", "e:watt": 40}, {"@id": "_:x", "e:name": "hall"},
  {"@id": "e:bulb", "@type": "e:Lamp", "e:watt": 7}]},
{"@id": "e:two", "@graph": [{"@id": "e:lamp", "@type": "e:Lamp", "e:watt": 40}, {"@id": "_:x", "e:name": "hall"},
  {"@id": "e:bulb", "@type": "e:Lamp", "e:watt": 7}, {"@id": "e:tube", "@type": "e:Lamp", "e:watt": 20}]}]}"""
ONE, TWO = "FROM <http://example.org/one> ", "FROM <http://example.org/two> "
COUNT, SUM = "SELECT (COUNT(*) AS ?n) ", "SELECT (SUM(?w) AS ?n) "


@pytest.fixture(scope="module", params=["trig", "directory"])
def ontology(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    place = tmp_path_factory.mktemp(request.param)
    if request.param == "trig":
        (place / "lamps.trig").write_text(TRIG)
        return load_ontology(place / "lamps.trig", cache=place / "cache")
    (place / "lamps").mkdir()
    (place / "lamps" / "lamps.ttl").write_text(TURTLE)
    (place / "lamps" / "more.jsonld").write_text(JSON_LD)
    return load_ontology(place / "lamps", cache=place / "cache")


@pytest.fixture(scope="module")
def source(ontology: Ontology) -> Iterator[Source]:
    local = open_source(ontology)
    yield local
    local.close()


def test_tools_agree_with_queries_on_how_much_there_is(source: Source, tmp_path: Path) -> None:
    with bank_at(tmp_path / "bank") as bank:
        tools = LibraryTools(bank, source)
        everything = tools("sparql_query", query=COUNT + "{ ?s ?p ?o }")
        [row] = tools("sparql_slice", result=everything)["rows"]
        assert tools("g_stats")["triples"] == row["n"]
        sample = tools("g_sample", cls="e:Lamp")
        assert (sample["count"], len(sample["instances"])) == (3, 3)
        assert not any("more" in instance for instance in sample["instances"])
        look = tools("sparql_peek", resource="e:watt")
        assert (look["triples"], len(look["examples"])) == (3, 3)
        assert [each["n"] for each in tools("sparql_peek", resource="e:lamp")["properties"]] == [1, 1]
