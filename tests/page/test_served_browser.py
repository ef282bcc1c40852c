"""The served page in headless Chromium: let in by its address, live while the bank grows, and still in the past."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from rbank_es.bank import Bank
from rbank_es.events import RunFinished, RunStarted
from tests.cli_runner import SAMPLE
from tests.page.conftest import Tab
from tests.page.served_bank import served

pytestmark = pytest.mark.browser


class Stranger:
    """A program that listens at another port of this machine, keeps all that it is sent, and tries for more."""

    PAGE = """<!doctype html><title>stranger</title><script>
      document.title = JSON.stringify([document.referrer, document.cookie]);
      fetch("{served}/", {{credentials: "include", mode: "no-cors"}});
      document.write("<img src='{served}/api/v1/about'><iframe src='{served}/'></iframe>");
    </script>"""

    def __init__(self, served_at: str) -> None:
        self.received = b""
        self._page = self.PAGE.format(served=served_at).encode()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listening.accept()[0]
                with client, suppress(OSError):
                    self.received += client.recv(65536)
                    cookies = "Set-Cookie: rbank-es=stolen; Path=/\r\nSet-Cookie: a=b; Path=/\r\n"
                    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{cookies}Connection: close\r\n\r\n"
                    client.sendall(head.encode() + self._page)

    def close(self) -> None:
        self._listening.close()


@pytest.mark.slow
def test_a_program_at_another_port_is_sent_nothing_that_lets_it_in(chromium: Any) -> None:
    """Opened before the page, and from it; also once it has set a cookie of our name."""
    tab = Tab(chromium, **chromium.send("Target.createBrowserContext"))
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        stranger = Stranger(f"http://127.0.0.1:{found.port}")
        tab.open(stranger.address, scripts=False)
        tab.open(found.handler.address)
        assert tab.shows("21 of 29")
        shown = tab.eval("location.href")
        for _ in range(2):
            tab.browser.events.clear()
            tab.eval(f"location.href = {stranger.address!r}; 0")
            tab.loaded(scripts=False)
            time.sleep(0.3)
            assert tab.eval("document.title").startswith('["",')
            tab.eval("history.back(); 0")
            assert tab.shows("21 of 29")
        assert stranger.received.count(b"GET / ") >= 3 and b"rbank-es=stolen" in stranger.received
        secrets = (found.token, urlsplit(shown).path.strip("/"), f":{found.port}")
        assert [each for each in secrets if each and each.encode() in stranger.received] == []
        stranger.close()
    tab.close()


def test_the_printed_address_opens_the_page_and_is_not_kept(tab: Any) -> None:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        tab.open(found.handler.address)
        assert tab.shows("21 of 29")
        for page, words in (("#/runs", "Saltmark"), ("#/run/lights-08-7d2405bc-1", "failure"), ("#/items", "items")):
            tab.eval(f"location.hash = {page!r}")
            assert tab.shows(words)
        assert tab.eval("location.search") == "" and tab.eval("document.cookie") == ""
        seen = tab.eval("[location.href, document.title, document.referrer, document.body.innerHTML].join()")
        assert found.token not in seen and tab.eval("history.length") == 5
        assert tab.complaints() == []
        assert all(url.startswith(f"http://127.0.0.1:{found.port}/") for url in tab.requests())


@pytest.mark.slow
def test_reload_back_forward_and_a_second_tab_work_and_the_shown_address_opens_nothing_elsewhere(
    tab: Any, chromium: Any
) -> None:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        tab.open(found.handler.address)
        tab.eval("location.hash = '#/items'")
        assert tab.shows("Items")
        for step, words in (("back()", "21 of 29"), ("forward()", "as of position"), ("go(0)", "as of position")):
            tab.eval(f"history.{step}; 0")
            time.sleep(0.3)
            assert tab.shows(words), step
        shown = tab.eval("location.href")
        second = Tab(chromium)
        second.open(shown)
        assert second.shows("as of position")
        second.close()
        elsewhere = Tab(chromium, **chromium.send("Target.createBrowserContext"))
        elsewhere.open(shown, scripts=False)
        assert "open the address that rbank-es serve printed" in elsewhere.eval("document.body.innerText")
        elsewhere.open(found.handler.address)
        assert elsewhere.shows("21 of 29")
        elsewhere.close()


@pytest.mark.slow
def test_a_run_that_is_appended_shows_by_itself(tab: Any, tmp_path: Path) -> None:
    with Bank.create(tmp_path / "b") as bank, served(bank) as found:
        tab.open(found.handler.address)
        tab.eval("location.hash = '#/runs'")
        tab.settle()
        bank.append([RunStarted(run="new", task="A task of now"), RunFinished(run="new", outcome="submitted")])
        assert tab.shows("A task of now")


@pytest.mark.slow
def test_a_page_in_the_past_stays_there_while_the_bank_grows(tab: Any, tmp_path: Path) -> None:
    with Bank.create(tmp_path / "b") as bank, served(bank) as found:
        bank.append([RunStarted(run="old", task="An old task"), RunFinished(run="old", outcome="submitted")])
        tab.open(found.handler.address)
        tab.eval("location.hash = '#/runs?at=3'")
        assert tab.shows("An old task")
        bank.append([RunStarted(run="new", task="A task of now")])
        assert tab.shows("1 new event")
        assert "A task of now" not in tab.eval("document.body.innerText")


@pytest.mark.slow
def test_back_to_the_newest_is_the_newest_though_the_log_grew_meanwhile(tab: Any, tmp_path: Path) -> None:
    """Also when the page has heard of new events and has not drawn them."""
    with Bank.create(tmp_path / "b") as bank, served(bank) as found:
        bank.append([RunStarted(run="old", task="An old task"), RunFinished(run="old", outcome="submitted")])
        tab.open(found.handler.address)
        tab.eval("location.hash = '#/runs?at=2'")
        assert tab.shows("As of position 2")
        tab.eval("window.prompt_fetch = fetch")
        tab.eval(
            "window.fetch = (...asked) => new Promise(done => setTimeout(() => done(prompt_fetch(...asked)), 1000))"
        )
        bank.append([RunStarted(run="new", task="A task of now")])
        time.sleep(0.8)
        tab.eval("[...document.querySelectorAll('button')].find(e => e.textContent === 'Back to the newest').click()")
        assert tab.eval("location.hash") == "#/runs"
        assert tab.shows("A task of now")
