"""The served bank: its answers over HTTP, what follows while it grows, and what it says when the bank is in trouble."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Semaphore, Thread

import pytest

from rbank_es import Bank
from rbank_es.answers import QUESTIONS
from rbank_es.errors import BadInput
from rbank_es.events import RunFinished, RunStarted
from rbank_es.limits import page_limits
from rbank_es.page.http_request import PageRequest
from rbank_es.page.http_response import PageResponse, refusal
from rbank_es.page.page_handler import PageHandler
from rbank_es.page.page_server import PageServer, listen
from tests.cli_runner import SAMPLE
from tests.page.served_bank import Served, path_of, served
from tests.places import damage, filled


@pytest.fixture(scope="module")
def sample() -> Iterator[Served]:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        yield found


class SlowHandler(PageHandler):
    """A handler that takes as many seconds as the address says."""

    def __init__(self, bank: Bank, port: int) -> None:
        super().__init__(bank, port)
        self.begun, self.end, self.done = Semaphore(0), Event(), list[str]()

    def respond(self, request: PageRequest) -> PageResponse:
        self.begun.release()
        self.end.wait(float(request.path.strip("/")))
        self.done.append(request.path)
        return refusal(404, "nothing is here")


@pytest.mark.slow
def test_a_server_that_stops_waits_three_seconds_for_requests_under_way() -> None:
    """A request of 0.5 s is answered; one of a minute doesn't keep the server from ending."""
    with Bank.open(SAMPLE) as bank:
        listening = listen(0)
        handler = SlowHandler(bank, listening.getsockname()[1])
        server = PageServer(handler, listening)
        thread = Thread(target=server.serve, daemon=True)
        thread.start()
        clients = [socket.create_connection(("127.0.0.1", handler.port)) for _ in range(2)]
        for client, path in zip(clients, ("/0.5", "/60"), strict=True):
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            handler.begun.acquire()
        server.stop()
        thread.join()
        assert handler.done == ["/0.5"]
        handler.end.set()
        for client in clients:
            client.close()


def test_the_printed_address_is_exchanged_for_a_place_and_a_cookie_that_holds_there_alone(sample: Served) -> None:
    """The place alone lets nobody in, and no page of another port can name it: browsers send it no cookie."""
    reply = sample.get(path_of(sample.handler.address), drop="cookie", sec_fetch_site="none")
    place, cookie = reply.headers["location"], reply.headers["set-cookie"].split("; ")
    assert reply.status == 303 and len(place) >= 32 and sample.token not in place and len(sample.token) >= 32
    assert set(cookie[1:]) == {f"Path={place}", "HttpOnly", "SameSite=Strict"} and place not in cookie[0]
    page = sample.get("/", cookie=cookie[0])
    assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    assert sample.token.encode() not in page.body and place.encode() not in page.body


def test_a_ticket_lets_in_once(sample: Served) -> None:
    address = sample.handler.address_once()
    assert address != sample.handler.address
    statuses = [sample.get(path_of(address), drop="cookie").status for _ in range(2)]
    assert statuses == [303, 401]


def test_every_response_keeps_other_sites_away_from_it(sample: Served) -> None:
    for path in ("/", "/api/v1/runs", "/nosuch", "/api/v1/run?run=nosuch"):
        headers = sample.get(path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer" and headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert not any(name.startswith("access-control") for name in headers)


def test_no_response_but_the_one_that_lets_in_tells_the_token_or_the_place(sample: Served) -> None:
    """Neither in what it says nor in its headers: pages are saved, and refusals are shown to whoever asked."""
    answers = [f"/api/v1/{name}?id=nosuch&a=x&b=y&from=0&q=light&seq=1&path=x" for name in QUESTIONS.names()]
    for path in ("/", "/nosuch", f"/?token={sample.token}x", "/api/v1/live?after=x", *answers):
        for drop in ("", "cookie", "host"):
            told = repr(sample.get(path, drop=drop))
            assert not any(secret in told for secret in (sample.token, sample.place.strip("/"))), (path, drop)


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/nosuch", 404, "no such page"),
        ("/api/v1/nosuch", 400, "there is no question 'nosuch'"),
        ("/api/v1/../../etc/passwd", 400, "there is no question"),
        ("/api/v1/run?run=nosuch", 404, "'nosuch'"),
        ("/api/v1/run", 400, "missing required field `run`"),
        ("/api/v1/runs?at=nosuch", 400, "no position, event or run of that name in "),
        ("/api/v1/runs?at=99999", 400, "there is no position 99,999; the log goes from 0 to "),
        ("/api/v1/runs?sort=nosuch", 400, "can't sort"),
        ("/api/v1/live?after=x", 400, "a position"),
    ],
)
def test_a_refusal_says_why_and_names_no_file(sample: Served, path: str, status: int, said: str) -> None:
    reply = sample.get(path)
    assert reply.status == status and said in reply.json()["error"]
    assert str(SAMPLE) not in reply.body.decode() and "/work" not in reply.json()["error"]


