"""A source: what the guard refuses never runs, what runs is within the caps, and what is known comes from no query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.errors import BadInput, BadOntology, QueryFailed, QueryRefused
from rbank_es.ontology.loader import Ontology, load_ontology
from rbank_es.sparql.data_source import Source, open_source
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset
from rbank_es.sparql.results import Answer, Form
from tests.effort import examples
from tests.sparql.fault_server import GOOD, FaultServer, fault_server, says

TURTLE = """
@prefix e: <http://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
e:Thing a owl:Class .
""" + "".join(
    f'e:t{at} a e:Thing ; e:number {at} ; e:kind "{"even" if at % 2 == 0 else "odd"}" .\n' for at in range(50)
)
VOID = """
@prefix void: <http://rdfs.org/ns/void#> .
@prefix e: <http://example.org/> .
e:set a void:Dataset ; void:triples 10 ;
    void:classPartition [ void:class e:Thing ; void:entities 5 ] ;
    void:propertyPartition [ void:property e:number ; void:triples 5 ] .
"""


class Recorder:
    """An engine that only notes what reaches it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Form, Caps]] = []
        self.closed = 0

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        self.seen.append((query, form, caps))
        return Answer(form=form)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(scope="module")
def ontology(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    place = tmp_path_factory.mktemp("ontology")
    (place / "things.ttl").write_text(TURTLE)
    (place / "more.trig").write_text("@prefix e: <http://example.org/> . e:graph { e:x e:kind 'odd' }")
    return load_ontology([place / "things.ttl", place / "more.trig"], id="things", cache=place / "cache")


@pytest.fixture(scope="module")
def source(ontology: Ontology) -> Iterator[Source]:
    local = open_source(ontology)
    yield local
    local.close()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def recorded(ontology: Ontology, recorder: Recorder) -> Source:
    return msgspec.structs.replace(open_source(ontology), engine=recorder)


@pytest.fixture(scope="module")
def void(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("void") / "void.ttl"
    place.write_text(VOID)
    return place


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with fault_server() as running:
        running.at("/sparql", says(GOOD))
        yield running


# ---------------------------------------------------------------- the guard is in front


PIECES = st.sampled_from(
    [
        "?s e:number ?n .",
        "?s a e:Thing .",
        "?s e:nothing ?n .",
        "{ SELECT ?s { ?s e:number ?n } LIMIT 2 }",
        "FILTER EXISTS { SERVICE <http://127.0.0.1/> { ?s ?p ?o } }",
        "SERVICE SILENT <http://127.0.0.1/> { ?s ?p ?o }",
        "?s e:kind 'SERVICE' .",
        "# SERVICE LOAD\n",
        "} LOAD <http://127.0.0.1/> {",
        "INSERT",
        "}",
    ]
)
HEADS = st.sampled_from(["SELECT *", "SELECT ?s", "ASK", "DESCRIBE ?s", "CONSTRUCT { ?s e:kind ?n }", "LOAD <x> ;", ""])
FROMS = st.sampled_from(["", "FROM e:graph", "FROM <file:///etc/passwd>"])
TAILS = st.sampled_from(["", "LIMIT 5", "LIMIT 500 # LIMIT 1", "; DROP ALL"])
QUERIES = st.builds(
    lambda head, source, body, tail: f"{head} {source} WHERE {{ {' '.join(body)} }} {tail}",
    HEADS,
    FROMS,
    st.lists(PIECES, max_size=3),
    TAILS,
)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(query=QUERIES | st.text(max_size=60))
def test_whatever_is_asked_either_it_is_refused_or_it_reaches_the_engine_as_it_was_checked(
    query: str, recorded: Source, recorder: Recorder
) -> None:
    recorder.seen.clear()
    try:
        checked, _ = recorded.query(query)
    except QueryRefused:
        assert recorder.seen == []
    else:
        assert [(seen[0], seen[1]) for seen in recorder.seen] == [(checked.query, checked.form)]
        # What calls out or changes anything stands in strings and comments only.
        bare = checked.query.replace("'SERVICE'", "").replace("# SERVICE LOAD", "")
        assert not any(word in bare for word in ("SERVICE", "LOAD", "INSERT", "DROP", "file:"))


def test_the_time_limit_covers_the_guard_too(recorded: Source, recorder: Recorder) -> None:
    recorded.query("SELECT ?n { ?s e:number ?n }", timeout_s=5)
    assert 0 < recorder.seen[0][2].spent_s < 5
    with pytest.raises(QueryFailed) as failed:
        recorded.query("SELECT ?s { ?s e:number ?n }", timeout_s=1e-6)
    assert (failed.value.code, len(recorder.seen)) == ("timeout", 1)


@pytest.mark.parametrize("rows", [0, -1, limits.QUERY_ROWS + 1])
def test_rows_out_of_range_never_reach_the_engine(rows: int, recorded: Source, recorder: Recorder) -> None:
    with pytest.raises(BadInput):
        recorded.query("SELECT * {}", rows=rows)
    assert recorder.seen == []


# ---------------------------------------------------------------- answers of a local ontology


def test_a_limit_of_the_query_on_solutions_holds_for_a_graph(source: Source) -> None:
    _, answer = source.query("CONSTRUCT { ?s e:number ?n } WHERE { ?s e:number ?n } LIMIT 5")
    assert len(answer.rows) == 5


def test_all_graphs_are_asked_and_from_narrows(source: Source) -> None:
    assert source.query("ASK { e:x e:kind 'odd' }")[1].boolean is True
    assert source.query("ASK FROM e:graph { e:x e:kind 'odd' }")[1].boolean is True
    assert source.query("ASK FROM e:graph { ?s e:number ?n }")[1].boolean is False


def test_a_local_source_knows_its_ontology(source: Source, ontology: Ontology) -> None:
    assert (source.id, source.kind, source.url) == ("things", "local", None)
    assert source.ontology is ontology
    assert source.schema is ontology.schema
    assert source.surroundings.graphs == {"http://example.org/graph"}


# ---------------------------------------------------------------- endpoints


def test_a_void_file_gives_schema_prefixes_and_terms(server: FaultServer, void: Path) -> None:
    source = open_source(endpoint=server.url + "/sparql", void=void)
    assert source.schema is not None
    assert [each.iri for each in source.schema.classes if each.instances] == ["http://example.org/Thing"]
    with pytest.raises(QueryRefused) as refused:
        source.query("SELECT ?x { ?x <http://example.org/nubmer> ?n }")
    assert (refused.value.code, "number" in refused.value.hint + refused.value.message) == ("unknown_term", True)
    assert server.asked == []


def test_the_credentials_of_an_endpoint_are_nowhere_in_what_is_shown(server: FaultServer) -> None:
    source = open_source(endpoint=server.url.replace("//", "//me:s3cret@") + "/sparql?key=t0ken")
    shown = f"{source!r} {source.url} {source.profile} {source.surroundings}"
    assert ("s3cret" in shown, "t0ken" in shown, source.url) == (False, False, server.url + "/sparql")
    source.query("SELECT ?x { ?x <a:b> ?n }")
    assert server.asked[0].headers["authorization"].startswith("Basic ")
    source.close()
    with pytest.raises(BadInput) as refused:
        open_source(endpoint="ftp://me:s3cret@example.org/")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("endpoint", ["local", "nowhere", "ftp://e.org/", "http://", "http://[", "", "no/file.toml"])
def test_what_is_no_endpoint_is_told(endpoint: str) -> None:
    with pytest.raises(BadInput):
        open_source(endpoint=endpoint)


def test_a_source_is_an_ontology_or_an_endpoint(ontology: Ontology, void: Path, tmp_path: Path) -> None:
    for wrong in ({}, {"source": ontology, "endpoint": "http://e.org/"}, {"source": ontology, "void": void}):
        with pytest.raises(BadInput):
            open_source(**wrong)  # type: ignore[arg-type]
    with pytest.raises(BadOntology):
        open_source(endpoint="http://e.org/", void=tmp_path / "nothing.ttl")
