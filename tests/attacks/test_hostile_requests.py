"""Requests to a served bank from other sites, other programs, and clients that mean harm."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.dashboard.http_request import Refused, parse_request
from rbank_es.limits import page_limits
from tests.cli_runner import SAMPLE
from tests.dashboard.served_bank import Served, read_reply, served
from tests.effort import examples


@pytest.fixture(scope="module")
def sample() -> Iterator[Served]:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        yield found


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8642"},
        {"host": "127.0.0.1"},
        {"host": "127.0.0.1:1"},
        {"host": "[::1]:8642"},
        {"host": ""},
    ],
)
def test_a_foreign_host_is_misdirected_even_with_the_cookie(sample: Served, headers: dict[str, str]) -> None:
    """A name that an attacker's server resolves to this machine makes the browser send nothing here that counts."""
    assert sample.get("/api/v1/runs", **headers).status == 421


def test_a_request_without_a_host_is_misdirected(sample: Served) -> None:
    assert sample.get("/", drop="host").status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "odd"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/runs", "/api/v1/live?after=0"])
def test_another_site_is_refused_even_with_the_cookie(sample: Served, path: str, headers: dict[str, str]) -> None:
    assert sample.get(path, **headers).status == 403


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "rbank-es-{port}=",
        "rbank-es-{port}=wrong",
        "rbank-es-1={token}",
        "{token}",
        "rbank-es-{port}=\xe9",
        "=;=\x7e;;",
    ],
)
def test_without_the_token_nothing_is_answered(sample: Served, cookie: str) -> None:
    given = cookie.format(port=sample.port, token=sample.token)
    for path in ("/", "/api/v1/bank", "/api/v1/live?after=0", "/nosuch", f"/?token={sample.token[:-1]}"):
        assert sample.get(path, cookie=given).status in (400, 401)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_a_method_that_could_change_something_is_refused(sample: Served, method: str) -> None:
    reply = sample.get("/api/v1/runs", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad name: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\x00b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"GET /?" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET " + b"/a" * 20_000, 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000 + b"\r\n", 431),
        (b"GET /?a=1&a=2 HTTP/1.1\r\n\r\n", 400),
        (b"GET /?a=%ff HTTP/1.1\r\n\r\n", 400),
        (b"GET /?" + b"&".join(b"a%d=1" % n for n in range(30)) + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_a_malformed_or_huge_request_is_refused(sample: Served, data: bytes, status: int) -> None:
    assert sample.send(data).status == status


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=80).map(lambda tail: b"GET / HTTP/1.1\r\nhost: x\r\n" + tail))
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    try:
        request = parse_request(head + b"\r\n\r\n")
    except Refused as refused:
        assert refused.status in (400, 405, 414)
    else:
        assert request.method in ("GET", "HEAD") and request.path.startswith("/")


def test_slow_clients_hold_their_own_threads_for_a_bounded_time_and_nobody_else(
    sample: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_limits, "REQUEST_S", 0.5)
    with ExitStack() as stack:
        slow = [stack.enter_context(sample.connect()) for _ in range(page_limits.SERVER_THREADS - 1)]
        for client in slow:
            client.sendall(b"GET / HTT")
        begin = time.monotonic()
        assert sample.get("/api/v1/runs?limit=1").status == 200
        assert time.monotonic() - begin < 3
        for client in slow:  # each is closed without an answer
            client.settimeout(10)
            assert client.recv(100) == b""
    assert sample.get("/api/v1/runs?limit=1").status == 200


def test_beyond_its_threads_the_server_says_so_at_once(sample: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        for _ in range(page_limits.SERVER_THREADS):
            stack.enter_context(sample.connect()).sendall(b"GET / HTT")
        time.sleep(0.2)
        with sample.connect() as client:
            assert read_reply(client).status == 503


def test_a_reader_that_takes_no_byte_of_its_answer_costs_nobody_else(sample: Served) -> None:
    with sample.connect() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        lazy.sendall(sample.head("/api/v1/bank"))
        asked = [Thread(target=sample.get, args=("/api/v1/runs",)) for _ in range(4)]
        for each in asked:
            each.start()
        for each in asked:
            each.join(10)
            assert not each.is_alive()


@pytest.mark.parametrize("parameter", ["at", "id", "sort", "q", "after", "limit", "state", "item", "model", "domain"])
def test_sql_in_any_parameter_is_text(sample: Served, parameter: str) -> None:
    for hostile in ("1;DROP%20TABLE%20runs", "'%20OR%20''='", "1%20UNION%20SELECT%20*%20FROM%20sqlite_master--", "%00"):
        for name in ("runs", "items", "run", "item", "search", "leakage", "changes"):
            reply = sample.get(f"/api/v1/{name}?{parameter}={hostile}")
            assert reply.status in (200, 400, 404), (name, reply)
            assert not any(word in reply.body for word in (b"syntax", b"no such column", b"CREATE TABLE"))
    assert sample.ask("runs")["total"] == 31
