"""The local engine: what it answers, what it refuses its worker, and that it is ready again whatever a query did."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.local import LocalEngine, Response, WorkerGone, WorkerTimeout, receive, send
from rbank_es.sparql.engines.query_engine import Caps, QueryEngine
from rbank_es.sparql.engines.rdflib_engine import RdflibEngine
from rbank_es.sparql.results import Answer, Cell, Form
from tests.processes import alone
from tests.sparql.fault_server import fault_server, says

# rdflib calls its own old names.
pytestmark = pytest.mark.filterwarnings("ignore:Dataset:DeprecationWarning")

E, E1 = "http://example.org/", "http://e.org/"
QUADS = f"""\
<{E}a> <{E}p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .
<{E}a> <{E}p> "zwei"@de .
<{E}b> <{E}p> _:x .
<{E}c> <{E}q> <{E}d> <{E}graph> .
<{E}c> <{E}q> <{E}e> <{E}other> .
""" + "".join(f'<{E}n{number}> <{E}number> "{number}" .\n' for number in range(3_000))
FOREVER = f"SELECT * {{ ?a <{E}number> ?x . ?b <{E}number> ?y . ?c <{E}number> ?z FILTER(?x + ?y = ?z) }}"


@pytest.fixture(scope="module")
def quads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("graph") / "graph.nq"
    place.write_text(QUADS, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def engine(quads: Path) -> Iterator[LocalEngine]:
    local = LocalEngine(quads)
    yield local
    local.close()


@pytest.fixture(scope="module", params=["pyoxigraph", "rdflib"])
def either(request: pytest.FixtureRequest, engine: LocalEngine, quads: Path) -> QueryEngine:
    return engine if request.param == "pyoxigraph" else RdflibEngine(quads)


def ask(engine: QueryEngine, query: str, form: Form = "select", **caps: float) -> Answer:
    return engine.run(query, form, Caps(**caps))  # type: ignore[arg-type]


def failure(engine: QueryEngine, query: str, **caps: float) -> QueryFailed:
    with pytest.raises(QueryFailed) as failed:
        ask(engine, query, **caps)
    assert failed.value.hint
    return failed.value


def works(engine: QueryEngine) -> bool:
    return ask(engine, "ASK { ?s ?p ?o }", "ask").boolean is True


# ---------------------------------------------------------------- answers, of both engines


def test_rows_hold_iris_blank_nodes_and_literals_as_they_are_written_and_nothing_where_nothing_is(
    either: QueryEngine,
) -> None:
    answer = ask(either, f"SELECT ?s ?o ?none {{ ?s <{E}p> ?o }} ORDER BY ?s ?o")
    assert answer.variables == ("s", "o", "none")
    rows = {row for row in answer.rows if row[1] and row[1].kind != "bnode"}
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    assert rows == {
        (Cell("iri", E + "a"), Cell("literal", "1", "", integer), None),
        (Cell("iri", E + "a"), Cell("literal", "zwei", "de"), None),
    }
    assert [row[1].kind for row in answer.rows if row[1] and row not in rows] == ["bnode"]
    assert answer.truncated == ""


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "truncated"), [(2_999, "rows"), (3_000, ""), (3_001, "")])
def test_truncated_is_true_to_fact(either: QueryEngine, rows: int, truncated: str) -> None:
    answer = ask(either, f"SELECT ?o {{ ?s <{E}number> ?o }}", rows=rows)
    assert (len(answer.rows), answer.truncated) == (min(rows, 3_000), truncated)


def test_bytes_and_values_are_bounded(either: QueryEngine) -> None:
    answer = ask(either, f"SELECT ?o {{ ?s <{E}number> ?o }}", rows=10_000, size_bytes=2_000)
    assert answer.truncated == "bytes"
    assert 40 < len(answer.rows) < 60
    clipped = ask(either, f"SELECT ?o {{ VALUES ?o {{ '{'x' * 500}' 'y' }} }}", cell_chars=100)
    assert sorted(len(row[0].value) for row in clipped.rows if row[0]) == [1, 100]
    assert clipped.clipped == 1


def test_from_a_file_reads_nothing(either: QueryEngine, tmp_path: Path) -> None:
    secret = tmp_path / "secret.ttl"
    secret.write_text(f'<{E}s> <{E}p> "SECRET" .')
    for clause in (f"FROM <{secret.as_uri()}>", f"FROM NAMED <{secret.as_uri()}>"):
        assert ask(either, f"SELECT * {clause} {{ {{ ?s ?p ?o }} UNION {{ GRAPH ?g {{ ?s ?p ?o }} }} }}").rows == ()


def test_a_query_that_is_wrong_says_so(either: QueryEngine) -> None:
    assert failure(either, "SELECT * { ?s ?p").code == "bad_query"
    assert works(either)


# ---------------------------------------------------------------- the worker


def test_what_the_engine_has_not_is_told_as_a_query_that_is_wrong(engine: LocalEngine) -> None:
    failed = failure(engine, "SELECT (<http://www.w3.org/2001/XMLSchema#int>('1') AS ?x) {}")
    assert (failed.code, "XMLSchema#int" in failed.message) == ("bad_query", True)


def test_a_query_that_takes_too_long_is_killed_and_the_next_one_works(engine: LocalEngine) -> None:
    works(engine)
    pid = engine.worker_pid
    failed = failure(engine, FOREVER, timeout_s=0.3)
    assert (failed.code, "0.3 s" in failed.message) == ("timeout", True)
    assert pid is not None
    assert not exists(pid)
    assert works(engine)


@pytest.mark.slow
def test_a_query_that_takes_too_much_memory_fails_and_the_next_one_works(engine: LocalEngine) -> None:
    query = f"SELECT * {{ ?a <{E}number> ?x . ?b <{E}number> ?y }} ORDER BY ?x ?y LIMIT 1"
    failed = failure(engine, query)
    assert (failed.code, "1,024 MiB" in failed.message) == ("out_of_memory", True)
    assert works(engine)


def test_a_query_that_brings_the_engine_down_fails_and_the_next_one_works(engine: LocalEngine) -> None:
    failed = failure(engine, "SELECT * {" + "{" * 9_000 + "}" * 9_000 + "}")
    assert (failed.code, "SIGSEGV" in failed.message) == ("engine_failed", True)
    assert works(engine)


def test_a_worker_that_died_between_queries_is_replaced_and_nobody_notices(engine: LocalEngine) -> None:
    works(engine)
    assert engine.worker_pid is not None
    os.kill(engine.worker_pid, signal.SIGKILL)
    # Its main thread is a zombie first, and the process is still alive to those who may wait for it.
    while engine.worker_pid is not None:
        time.sleep(0.01)
    assert works(engine)


def test_a_worker_that_is_killed_amid_a_query_is_told_as_want_of_memory(engine: LocalEngine) -> None:
    works(engine)
    worker = engine.worker_pid
    assert worker is not None
    spent = processor_ticks(worker)

    def kill_at_work() -> None:
        while processor_ticks(worker) < spent + 10:
            time.sleep(0.01)
        os.kill(worker, signal.SIGKILL)

    killer = threading.Thread(target=kill_at_work)
    killer.start()
    assert failure(engine, FOREVER).code == "out_of_memory"
    killer.join()
    assert works(engine)


def test_a_start_that_takes_too_long_is_given_up(quads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENGINE_START_S", 0.001)
    engine = LocalEngine(quads)
    assert "not ready" in failure(engine, "ASK {}").message
    monkeypatch.undo()
    assert works(engine)
    engine.close()


def test_a_closed_engine_has_no_process_and_opens_again_when_used(quads: Path) -> None:
    engine = LocalEngine(quads)
    engine.start()
    pid = engine.worker_pid
    assert pid is not None
    engine.close()
    assert (engine.worker_pid, exists(pid)) == (None, False)
    engine.close()
    assert works(engine)
    engine.close()


def test_an_engine_that_is_forgotten_takes_its_worker_with_it(quads: Path) -> None:
    engine = LocalEngine(quads)
    engine.start()
    pid = engine.worker_pid
    assert pid is not None
    del engine
    assert not exists(pid)


def test_threads_take_turns_and_each_gets_its_own_answer(engine: LocalEngine) -> None:
    found: dict[int, list[str]] = {number: [] for number in range(8)}

    def work(number: int) -> None:
        for _ in range(20):
            answer = ask(engine, f"SELECT ?o {{ <{E}n{number}> ?p ?o }}")
            found[number] += [row[0].value for row in answer.rows if row[0]]

    threads = [threading.Thread(target=work, args=(number,)) for number in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [str(number)] * 20 for number in found}


@pytest.mark.slow
def test_waiting_for_another_thread_does_not_count_as_time_of_a_query(engine: LocalEngine) -> None:
    works(engine)
    slow = threading.Thread(target=failure, args=(engine, FOREVER), kwargs={"timeout_s": 6.0})
    slow.start()
    time.sleep(0.1)
    assert ask(engine, "ASK {}", "ask", timeout_s=3.0).boolean is True
    slow.join()


def test_a_query_that_is_interrupted_leaves_nothing_for_the_next_one(engine: LocalEngine) -> None:
    works(engine)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(engine, FOREVER)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert works(engine)


# ---------------------------------------------------------------- what the worker may not


def test_service_and_load_reach_nobody(engine: LocalEngine) -> None:
    with fault_server() as server:
        url = server.at("/sparql", says(b"{}"))
        assert failure(engine, f"SELECT * {{ SERVICE <{url}> {{ ?s ?p ?o }} }}").code == "bad_query"
        assert ask(engine, f"SELECT * {{ SERVICE SILENT <{url}> {{ ?s ?p ?o }} }}").rows == ((None, None, None),)
        assert failure(engine, f"LOAD <{url}>").code == "bad_query"
        assert server.asked == []
        # The server does answer whoever may ask it.
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
            connection.sendall(b"GET /sparql HTTP/1.1\r\n\r\n")
            assert connection.recv(1024)
        assert len(server.asked) == 1
    assert works(engine)


def test_the_worker_has_only_what_it_needs(engine: LocalEngine) -> None:
    works(engine)
    place = Path(f"/proc/{engine.worker_pid}")
    if not place.exists():
        pytest.skip("this system shows no processes as files")
    assert sorted(link.name for link in (place / "fd").iterdir()) == ["0", "1", "2"]
    rules = {line[:26].strip(): line[26:].split()[:2] for line in (place / "limits").read_text().splitlines()[1:]}
    assert rules["Max open files"] == ["3", "3"]
    assert rules["Max core file size"] == ["0", "0"]
    address_space, graph = int(rules["Max address space"][0]), 400 * limits.MIB
    assert limits.QUERY_MEMORY_BYTES < address_space < limits.QUERY_MEMORY_BYTES + graph


PARENT = """
import os, sys, threading, time
from pathlib import Path
from rbank_es.sparql.engines.query_engine import Caps
from rbank_es.sparql.engines.local import LocalEngine
engine = LocalEngine(Path(sys.argv[1]))
engine.start()
if sys.argv[2]:
    threading.Thread(target=engine.run, args=(sys.argv[2], "select", Caps(timeout_s=100)), daemon=True).start()
    time.sleep(0.2)
