"""The tasks on every engine, and through a real server over HTTP: the stored answers come back."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.errors import QueryFailed
from rbank_es.ontology.loader import Ontology, load_ontology
from rbank_es.sparql.data_source import Source, open_source
from rbank_es.sparql.engines.query_engine import Caps
from rbank_es.sparql.engines.rdflib_engine import RdflibEngine
from rbank_es.sparql.engines.remote import RemoteEngine
from rbank_es.sparql.results import Answer, Cell

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:Dataset:DeprecationWarning")]

Task = dict[str, Any]
SERVER_TIMEOUT_S = 3


def missing(reason: str) -> Any:
    return pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def tasks() -> list[Task]:
    """Read while collecting; without the data there is one task, which says so."""
    place = Path(os.environ.get("RBANK_REAL_DATA", "/nowhere")) / "tasks" / "ontology_tasks.json"
    return json.loads(place.read_text())["tasks"] if place.is_file() else [{"id": "none"}]


each_task = pytest.mark.parametrize("task", tasks(), ids=lambda task: task["id"])


class Ontologies:
    """The ontologies of the tasks, each loaded once, with what answers over it."""

    def __init__(self, data: Path, cache: Path, stack: ExitStack) -> None:
        self._data, self._cache, self._stack = data, cache, stack
        self._loaded: dict[tuple[str, ...], Ontology] = {}
        self._made: dict[tuple[str, str], Any] = {}

    def of(self, task: Task) -> Ontology:
        files = tuple(task["files"])
        if files not in self._loaded:
            self._loaded[files] = load_ontology([self._data / name for name in files], cache=self._cache)
        return self._loaded[files]

    def local(self, task: Task) -> Source:
        ontology = self.of(task)
        return self._kept("local", ontology, lambda: self._closing(open_source(ontology)))

    def rdflib(self, task: Task) -> RdflibEngine:
        ontology = self.of(task)
        return self._kept("rdflib", ontology, lambda: RdflibEngine(ontology.quads))

    def endpoint(self, task: Task) -> Source:
        ontology = self.of(task)

        def opened() -> Source:
            place = self._cache / f"server-{ontology.digest[:12]}"
            url = self._stack.enter_context(oxigraph(place, ontology.quads))
            return self._closing(open_source(endpoint=url))

        return self._kept("endpoint", ontology, opened)

    def _closing(self, source: Source) -> Source:
        self._stack.callback(source.close)
        return source

    def _kept(self, kind: str, ontology: Ontology, make: Any) -> Any:
        key = (kind, ontology.digest)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


@pytest.fixture(scope="module")
def ontologies(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ontologies]:
    with ExitStack() as stack:
        yield Ontologies(data, tmp_path_factory.mktemp("cache"), stack)


# ---------------------------------------------------------------- a real server


def oxigraph_binary() -> str:
    beside = Path(sys.executable).with_name("oxigraph")
    found = str(beside) if beside.is_file() else shutil.which("oxigraph")
    return found or missing("there is no oxigraph server; install it with: pip install oxigraph")


@contextmanager
def oxigraph(place: Path, quads: Path) -> Iterator[str]:
    """A server over a graph; gives the URL to ask."""
    binary = oxigraph_binary()
    load = [binary, "load", "--location", str(place), "--file", str(quads)]
    subprocess.run(load, check=True, capture_output=True, timeout=60)
    serve = [binary, "serve-read-only", "--location", str(place), "--union-default-graph"]
    server, address = started([*serve, "--timeout-s", str(SERVER_TIMEOUT_S)])
    with server:
        try:
            yield f"http://{address}/query"
        finally:
            server.kill()


def started(command: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    """A server that listens, and where. Another process may take a free port before it does: then again."""
    for _ in range(5):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address = f"127.0.0.1:{port}"
        server = subprocess.Popen([*command, "--bind", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if listens(port, server):
            return server, address
        server.kill()
        server.wait()
    pytest.fail("the server doesn't start")


def listens(port: int, server: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + 30
    while server.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


# ---------------------------------------------------------------- comparing, as the suite says


def comparable(cell: Cell | None) -> Any:
    """Numbers by value, literals by text and language, blank nodes anonymous."""
    if cell is None or cell.kind == "bnode":
        return None if cell is None else ("bnode",)
    if cell.kind == "iri":
        return ("iri", cell.value)
    try:
        return ("num", float(cell.value)) if cell.datatype else ("lit", cell.value, cell.lang)
    except ValueError:
        return ("lit", cell.value, cell.lang)


def rows_of(answer: Answer) -> list[tuple[Any, ...]]:
    if answer.form == "ask":
        return [(answer.boolean,)]
    return [tuple(map(comparable, row)) for row in answer.rows]


def stored(task: Task) -> list[tuple[Any, ...]]:
    return [tuple(None if cell is None else tuple(cell) for cell in row) for row in task["answer"]]


def assert_equal(answer: Answer, task: Task) -> None:
    assert answer.truncated == ""
    assert answer.variables == tuple(task["vars"])
    assert Counter(rows_of(answer)) == Counter(stored(task))
    assert len(answer.rows) == task["n_rows"]


def test_the_comparison_tells_answers_apart() -> None:
    task = {"answer": [[["iri", "http://e.org/a"], ["num", 2.0]]], "vars": ["a", "n"], "n_rows": 1}
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    cells = (Cell("iri", "http://e.org/a"), Cell("literal", "02", "", integer))
    for row in permutations(cells):
        same = Counter(rows_of(Answer(form="select", rows=(row,)))) == Counter(stored(task))
        assert same == (row == cells)
    assert comparable(Cell("literal", "2")) != comparable(cells[1])


# ---------------------------------------------------------------- the tasks


@pytest.mark.slow
@each_task
def test_a_real_server_gives_the_stored_answer_over_http(task: Task, ontologies: Ontologies) -> None:
    source = ontologies.endpoint(task)
    _, answer = source.query(task["gold_sparql"], rows=limits.QUERY_ROWS)
    assert_equal(answer, task)


def is_slow(task: Task) -> bool:
    """Whether rdflib takes seconds to load the ontology of a task."""
    return bool(task["id"].startswith("brick"))


# rdflib takes the patterns of one group in an order of its own, and a minute for this task; one group after the other,
# it takes half a second for the same answer.
IN_GROUPS = {
    "brick-L3-1": """
