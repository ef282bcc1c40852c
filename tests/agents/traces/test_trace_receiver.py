"""The receiver of traces: what it refuses, what it says with 200, and what the SDK's exporter brings into a bank."""

from __future__ import annotations

import gzip
import json
import socket
import sqlite3
import subprocess
import time
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from rbank_es import Bank
from rbank_es.agents.hook_doctor import examine_traces
from rbank_es.agents.spool import spool_of
from rbank_es.agents.traces import trace_spool
from rbank_es.agents.traces.otlp_body import body_of_document
from rbank_es.agents.traces.span_facts import FactReader, facts_of
from rbank_es.agents.traces.trace_intake import take_from, take_traces_in
from rbank_es.agents.traces.trace_run import OTLP_SETTLE_S
from rbank_es.agents.traces.trace_spool import TraceSpool
from rbank_es.errors import CannotWrite
from rbank_es.events import LmCalled, RunFinished, RunStarted, ToolCalled
from rbank_es.limits.otlp_limits import OTLP_BODY_BYTES
from rbank_es.page.page_handler import PageHandler
from rbank_es.page.page_server import PageServer, listen
from rbank_es.page.trace_receiver import TraceReceiver
from tests.agents.traces.made_traces import SAMPLES, Fields, chat, request, root, tool, traces, write
from tests.cli_runner import COMMAND, environment, run
from tests.effort import examples
from tests.page.served_bank import Reply, read_reply

TOKEN = "the-token-of-a-test"
BODY = json.dumps(request([root(1, "Which lamps?", "a")])).encode()


class Receiving:
    """A server that takes traces, and a sender that says exactly what a test wants."""

    def __init__(self, bank: Bank, port: int) -> None:
        self.bank, self.port = bank, port

    def send(self, data: bytes) -> Reply:
        with socket.create_connection(("127.0.0.1", self.port), timeout=100) as client:
            client.sendall(data)
            return read_reply(client)

    def head(self, *, method: str = "POST", path: str = "/v1/traces", **headers: str | None) -> bytes:
        given: dict[str, str | None] = {"host": f"127.0.0.1:{self.port}", "authorization": f"Bearer {TOKEN}"}
        given |= {"content-type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()

    def post(self, body: bytes, **headers: Any) -> Reply:
        return self.send(self.head(**({"content_length": str(len(body))} | headers)) + body)


@contextmanager
def receiving(folder: Path) -> Iterator[Receiving]:
    with Bank.open(folder / "bank", create=True) as bank:
        listening = listen(0)
        receiver = TraceReceiver(bank, TOKEN)
        server = PageServer(PageHandler(bank, listening.getsockname()[1], receiver=receiver), listening)
        thread = Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield Receiving(bank, listening.getsockname()[1])
        finally:
            server.stop()
            thread.join(100)
            receiver.close()
            assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Receiving]:
    with receiving(tmp_path) as running:
        yield running


def runs(folder: Path) -> list[RunStarted]:
    with Bank.open(folder / "bank") as bank:
        return [event for event in bank.log.read(types=["run_started"]) if isinstance(event, RunStarted)]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"authorization": None}),
        (401, {"authorization": "Bearer wrong"}),
        (401, {"authorization": f"Basic {TOKEN}"}),
        (403, {"origin": "http://elsewhere.example"}),
        (421, {"host": "elsewhere.example"}),
        (405, {"method": "PUT"}),
        (405, {"path": "/v1/metrics"}),
        (415, {"content_type": "text/plain"}),
        (415, {"content_encoding": "br"}),
        (411, {"content_length": None}),
        (411, {"content_length": "-1"}),
        (413, {"content_length": str(OTLP_BODY_BYTES + 1)}),
        (400, {"transfer_encoding": "chunked"}),
        (400, {"content_length": None, "transfer_encoding": "gzip, chunked"}),
        (400, {"content_encoding": "gzip"}),
    ],
    ids=str,
)
def test_a_request_that_is_not_taken_says_why(there: Receiving, status: int, headers: dict[str, Any]) -> None:
    reply = there.post(BODY, **headers)
    assert reply.status == status and len(reply.json().get("error", reply.json().get("message"))) > 10
    assert there.bank.position == 2


