"""Requests to a served bank from other sites, other programs, and clients that mean harm."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.limits import page_limits
from rbank_es.page.http_request import Refused, parse_request
from tests.cli_runner import SAMPLE
from tests.effort import examples
from tests.page.served_bank import Served, read_reply, served


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
        "rbank-es=",
        "rbank-es=wrong",
        "rbank-es={token}x",
        'rbank-es="{token}"',
        "rbank-es-1={token}",
        "x-rbank-es={token}",
        "x=rbank-es={token}",
        "{token}",
        "rbank-es=\xe9",
        "=;=\x7e;;",
    ],
)
def test_without_the_token_nothing_is_answered(sample: Served, cookie: str) -> None:
    given = cookie.format(token=sample.token)
    for path in ("/", "/api/v1/about", "/api/v1/live?after=0", "/nosuch", f"/?token={sample.token[:-1]}"):
        assert sample.get(path, cookie=given).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v1/about",
        "{place}",  # without its last character, below
        "/{place}",
        "/x{place}",
        "/?token={token}x",
        "/?token={token}&at=1",
        "/?at=1&token={token}",
        "/nosuch?token={token}",
        "{wrong}",
        "{wrong}api/v1/about",
    ],
)
def test_outside_of_its_place_the_cookie_opens_nothing(sample: Served, path: str) -> None:
    place, wrong = sample.place[:-1], sample.place[:-2] + ("x/" if sample.place[-2] != "x" else "y/")
    line = f"GET {path.format(place=place, wrong=wrong, token=sample.token)} HTTP/1.1"
    head = "\r\n".join([line, f"host: 127.0.0.1:{sample.port}", f"cookie: {sample.cookie}", "", ""])
    assert sample.send(head.encode()).status == 401


def test_cookies_of_other_programs_take_nobodys_access_away(sample: Served) -> None:
    """Whatever they are, and though one has this name: other ports can set cookies for this host too."""
    for others in ("rbank-es=evil", 'a="b;c', "=;;", "\xe9=\xe9", "rbank-es", "a=" + "x" * 12_000):
        for cookie in (f"{others}; {sample.cookie}", f"{sample.cookie};{others}"):
            assert sample.get("/api/v1/about", cookie=cookie).status == 200, others[:20]


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
        (b"GET / HTTP/1.1\r\nhost: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nhost: a\n\n\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\nb: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: -0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\ncontent-length: 0\r\n\r\n", 400),
        (b"GET /?" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET " + b"/a" * 20_000, 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431),
    ],
)
def test_a_malformed_or_huge_request_is_refused(sample: Served, data: bytes, status: int) -> None:
    assert sample.send(data).status == status


@pytest.mark.parametrize("name", ["host", "origin", "cookie", "sec-fetch-site", "content-length"])
def test_a_header_that_decides_is_refused_twice(sample: Served, name: str) -> None:
    """In whatever case, and though both say the same: a program between could have read the other one."""
    usual = {
        "host": f"127.0.0.1:{sample.port}",
        "origin": f"http://127.0.0.1:{sample.port}",
        "cookie": sample.cookie,
        "sec-fetch-site": "same-origin",
        "content-length": "0",
    }
    once = sample.head("/api/v1/runs", **{each.replace("-", "_"): value for each, value in usual.items()})
    assert sample.send(once).status == 200
    twice = once.removesuffix(b"\r\n") + f"{name.title()}: {usual[name]}\r\n\r\n".encode()
    reply = sample.send(twice)
    assert reply.status == 400 and f"{name} is given twice" in reply.json()["error"]


@pytest.mark.parametrize("query", ["at=1&at=2", "q=%ff", "&".join(f"a{n}=1" for n in range(30)), "q=" + "%41" * 2_000])
def test_parameters_that_cannot_be_are_refused_after_the_token_only(sample: Served, query: str) -> None:
    assert sample.get(f"/api/v1/runs?{query}").status == 400
    assert sample.get(f"/api/v1/runs?{query}", drop="cookie").status == 401


@pytest.mark.parametrize("pieces", [1, 2, 40])
def test_the_limit_of_a_head_holds_however_it_arrives(sample: Served, pieces: int) -> None:
    """One byte under, at, and over the limit; and the 20 kB of which the last piece brings the end."""
    plain = sample.head("/api/v1/about", x="")
    for size in (page_limits.REQUEST_HEAD_BYTES + more for more in (-1, 0, 1, 4_000, 40_000)):
        data = sample.head("/api/v1/about", x="y" * (size - len(plain)))
        assert len(data) == size
        with sample.connect() as client:
            step = -(-size // pieces)
            with suppress(OSError):  # refused before all of it was sent
                for at in range(0, size, step):
                    client.sendall(data[at : at + step])
                    time.sleep(0.001)
            assert read_reply(client).status == (200 if size <= page_limits.REQUEST_HEAD_BYTES else 431), size


def test_what_follows_the_first_request_is_never_answered(sample: Served) -> None:
    one, other = sample.head("/api/v1/runs?limit=1"), sample.head("/api/v1/about")
    assert sample.send(one + other) == sample.send(one)
    assert sample.send(one + other * 500).status == 200


ROOM = page_limits.REQUEST_HEAD_BYTES - 300
LINE = page_limits.REQUEST_LINE_BYTES - 50


def filling(unit: str, room: int) -> str:
    return unit * (room // len(unit))


COSTLY = {
    "a quoted cookie": "cookie: " + 'rbank-es="' + filling(r"\\", ROOM) + '"',
    "quotes in a quoted cookie": "cookie: " + 'rbank-es="' + filling(r"\"", ROOM) + '"',
    "octal escapes in a cookie": "cookie: " + 'rbank-es="' + filling(r"\101", ROOM) + '"',
    "many cookies": "cookie: " + filling("a=b;", ROOM),
    "many cookies of this name": "cookie: " + filling("rbank-es=x;", ROOM),
    "spaces in a cookie": "cookie: " + filling("; ", ROOM),
    "one run of spaces": "cookie: ;" + filling(" ", ROOM),
    "white space around a value": "x: " + filling("\t ", ROOM),
    "many headers": filling("a: b\r\n", ROOM) + "c: d",
    "a long name": filling("a", ROOM) + ": b",
    "a long origin": "origin: " + filling("http://", ROOM),
    "a query in percent": "?" + filling("%41", LINE),
    "a token in percent": "/?token=" + filling("%e9", LINE),
    "many parameters": "?" + filling("a&", LINE),
    "many slashes": filling("/", LINE),
}
"""Heads as long as the server reads them, of what is slow to parse: a target where it begins so, else headers."""


@pytest.mark.parametrize("kind", COSTLY)
def test_no_head_takes_the_processor_before_the_token_is_checked(sample: Served, kind: str) -> None:
    """At most 30 ms of this thread, of the best of five: a head of this size is parsed in one."""
    text, place, handler = COSTLY[kind], sample.place, sample.handler
    # Of one who knows the place: others are refused without a look at their cookies.
    target, header = (text if text[0] == "/" else place + text, "a: b") if text[0] in "/?" else (place, text)
    data = f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{sample.port}\r\n{header}\r\n\r\n".encode()
    assert page_limits.REQUEST_LINE_BYTES - 200 < len(data) <= page_limits.REQUEST_HEAD_BYTES
    taken = []
    for _ in range(5):
        begin = time.thread_time()
        try:
            status = handler.respond(parse_request(data)).status
        except Refused as refused:
            status = refused.status
        taken.append(time.thread_time() - begin)
        assert status in (400, 401, 403, 431)
    assert min(taken) < 0.03, taken


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=80).map(lambda tail: b"GET / HTTP/1.1\r\nhost: x\r\n" + tail))
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    try:
        request = parse_request(head + b"\r\n\r\n")
    except Refused as refused:
        assert refused.status in (400, 405, 414, 431)
    else:
        assert request.method in ("GET", "HEAD") and request.path.startswith("/")


def test_slow_clients_hold_their_own_threads_for_a_bounded_time_and_nobody_else(
    sample: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_limits, "REQUEST_S", 2)
    sample.wait_until_idle()
    with ExitStack() as stack:
        slow = [stack.enter_context(sample.connect()) for _ in range(page_limits.SERVER_THREADS - 1)]
        for client in slow:
            client.sendall(b"GET / HTT")
        assert sample.get("/api/v1/runs?limit=1").status == 200
        for client in slow:  # each is closed without an answer
            client.settimeout(60)
            assert client.recv(100) == b""
    assert sample.get("/api/v1/runs?limit=1").status == 200


def test_beyond_its_threads_the_server_says_so_at_once(sample: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    sample.wait_until_idle()
    with ExitStack() as stack:
        # Accepted in their order, so that each of these has its thread before the last one comes.
        for _ in range(page_limits.SERVER_THREADS):
            stack.enter_context(sample.connect()).sendall(b"GET / HTT")
        with sample.connect() as client:
            assert read_reply(client).status == 503


def test_a_reader_that_takes_no_byte_of_its_answer_costs_nobody_else(sample: Served) -> None:
    with sample.connect() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        lazy.sendall(sample.head("/api/v1/about"))
        asked = [Thread(target=sample.get, args=("/api/v1/runs",)) for _ in range(4)]
        for each in asked:
            each.start()
        for each in asked:
            each.join(60)
            assert not each.is_alive()


@pytest.mark.parametrize("parameter", ["at", "id", "sort", "q", "after", "limit", "state", "item", "model", "domain"])
def test_sql_in_any_parameter_is_text(sample: Served, parameter: str) -> None:
    for hostile in ("1;DROP%20TABLE%20runs", "'%20OR%20''='", "1%20UNION%20SELECT%20*%20FROM%20sqlite_master--", "%00"):
        for name in ("runs", "items", "run", "item", "search", "leakage", "changes"):
            reply = sample.get(f"/api/v1/{name}?{parameter}={hostile}")
            assert reply.status in (200, 400, 404), (name, reply)
            assert not any(word in reply.body for word in (b"syntax", b"no such column", b"CREATE TABLE"))
    assert sample.ask("runs")["total"] == 31