PREFIX brick: <https://brickschema.org/schema/Brick#>
PREFIX soda: <https://brickschema.org/schema/1.0.2/building_example#>
SELECT DISTINCT ?z ?s WHERE {
  { soda:ahu_A1 brick:feeds ?v . ?v a brick:VAV }
  { ?v brick:feeds ?z . ?z a brick:HVAC_Zone }
  { ?v brick:hasPoint ?s . ?s a brick:Zone_Air_Temperature_Sensor }
}"""
}


@pytest.mark.parametrize(
    "task", [pytest.param(task, id=task["id"], marks=[pytest.mark.slow] * is_slow(task)) for task in tasks()]
)
def test_the_second_opinion_gives_the_stored_answer(task: Task, ontologies: Ontologies) -> None:
    source, query = ontologies.local(task), IN_GROUPS.get(task["id"], task["gold_sparql"])
    checked, answer = source.query(query, rows=limits.QUERY_ROWS)
    assert_equal(answer, task)
    assert_equal(ontologies.rdflib(task).run(checked.query, checked.form, Caps(rows=checked.rows)), task)


# ---------------------------------------------------------------- a real server's ways


@pytest.fixture(scope="module")
def brick(ontologies: Ontologies, data: Path) -> Source:
    return ontologies.endpoint({"files": ["ontologies/brick-1.4.ttl", "ontologies/brick_soda.ttl"]})


@pytest.mark.slow
def test_a_graph_comes_over_http(brick: Source) -> None:
    query = "DESCRIBE <https://brickschema.org/schema/Brick#VAV>"
    _, answer = brick.query(query, rows=1_000)
    assert {row[0].value for row in answer.rows if row[0]} == {"https://brickschema.org/schema/Brick#VAV"}
    _, cut = brick.query("CONSTRUCT WHERE { ?s ?p ?o }", rows=10)
    assert (len(cut.rows), cut.truncated) == (10, "rows")


@pytest.mark.slow
def test_a_server_that_reaches_its_own_time_limit_is_told_never_a_short_answer(brick: Source) -> None:
    """The server answers 200 and stops amid the body."""
    sparse = "SELECT * { ?a a ?x . ?b a ?y FILTER(STRLEN(STR(?a)) = 3 * STRLEN(STR(?b))) }"
    with pytest.raises(QueryFailed) as failed:
        brick.engine.run(sparse, "select", Caps(rows=10**6, size_bytes=10**9))
    assert failed.value.code == "cut_answer"
    assert brick.query("ASK { ?s a ?o }")[1].boolean is True


@pytest.mark.slow
def test_an_answer_without_end_is_cut_at_our_caps_over_http(brick: Source) -> None:
    endless = "SELECT * { ?a a ?x . ?b a ?y . ?c a ?z }"
    answer = brick.engine.run(endless, "select", Caps(rows=1_000))
    assert (len(answer.rows), answer.truncated) == (1_000, "rows")
    answer = brick.engine.run(endless, "select", Caps(rows=10**6, size_bytes=200_000))
    assert answer.truncated == "bytes"
    assert len(answer.rows) > 100
    assert all(cell is not None for row in answer.rows for cell in row)


def test_a_server_that_is_too_slow_for_us_is_left(brick: Source) -> None:
    slow = "SELECT (COUNT(*) AS ?n) { ?a a ?x . ?b a ?y . ?c a ?z }"
    with pytest.raises(QueryFailed) as failed:
        brick.engine.run(slow, "select", Caps(timeout_s=0.3))
    assert failed.value.code == "timeout"


def test_a_servers_own_words_about_a_wrong_query_are_given(brick: Source) -> None:
    with pytest.raises(QueryFailed) as failed:
        brick.engine.run("SELECT * { ?s ?p", "select", Caps())
    assert (failed.value.code, "error at 1:17" in failed.value.message) == ("bad_query", True)


@pytest.mark.slow
def test_another_page_of_the_server_is_no_endpoint(brick: Source) -> None:
    assert brick.url is not None
    engine = RemoteEngine(brick.url.replace("/query", "/"))
    with pytest.raises(QueryFailed) as failed:
        engine.run("SELECT * { ?s ?p ?o }", "select", Caps())
    assert failed.value.code == "not_sparql"
    engine.close()