@pytest.mark.parametrize(
    ("status", "media", "body"),
    [
        (400, "application/json", b"{"),
        (400, "application/json", b"[]"),
        (400, "application/json", b"[" * 100_000),
        (400, "application/x-protobuf", b"\xff" * 50),
        (400, "application/x-protobuf", BODY),
        (200, "application/json", b""),
        (200, "application/x-protobuf", b""),
        (200, "application/json; charset=utf-8", b'{"resourceSpans": 5}'),
        (200, "application/json", b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "\\ud800"}]}]}]}'),
    ],
)
def test_a_body_of_any_kind_gets_an_answer_in_its_form(there: Receiving, status: int, media: str, body: bytes) -> None:
    reply = there.post(body, content_type=media)
    assert reply.status == status and reply.headers["content-type"].startswith(media.partition(";")[0])


def test_a_bomb_is_refused_before_it_is_unpacked(there: Receiving) -> None:
    packed = gzip.compress(bytes(OTLP_BODY_BYTES * 3))
    assert len(packed) < 100_000 and there.post(packed, content_encoding="gzip").status == 413
    # In two members, of which each is within the limit.
    half = gzip.compress(bytes(OTLP_BODY_BYTES * 2 // 3))
    assert there.post(half * 2, content_encoding="gzip").status == 413
    assert there.post(gzip.compress(BODY)[:-5], content_encoding="gzip").status == 400


@pytest.mark.parametrize("form", ["plain", "gzip", "members", "deflate", "chunks", "expect"])
def test_a_body_may_come_packed_or_in_chunks(tmp_path: Path, form: str) -> None:
    half = len(BODY) // 2
    with receiving(tmp_path) as there:
        if form == "chunks":
            pieces = b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in (BODY[:half], BODY[half:]))
            reply = there.send(there.head(transfer_encoding="chunked") + pieces + b"0\r\n\r\n")
        elif form == "members":
            reply = there.post(gzip.compress(BODY[:half]) + gzip.compress(BODY[half:]), content_encoding="gzip")
        elif form in ("gzip", "deflate"):
            packed = gzip.compress(BODY) if form == "gzip" else zlib.compress(BODY)
            reply = there.post(packed, content_encoding=form)
        else:
            reply = there.post(BODY, **({"expect": "100-continue"} if form == "expect" else {}))
    assert b"{}" in reply.body
    assert [start.task for start in runs(tmp_path)] == ["Which lamps?"]


def test_what_is_refused_for_good_is_counted_in_the_response(there: Receiving) -> None:
    spans = [root(1, "q", "a"), chat(2, 1, "q", "a") | {"spanId": "00"}]
    reply = there.post(json.dumps(request(spans)).encode())
    told = reply.json()["partialSuccess"]
    assert reply.status == 200 and told["rejectedSpans"] == "1" and "spanId" in told["errorMessage"]
    sent = ExportTraceServiceRequest.FromString((SAMPLES / "genai.pb").read_bytes())
    sent.resource_spans[0].scope_spans[0].spans[0].trace_id = b"short"
    reply = there.post(sent.SerializeToString(), content_type="application/x-protobuf")
    answer = ExportTraceServiceResponse.FromString(reply.body)
    assert (
        answer.partial_success.rejected_spans == 1 and "32 hexadecimal digits" in answer.partial_success.error_message
    )


def test_a_sender_that_goes_away_leaves_the_server_to_others(there: Receiving) -> None:
    with socket.create_connection(("127.0.0.1", there.port)) as client:
        client.sendall(there.head(content_length="1000") + b"{")
    with socket.create_connection(("127.0.0.1", there.port)) as client:
        client.sendall(there.head(transfer_encoding="chunked") + b"ffff\r\nabc")
    assert there.post(BODY).status == 200


# ---------------------------------------------------------------- durability


def test_nothing_is_answered_200_that_is_not_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with receiving(tmp_path) as there:
        with monkeypatch.context() as patched:
            patched.setattr(TraceSpool, "add", fails)
            assert there.post(BODY).status == 503
        assert there.post(BODY).status == 200
    assert len(runs(tmp_path)) == 1


def test_a_spool_that_is_full_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_spool, "OTLP_SPOOL_BYTES", 60_000)
    large = json.dumps(request([tool(number, None, "x", "lamp " * 1_000) for number in range(1, 40)])).encode()
    with receiving(tmp_path) as there:
        assert there.post(large).status == 503 and there.post(BODY).status == 200
    assert len(runs(tmp_path)) == 1


