"""The remote engine's side of the protocol: what it sends, how it reads, waits, follows and gives up."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import httpx
import pytest

from rbank_es import __version__, limits
from rbank_es.errors import BadInput, QueryFailed
from rbank_es.sparql.engines.endpoint import readable
from rbank_es.sparql.engines.query_engine import Caps
from rbank_es.sparql.engines.remote import RemoteEngine
from rbank_es.sparql.engines.retry import retry_after_s
from rbank_es.sparql.results import Answer, Cell, Form
from tests.sparql.fault_server import GOOD, HEAD, JSON, ROW

URL = "http://endpoint.example/sparql"
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
NT = "application/n-triples"
Reply = httpx.Response | Exception
ONE = Cell("literal", "one")


class Endpoint:
    """An endpoint that gives its replies in turn, on a clock that only sleeping moves."""

    def __init__(self, *replies: Reply | Callable[[httpx.Request], Reply], url: str = URL, **settings: str) -> None:
        self.replies = list(replies)
        self.asked: list[httpx.Request] = []
        self.slept: list[float] = []
        self.now = 0.0
        self.engine = RemoteEngine(
            url,
            transport=httpx.MockTransport(self._reply),
            sleep=self._sleep,
            clock=lambda: self.now,
            calendar=lambda: NOW,
            **settings,
        )

    def run(self, query: str = "SELECT * {}", form: Form = "select", **caps: float) -> Answer:
        return self.engine.run(query, form, Caps(**caps))  # type: ignore[arg-type]

    def failure(self, query: str = "SELECT * {}", form: Form = "select", **caps: float) -> QueryFailed:
        with pytest.raises(QueryFailed) as failed:
            self.run(query, form, **caps)
        assert failed.value.hint
        return failed.value

    def _reply(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        made = reply(request) if callable(reply) else reply
        if isinstance(made, Exception):
            raise made
        return made

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def ok(body: bytes = GOOD, media: str = JSON, **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    return status(200, body, media, **headers)


def status(
    code: int, body: bytes = b"", media: str = "text/plain", **headers: str
) -> Callable[[httpx.Request], httpx.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx.Response(code, headers={"content-type": media, **named}, stream=Pieces([body]))


class Pieces(httpx.SyncByteStream):
    """A body in pieces; what is an exception in it is raised."""

    def __init__(self, pieces: list[bytes | Exception]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


# ---------------------------------------------------------------- what is sent


def test_the_user_agent_names_the_release_and_whom_to_write_to() -> None:
    endpoint = Endpoint(ok(), contact="mailto:me@example.org")
    endpoint.run()
    assert endpoint.asked[0].headers["user-agent"] == f"rbank-es/{__version__} (mailto:me@example.org)"
    with pytest.raises(BadInput):
        Endpoint(ok(), contact="two\r\nlines: here")


def test_cookies_are_not_kept() -> None:
    endpoint = Endpoint(ok(set_cookie="session=1; Path=/"))
    endpoint.run()
    endpoint.run()
    assert "cookie" not in endpoint.asked[1].headers


def test_the_environment_names_no_proxy_and_no_password(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    (tmp_path / "netrc").write_text("machine endpoint.example login me password secret")  # type: ignore[operator]
    monkeypatch.setenv("NETRC", f"{tmp_path}/netrc")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    endpoint = Endpoint(ok())
    assert endpoint.run().rows == ((ONE,),)
    assert "authorization" not in endpoint.asked[0].headers


@pytest.mark.parametrize(
    "url",
    [
        *("", "sparql", "ftp://e.org/", "file:///etc/passwd", "http://", "http://[", "http://xn--/", "//e.org/"),
        *("http://127.0.0.1:99999/", "http://127.0.0.1:65536/", "http://127.0.0.1:0/", "http://127.0.0.1:-1/"),
    ],
)
def test_only_http_and_https_urls_are_endpoints(url: str) -> None:
    with pytest.raises(BadInput):
        RemoteEngine(url)


def test_credentials_are_sent_and_never_shown() -> None:
    url = "http://me:s3cret@endpoint.example/sparql?key=t0ken"
    replies = (
        status(400, b"bad key=t0ken of s3cret"),
        httpx.ConnectError("s3cret at me"),
        status(302, location="http://elsewhere.example/?key=t0ken"),
    )
    messages = ""
    for reply in replies:
        endpoint = Endpoint(reply, url=url)
        failed = endpoint.failure()
        messages += f"{failed} {failed.message} {failed.hint} {endpoint.engine.address.shown}"
        assert endpoint.asked[0].headers["authorization"].startswith("Basic ")
        assert endpoint.asked[0].url.params["key"] == "t0ken"
    with pytest.raises(BadInput) as refused:
        RemoteEngine("ftp://me:s3cret@endpoint.example/?t0ken")
    messages += str(refused.value)
    assert ("s3cret" in messages, "t0ken" in messages) == (False, False)


# ---------------------------------------------------------------- what is read


def test_compressed_bodies_are_read() -> None:
    assert Endpoint(ok(gzip.compress(GOOD, mtime=0), content_encoding="gzip")).run().rows == ((ONE,),)


def test_yes_and_no_are_read() -> None:
    assert Endpoint(ok(b'{"head":{},"boolean":false}')).run(form="ask").boolean is False


@pytest.mark.parametrize(
    ("body", "media", "form"),
    [
        (b"<!DOCTYPE html><html><body>Login</body></html>", "text/html", "select"),
        (b"<!DOCTYPE html><html><body>Login</body></html>", JSON, "select"),
        (b'<?xml version="1.0"?><sparql><boolean>true</boolean></sparql>', "application/sparql-results+xml", "ask"),
        (b"Please log in", "text/html", "ask"),
        (b"<html><body>Login</body></html>", "text/html", "construct"),
        (b"<html><body>Login</body></html>", NT, "construct"),
        (b"x\none\n", "text/csv", "select"),
        (b'{"error": "no"}', "application/json", "select"),
        (b'{"head":{},"boolean":true}', JSON, "select"),
        (GOOD, JSON, "ask"),
        (GOOD, JSON, "construct"),
        (b"\x00\x01", "application/octet-stream", "select"),
    ],
)
def test_what_is_no_answer_to_the_query_is_told(body: bytes, media: str, form: Form) -> None:
    assert Endpoint(ok(body, media)).failure(form=form).code == "not_sparql"


def test_a_coding_that_was_not_asked_for_is_told() -> None:
    failure = Endpoint(ok(GOOD, content_encoding="br" * 50)).failure()
    assert failure.code == "not_sparql"
    assert "br" * 20 in str(failure) and "br" * 21 not in str(failure), "its first 40 characters"


@pytest.mark.parametrize(
    ("body", "media", "form"),
    [
        (b"", JSON, "select"),
        (GOOD[:-1], JSON, "select"),
        (HEAD + ROW + b",", JSON, "select"),
        (HEAD + ROW + b"The SPARQL operation has been cancelled", JSON, "select"),
        (b"Virtuoso S1T00 Error: time limit", JSON, "select"),
        (b'<http://e.org/a> <http://e.org/p> "one" .\n<http://e.org/b> <http', NT, "construct"),
        (b'<http://e.org/a> <http://e.org/p> "one" .\nTimed out', "text/turtle", "describe"),
    ],
)
def test_a_whole_body_that_is_not_whole_is_never_a_short_answer(body: bytes, media: str, form: Form) -> None:
    endpoint = Endpoint(ok(body, media))
    assert endpoint.failure(form=form).code == "cut_answer"
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    "packed", [gzip.compress(GOOD, mtime=0)[:-4], gzip.compress(GOOD, mtime=0)[:20], b"no gzip at all"]
)
def test_compressed_data_that_is_cut_or_broken_is_never_a_short_answer(packed: bytes) -> None:
    assert Endpoint(ok(packed, content_encoding="gzip")).failure().code == "cut_answer"


def test_an_answer_that_says_it_is_partial_is_not_used() -> None:
    partial = ok(x_sql_state="S1TAT", x_sql_message="RC...: Returning incomplete results")
    assert Endpoint(partial).failure().code == "cut_answer"


def test_a_connection_that_breaks_amid_the_answer_is_told() -> None:
    for error in (httpx.RemoteProtocolError("peer closed"), httpx.ReadError("reset")):
        broken = httpx.Response(200, headers={"content-type": JSON}, stream=Pieces([HEAD, error]))
        endpoint = Endpoint(broken)
        assert endpoint.failure().code == "cut_answer"
        assert len(endpoint.asked) == 1


# ---------------------------------------------------------------- caps


def test_no_more_is_read_than_the_rows_that_may_be_kept_and_one() -> None:
    endless = [HEAD, *[ROW + b","] * 5, AssertionError("read on")]
    for media, pieces in (
        (JSON, endless),
        (NT, [f"<a:{n}> <b:b> <c:c> .\n".encode() for n in range(5)] + endless[-1:]),
    ):
        response = httpx.Response(200, headers={"content-type": media}, stream=Pieces(pieces))
        answer = Endpoint(response).run(form="select" if media == JSON else "construct", rows=3)
        assert (len(answer.rows), answer.truncated) == (3, "rows")


ENDLESS_HEAD = b'{"head": {"vars": ["x"' + b', "y"' * 2_000
ENDLESS_VALUE = HEAD + ROW.replace(b"one", b"x" * 9_000)


@pytest.mark.parametrize(
    ("body", "media", "form"),
    [
        (ENDLESS_HEAD, JSON, "select"),
        (ENDLESS_HEAD, JSON, "ask"),
        (ENDLESS_VALUE, JSON, "select"),
        (b"<http://e.org/s> <http://e.org/p> '" + b"x" * 9_000, NT, "construct"),
        (b"{" + b" " * 9_000, JSON, "select"),
    ],
)
@pytest.mark.parametrize("coding", ["", "gzip"])
def test_a_body_without_one_row_up_to_the_cap_of_bytes_is_no_empty_answer(
    body: bytes, media: str, form: Form, coding: str
) -> None:
    packed = ok(gzip.compress(body, mtime=0), media, content_encoding="gzip") if coding else ok(body, media)
    failed = Endpoint(packed).failure(form=form, size_bytes=4_000)
    assert (failed.code, "not one whole row" in failed.message) == ("too_large", True)
    assert "select less" in failed.hint


def test_long_values_are_clipped_and_counted() -> None:
    answer = Endpoint(ok()).run(cell_chars=2)
    assert (answer.rows, answer.clipped) == (((Cell("literal", "on"),),), 1)


# ---------------------------------------------------------------- errors and waiting


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (400, "bad_query"),
        (401, "endpoint_error"),
        (403, "endpoint_error"),
        (404, "endpoint_error"),
        (406, "endpoint_error"),
        (414, "bad_query"),
        (500, "endpoint_error"),
        (304, "endpoint_error"),
        (418, "endpoint_error"),
    ],
)
def test_a_status_that_is_no_success_is_told_with_the_endpoints_words_and_not_tried_again(
    code: int, expected: str
) -> None:
    endpoint = Endpoint(status(code, b"because of <b>this</b>", "text/html"))
    failed = endpoint.failure()
    assert (failed.code, str(code) in failed.message, "because of this" in failed.message) == (expected, True, True)
    assert (len(endpoint.asked), endpoint.slept) == (1, [])


def test_an_endpoints_message_is_shortened_and_shows_no_markup_and_no_control_characters() -> None:
    page = b"<html><style>b{}</style><script>alert('<b>')</script>\x1b[31mOh\xe2\x80\xae &lt;no&gt;\r\n<b\nc='d'>x</b>"
    assert readable(page) == "[31mOh <no> x"
    assert readable(b"Unknown prefix in <http://e.org/a> \xff") == "Unknown prefix in <http://e.org/a> \ufffd"
    assert len(readable(b"word " * 1_000)) == limits.ENDPOINT_MESSAGE_CHARS
    assert len(readable(b"<a" * 100_000)) == limits.ENDPOINT_MESSAGE_CHARS
    long = Endpoint(status(400, b"x" * 10**6)).failure()
    assert len(long.message) < limits.ENDPOINT_MESSAGE_CHARS + 60


@pytest.mark.parametrize(
    ("code", "expected"), [(429, "too_many_requests"), (502, "endpoint_error"), (503, "endpoint_error")]
)
def test_tries_are_bounded(code: int, expected: str) -> None:
    endpoint = Endpoint(status(code, b"busy"))
    failed = endpoint.failure()
    assert (failed.code, "busy" in failed.message) == (expected, True)
    assert len(endpoint.asked) == 1 + limits.ENDPOINT_RETRIES
    assert endpoint.failure().code == expected


def test_an_agent_that_can_not_wait_is_told_what_to_do_about_too_many_requests() -> None:
    hint = Endpoint(status(429)).failure().hint
    assert "wait" not in hint
    assert all(way in hint for way in ("go on with what you have", "the same query", "fewer and larger queries"))


def test_nobody_waits_longer_than_the_limit_or_past_the_deadline() -> None:
    for asked, timeout_s in (("31", 300.0), ("20", 10.0), ("99999999999999", 300.0)):
        endpoint = Endpoint(status(429, retry_after=asked))
        failed = endpoint.failure(timeout_s=timeout_s)
        assert (failed.code, "asks to wait" in failed.message) == ("too_many_requests", True)
        assert (len(endpoint.asked), endpoint.slept) == (1, [])
    late = Endpoint(status(503))
    assert late.failure(timeout_s=2.5).code == "endpoint_error"
    assert late.slept == [1.0]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 12 ", 12.0),
        ("Wed, 02 Jan 2030 03:05:05 GMT", 60.0),
        ("Wed, 02 Jan 2030 03:05:05 -0000", 60.0),
        ("Wed, 02 Jan 2030 04:05:05 +0100", 60.0),
        ("Tue, 01 Jan 2030 00:00:00 GMT", 0.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        (f"Wed, 02 Jan {10**20} 03:05:05 GMT", None),
        (f"Wed, 02 Jan 2030 03:05:05 +{10**20}", None),
        ("٣", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": value}, NOW) == seconds


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), httpx.ReadError("reset")]
)
def test_an_endpoint_that_can_not_be_reached_is_tried_again(error: Exception) -> None:
    endpoint = Endpoint(error, ok())
    assert endpoint.run().rows == ((ONE,),)
    down = Endpoint(error)
    failed = down.failure()
    assert (failed.code, "http://endpoint.example/sparql" in failed.message) == ("unreachable", True)
    assert len(down.asked) == 1 + limits.ENDPOINT_RETRIES


def test_after_a_read_timeout_nothing_is_tried_again() -> None:
    for reply in (
        httpx.ReadTimeout("silence"),
        httpx.Response(200, headers={"content-type": JSON}, stream=Pieces([HEAD, httpx.ReadTimeout("silence")])),
    ):
        endpoint = Endpoint(reply)
        assert endpoint.failure().code == "timeout"
        assert len(endpoint.asked) == 1


def test_the_deadline_holds_between_two_pieces() -> None:
    def drip() -> Iterator[bytes]:
        yield HEAD
        while True:
            endpoint.now += 1
            yield ROW + b","

    class Drip(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return drip()

    endpoint = Endpoint(httpx.Response(200, headers={"content-type": JSON}, stream=Drip()))
    assert endpoint.failure(timeout_s=5, rows=1_000).code == "timeout"
    assert endpoint.now <= 6


# ---------------------------------------------------------------- redirects


@pytest.mark.parametrize(("code", "method"), [(301, "POST"), (302, "POST"), (303, "GET"), (307, "POST"), (308, "POST")])
def test_a_redirected_post_stays_one_except_where_the_answer_lies_elsewhere(code: int, method: str) -> None:
    endpoint = Endpoint(status(code, location="/new"), ok())
    endpoint.run("SELECT * {} #" + "x" * 3_000)
    first, second = endpoint.asked
    assert (second.method, second.content) == (method, first.content if method == "POST" else b"")
    assert second.headers.get("content-type") == (first.headers["content-type"] if method == "POST" else None)


@pytest.mark.parametrize(
    "location",
    [
        "http://elsewhere.example/sparql",
        "https://endpoint.example/sparql",
        "http://endpoint.example:8080/sparql",
        "//elsewhere.example/sparql",
        "http://endpoint.example@elsewhere.example/",
        "file:///etc/passwd",
        "http://[",
        "http://xn--/",
    ],
)
def test_a_redirect_to_anywhere_else_is_told_and_not_followed(location: str) -> None:
    endpoint = Endpoint(status(302, location=location), ok())
    failed = endpoint.failure()
    assert (failed.code, "nothing was sent" in failed.message) == ("redirected", True)
    assert len(endpoint.asked) == 1


def test_redirects_are_bounded() -> None:
    endpoint = Endpoint(status(302, location="/sparql"))
    assert endpoint.failure().code == "redirected"
    assert len(endpoint.asked) == 1 + limits.ENDPOINT_REDIRECTS


# ---------------------------------------------------------------- the engine


def test_an_endpoint_has_one_request_at_a_time() -> None:
    busy, most = 0, 0

    def reply(request: httpx.Request) -> httpx.Response:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        threading.Event().wait(0.02)
        busy -= 1
        return ok()(request)

    endpoint = Endpoint(reply)
    threads = [threading.Thread(target=endpoint.run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(endpoint.asked), most) == (5, 1)