print(engine.worker_pid, flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("query", ["", FOREVER], ids=["idle", "amid a query"])
def test_no_worker_outlives_its_parent_however_that_ends(quads: Path, query: str) -> None:
    command = [sys.executable, "-c", PARENT, str(quads), query]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert exists(worker)
        parent.kill()
    wait_until_gone(worker)


@pytest.mark.slow
def test_a_query_ends_by_itself_after_its_time_should_nobody_end_it(
    quads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent is stopped, so it neither kills the worker nor closes its pipes."""
    code = PARENT.replace("timeout_s=100", "timeout_s=5").replace("    time.sleep(0.2)", "")
    with subprocess.Popen([sys.executable, "-c", code, str(quads), FOREVER], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        begun = processor_ticks(worker)
        while processor_ticks(worker) < begun + 10:
            time.sleep(0.01)
        parent.send_signal(signal.SIGSTOP)
        wait_until_gone(worker)
        parent.kill()


@pytest.mark.slow
def test_a_forked_child_gets_its_own_worker_and_leaves_its_parents_alone(quads: Path) -> None:
    assert alone(ask_in_a_fork, quads) == 0


def ask_in_a_fork(quads: Path) -> None:
    engine = LocalEngine(quads)
    engine.start()
    pid = engine.worker_pid
    child = os.fork()
    if child == 0:
        ok = engine.worker_pid is None and works(engine) and engine.worker_pid not in (None, pid)
        engine.close()
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert works(engine)
    assert engine.worker_pid == pid
    engine.close()


@pytest.mark.slow
def test_a_child_that_is_forked_amid_a_query_of_another_thread_can_ask_too(quads: Path) -> None:
    assert alone(fork_amid_a_query, quads) == 0


def fork_amid_a_query(quads: Path) -> None:
    engine = LocalEngine(quads)
    engine.start()
    thread = threading.Thread(target=failure, args=(engine, FOREVER), kwargs={"timeout_s": 1.0})
    thread.start()
    time.sleep(0.1)
    child = os.fork()
    if child == 0:
        os._exit(0 if works(engine) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    assert works(engine)
    engine.close()


def test_the_worker_does_not_take_modules_from_the_folder_it_is_started_in(
    quads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('taken from the current folder')")
    monkeypatch.chdir(tmp_path)
    engine = LocalEngine(quads)
    assert works(engine)
    engine.close()


# ---------------------------------------------------------------- frames


def test_a_frame_that_does_not_come_or_go_in_time_is_told() -> None:
    reading, writing = os.pipe()
    with pytest.raises(WorkerTimeout):
        receive(reading, time.monotonic() + 0.01)
    with pytest.raises(WorkerTimeout):
        send(writing, Response(message="x" * 300_000), time.monotonic() + 0.05)
    os.close(reading)
    with pytest.raises(WorkerGone):
        send(writing, Response())
    os.close(writing)


# ---------------------------------------------------------------- helpers


def processor_ticks(pid: int) -> int:
    """Hundredths of a second that a process computed: those of a query that it is at."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    # Whoever waits for nobody's child leaves it as a zombie.
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + 30
    while exists(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


def test_rdflib_answers_from_no_graph_that_could_not_be_loaded(tmp_path: Path) -> None:
    """After a load that failed or was interrupted, the next query loads again."""
    engine = RdflibEngine(tmp_path / "missing.nq")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            works(engine)