@pytest.mark.slow
def test_a_server_that_is_killed_loses_nothing_that_it_answered_200_to(tmp_path: Path) -> None:
    env = environment({"RBANK_OTLP_TOKEN": TOKEN, "XDG_DATA_HOME": str(tmp_path / "data")})
    with Bank.create(tmp_path / "bank"):
        pass
    words = [*COMMAND, "serve", "./bank", "--port", "0", "--json", "--otlp"]
    sent, number = set[str](), 0
    for _ in range(3):
        process = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [line for line in iter(process.stdout.readline, "}\n")]
        port = json.loads("".join([*lines, "}"]))["port"]
        enough = Event()
        killer = Thread(target=lambda it, enough: enough.wait(60) and it.kill(), args=(process, enough))
        killer.start()
        wanted = len(sent) + 8
        while process.poll() is None:
            number += 1
            body = json.dumps(request([root(1, f"q{number}", "a", trace=number)])).encode()
            headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body, headers)
            try:
                with urllib.request.urlopen(asked, timeout=60) as reply:
                    if reply.status == 200:
                        sent.add(f"q{number}")
                    if len(sent) >= wanted:
                        enough.set()
            except OSError:
                break
        killer.join()
        process.wait()
    time.sleep(OTLP_SETTLE_S + 0.5)
    with Bank.open(tmp_path / "bank") as bank:
        take_traces_in(bank)
        took = {event.task for event in bank.log.read(types=["run_started"]) if isinstance(event, RunStarted)}
        assert bank.check().ok
    assert len(sent) > 20 and sent <= took


# ---------------------------------------------------------------- the spool


def spooled(bank: Bank, spool: TraceSpool, spans: list[Fields], now_s: float) -> None:
    spool.add(facts_of(body_of_document(request(spans), "traces"), FactReader(())), now_s)
    take_from(spool, bank)


@given(spans=traces(), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_trace_that_comes_to_a_spool_in_any_parts_is_the_same_run(
    tmp_path_factory: pytest.TempPathFactory, spans: list[Fields], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(spans), max_size=3), "these come twice")
    order = data.draw(st.permutations([*spans, *again]), "in this order")
    quiet = data.draw(st.lists(st.sampled_from([0.0, 30.0, 2_000.0]), min_size=len(order), max_size=len(order)))
    found = []
    for parts in ([[each] for each in order], [spans]):
        folder = tmp_path_factory.mktemp("spool")
        with Bank.create(folder / "bank") as bank:
            spool = TraceSpool(str(folder / "bank"))
            for part, quiet_s in zip(parts, quiet, strict=False):
                spooled(bank, spool, part, time.time() - quiet_s)
            spool.add([], time.time())
            spooled(bank, spool, spans, time.time() - 2_000)
            spool.close()
            acts = {event.id for event in bank.log.read() if isinstance(event, LmCalled | ToolCalled)}
            ends = [event for event in bank.log.read() if isinstance(event, RunFinished)]
        found.append((acts, ends[-1].id, ends[-1].answer, ends[-1].iterations, ends[-1].outcome))
    assert found[0] == found[1]


