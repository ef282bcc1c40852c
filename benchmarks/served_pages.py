"""The pages of a served bank: the slowest page of each list, one run, and an appended run until it is shown."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.measure import Goal, Row, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.events import RunStarted
from rbank_es.page.http_request import parse_request
from rbank_es.page.page_handler import PageHandler
from rbank_es.page.page_server import PageServer, listen

RUN_SORTS = (
    "verdict", "score", "steps", "tokens", "started_seq", "red_flags", "tool_calls", "lm_calls", "items_injected",
)  # fmt: skip
ROUNDS = 5
SHOWN_ROUNDS = 5
ITEM_SORTS = ("title", "state", "polarity", "src", "support", "uses", "wins", "losses", "born_seq")
LEAKAGE_SORTS = ("started_seq", "total_chars_returned", "max_single_return", "context_size", "tool_calls", "red_flags")
LISTS = {"runs": RUN_SORTS, "items": ITEM_SORTS, "leakage": LEAKAGE_SORTS}
GOAL = Goal("≤", 0.1, "s")


class Client:
    """A browser that was let in, and asks one question after the other."""

    def __init__(self, handler: PageHandler) -> None:
        self._port = handler.port
        asked = urlsplit(handler.address)
        head = f"GET /?{asked.query} HTTP/1.1\r\nHost: {asked.netloc}\r\n\r\n"
        let_in = dict(handler.respond(parse_request(head.encode())).headers)
        self._place, self._cookie = let_in["Location"], let_in["Set-Cookie"].partition(";")[0]

    def ask(self, name: str, **given: Any) -> tuple[Any, float]:
        """Return an answer, and the seconds until it was read."""
        begin = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", f"{self._place}api/v1/{name}?{urlencode(given)}", headers={"Cookie": self._cookie})
        body = connection.getresponse().read()
        connection.close()
        return json.loads(body), time.perf_counter() - begin

    def median_of(self, name: str, **given: Any) -> float:
        """Return the median seconds of a question."""
        return median(self.ask(name, **given)[1] for _ in range(ROUNDS))

    def follow(self, after: int) -> http.client.HTTPResponse:
        """Return the stream of positions after one."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", f"{self._place}api/v1/live?after={after}", headers={"Cookie": self._cookie})
        return connection.getresponse()


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield rows for lists in every order, now and in the past, for one run, and for an append until it is shown."""
    with _served(bank) as client:
        client.ask("bank")
        for name, sorts in LISTS.items():
            yield _list_row(client, bank, name, list(sorts))
        for name in ("bank", "overview", "review", "doubts", "health"):
            seconds = client.median_of(name)
            goal = GOAL if name == "bank" else None
            yield Row("served pages", f"the answer {name}", duration(seconds), goal=goal, value=seconds)
        newest = client.ask("runs", limit=1)[0]["runs"][0]["run"]
        seconds = client.median_of("run", run=newest)
        yield Row("served pages", "a run with its events", duration(seconds), goal=GOAL, value=seconds)
        seconds = median(_shown(client, bank) for _ in range(SHOWN_ROUNDS))
        goal = Goal("≤", 2.0, "s")
        yield Row("served pages", "an appended run, until it is shown", duration(seconds), goal=goal, value=seconds)


def _list_row(client: Client, bank: Bank, name: str, sorts: list[str]) -> Row:
    found: dict[str, float] = {}
    for at in (bank.position, bank.position // 2):
        for sort in (*sorts, *(f"-{each}" for each in sorts)):
            found[f"{sort} at {at:,}"] = client.median_of(name, sort=sort, at=at)
    if name != "leakage":
        found["words"] = client.median_of(name, q="the of")
    slowest = max(found, key=lambda each: found[each])
    what = f"a page of {name}: the slowest of {len(found)} orders and positions ({slowest})"
    return Row("served pages", what, duration(found[slowest]), goal=GOAL, value=found[slowest])


def _shown(client: Client, bank: Bank) -> float:
    stream, run = client.follow(bank.position), f"shown-{bank.position}"
    begin = time.perf_counter()
    bank.append(RunStarted(run=run, task="t"))
    while not stream.readline().startswith(b"data: "):
        pass
    rows = client.ask("runs", limit=1)[0]["runs"]
    assert rows[0]["run"] == run
    stream.close()
    return time.perf_counter() - begin


@contextmanager
def _served(bank: Bank) -> Iterator[Client]:
    listening = listen(0)
    handler = PageHandler(bank, listening.getsockname()[1])
    server = PageServer(handler, listening)
    thread = Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield Client(handler)
    finally:
        server.stop()
        thread.join()