# ---------------------------------------------------------------- while the bank grows


def test_eight_viewers_follow_while_a_loop_writes_and_one_that_never_reads_costs_nobody(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "b") as bank, served(bank) as found, ExitStack() as stack:
        begin = bank.position
        viewers = [stack.enter_context(found.follow(begin)) for _ in range(page_limits.LIVE_VIEWERS)]
        assert found.get(f"/api/v1/live?after={begin}").status == 503
        writer = Thread(target=write_runs, args=(tmp_path / "b", 20))
        writer.start()
        waits = []
        while writer.is_alive():
            now = time.monotonic()
            assert found.ask("runs", limit=5)["position"] >= begin
            waits.append(time.monotonic() - now)
        writer.join()
        assert max(waits, default=0) < 30
        for viewer in viewers[1:]:  # the first one never reads
            assert last_told(viewer, begin + 40) == begin + 40
        assert found.ask("runs")["total"] == 20


def write_runs(place: Path, number: int) -> None:
    with Bank.open(place) as other:
        for n in range(number):
            other.append([RunStarted(run=f"r{n}", task="t"), RunFinished(run=f"r{n}", outcome="submitted")])


def last_told(viewer: socket.socket, wanted: int) -> int:
    """The last position that a viewer is told, once it is the one that is waited for."""
    told, data, end = 0, b"", time.monotonic() + 60
    while told != wanted and time.monotonic() < end:
        data += viewer.recv(4096)
        told = int(data.rsplit(b"data: ", 1)[-1].split(b"\n")[0] or 0) if b"data: " in data else 0
    return told


# ---------------------------------------------------------------- a bank in trouble


def test_words_erased_while_it_is_served_are_gone_from_the_next_answer(tmp_path: Path, own_cache: None) -> None:
    with Bank.create(tmp_path / "b") as bank, served(bank) as found:
        bank.append(RunStarted(run="r", task="the secret word"))
        assert b"secret" in found.get("/api/v1/runs").body
        with Bank.open(tmp_path / "b") as other:
            other.erase(run="r")
        for path in ("/api/v1/runs", "/api/v1/run?run=r", "/api/v1/about", "/api/v1/text?event=3&path=task"):
            assert b"secret" not in found.get(path).body


def test_a_bank_that_went_away_and_one_that_is_damaged_are_told_and_the_server_goes_on(tmp_path: Path) -> None:
    place = filled(tmp_path / "b")
    with Bank.open(place) as bank, served(bank) as found:
        assert found.ask("runs")["total"] == 40
        shutil.copytree(place, tmp_path / "kept")
        damage(place)
        reply = found.get("/api/v1/run?run=r3")
        assert reply.status in (200, 503)
        shutil.rmtree(place)
        reply = found.get("/api/v1/runs?at=20")
        assert reply.status == 503 and str(tmp_path) not in reply.json()["error"]
        shutil.copytree(tmp_path / "kept", place)
        end = time.monotonic() + 60
        while found.get("/api/v1/runs").status != 200 and time.monotonic() < end:
            time.sleep(0.1)


def test_a_damaged_log_is_told_and_names_no_file(tmp_path: Path) -> None:
    with Bank.open(damage(filled(tmp_path / "b"))) as bank, served(bank) as found:
        for path in ("/api/v1/about", "/api/v1/runs", "/api/v1/run?run=r3"):
            reply = found.get(path)
            assert reply.status == 503 and str(tmp_path) not in reply.body.decode()
            assert "rbank-es verify b" in reply.json()["error"]


def test_a_statement_that_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    with Bank.open(SAMPLE) as bank:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(page_limits, "STATEMENT_S", 0.0)
            patched.setattr("rbank_es.projections.view_rows.PROGRESS_STEPS", 1)
            with served(bank) as found:
                reply = found.get("/api/v1/runs?q=light")
                assert reply.status == 503 and "may take 0 s" in reply.json()["error"]
        with served(bank) as found:
            assert found.get("/api/v1/runs?q=light").status == 200


def test_a_port_in_use_says_what_to_do() -> None:
    with listen(0) as taken, pytest.raises(BadInput, match="--port 0"):
        listen(taken.getsockname()[1])


def test_without_prompts_no_answer_holds_one() -> None:
    with Bank.open(SAMPLE) as bank, served(bank, prompts=False) as without:
        run = without.ask("runs", limit=1)["runs"][0]["run"]
        assert b"Tools return small dicts" not in without.get(f"/api/v1/run?run={run}").body