def test_a_spool_in_another_users_place_is_not_opened(tmp_path: Path) -> None:
    folder = spool_of(str(tmp_path / "bank")).folder
    folder.mkdir(parents=True)
    (folder / "traces.sqlite3").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotWrite):
        TraceSpool(str(tmp_path / "bank"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_damaged_spool_stops_no_command_and_a_row_of_another_release_no_other(tmp_path: Path) -> None:
    place = str(tmp_path / "bank")
    with Bank.create(tmp_path / "bank") as bank:
        spool = TraceSpool(place)
        spool.add(facts_of(body_of_document(request([root(1, "q", "a")]), "traces"), FactReader(())), 0)
        spool.close()
        path = spool_of(place).folder / "traces.sqlite3"
        with closing(sqlite3.connect(path)) as base, base:
            base.execute("INSERT INTO span VALUES (?, 'x', '', 0, ?)", (f"{1:032x}", b'{"of": "another"}'))
        assert take_traces_in(bank)._replace(appended=0) == (1, 0, 0, 1)
        for part in path.parent.glob("traces.sqlite3*"):
            part.write_bytes(b"garbage " * 1_000)
        items = write(tmp_path / "items.jsonl", [{"title": "Look at all lamps", "content": "Look at every lamp."}])
        shown = run("import", place, items, cwd=tmp_path)
        assert "the spool of traces can't be read" in shown.err and "item" in shown.out


@pytest.mark.parametrize("by_command", [False, True])
def test_an_erasure_reaches_what_waits_in_the_spool(by_command: bool, tmp_path: Path) -> None:
    """Also a trace without its root, and while a server has the spool open; a dry run only tells of it."""
    place, words = str(tmp_path / "bank"), "the key is under the third stone"
    Bank.create(place).close()
    spool = TraceSpool(place)
    sent = [root(1, words, "a"), chat(22, 21, f"I say that {words}", "b", trace=2)]
    spool.add(facts_of(body_of_document(request(sent), "traces"), FactReader(())), time.time())
    secret = tmp_path / "secret.txt"
    secret.write_text(words)
    dry = run("erase", place, "--text", secret, "--dry-run", cwd=tmp_path)
    assert "2 traces that agents sent would be taken in before" in dry.err and spool.size()[:2] == (2, 2)
    if by_command:
        assert "erased from bank" in run("erase", place, "--text", secret, "--yes", cwd=tmp_path).out
    with Bank.open(place) as bank:
        if not by_command:
            assert bank.erase(text=words).erasure.residue is not None
        assert spool.size()[:2] == (0, 0) and len(bank.runs().rows) == 2
    held = [*Path(place).rglob("*"), *spool_of(place).folder.glob("*")]
    assert not any(words.encode() in path.read_bytes() for path in held if path.is_file())
    spool.close()


def test_the_doctor_says_what_traces_wait_and_that_a_damaged_spool_can_not_be_read(tmp_path: Path) -> None:
    place = str(tmp_path / "bank")
    assert examine_traces(place) == []
    spool = TraceSpool(place)
    spool.add(facts_of(body_of_document(request([root(1, "q", "a")]), "traces"), FactReader(())), 1_795_348_022)
    spool.close()
    [check] = examine_traces(place)
    assert check.ok and check.detail.startswith("1 trace of 1 span wait to be taken in, the first since 2026-11-22")
    for part in spool_of(place).folder.glob("traces.sqlite3*"):
        part.write_bytes(b"garbage " * 1_000)
    [check] = examine_traces(place)
    assert not check.ok and "can't be read" in check.detail and check.fix


# ---------------------------------------------------------------- the SDK


def provider(port: int) -> TracerProvider:
    exporter = OTLPSpanExporter(
        f"http://127.0.0.1:{port}/v1/traces", headers={"authorization": f"Bearer {TOKEN}"}, timeout=10
    )
    made = TracerProvider(resource=Resource.create({"service.name": "lamp-agent"}))
    made.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=64, schedule_delay_millis=50))
    return made


def test_the_sdk_brings_messages_by_logs_that_join_their_span(tmp_path: Path) -> None:
    with receiving(tmp_path) as there:
        headers = {"authorization": f"Bearer {TOKEN}"}
        told = LoggerProvider()
        exporter = OTLPLogExporter(f"http://127.0.0.1:{there.port}/v1/logs", headers=headers, timeout=60)
        told.add_log_record_processor(BatchLogRecordProcessor(exporter))
        sdk = provider(there.port)
        with sdk.get_tracer("a-test").start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
            asked = [{"role": "user", "parts": [{"type": "text", "content": "Which lamps?"}]}]
            told.get_logger("a-test").emit(
                timestamp=time.time_ns(),
                event_name="gen_ai.client.inference.operation.details",
                attributes={"gen_ai.input.messages": asked},
            )
        assert sdk.force_flush() and told.force_flush()
        sdk.shutdown()
        told.shutdown()
    assert [start.task for start in runs(tmp_path)] == ["Which lamps?"]
