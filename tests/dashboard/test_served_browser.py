"""The served page in headless Chromium: let in by its address, live while the bank grows, and still in the past."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.events import RunFinished, RunStarted
from tests.cli_runner import SAMPLE
from tests.dashboard.served_bank import served

pytestmark = pytest.mark.browser


def test_the_printed_address_opens_the_page_and_is_not_kept(tab: Any) -> None:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        tab.open(found.handler.address)
        assert tab.shows("21 of 29")
        for page, words in (("#/runs", "Saltmark"), ("#/run/lights-08-6e9adf73-1", "failure"), ("#/items", "items")):
            tab.eval(f"location.hash = {page!r}")
            assert tab.shows(words)
        assert tab.eval("location.search") == "" and tab.eval("document.cookie") == ""
        assert tab.complaints() == []
        assert all(url.startswith(f"http://127.0.0.1:{found.port}/") for url in tab.requests())


def test_a_run_that_is_appended_shows_within_two_seconds(tab: Any, tmp_path: Path) -> None:
    with Bank.create(tmp_path / "b") as bank, served(bank) as found:
        tab.open(found.handler.address)
        tab.eval("location.hash = '#/runs'")
        tab.settle()
        begin = time.monotonic()
        bank.append([RunStarted(run="new", task="A task of now"), RunFinished(run="new", outcome="submitted")])
        assert tab.shows("A task of now")
        assert time.monotonic() - begin < 2


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
