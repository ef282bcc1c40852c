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


def shown(tab: Any, words: str, seconds: float = 10) -> bool:
    """Whether the page comes to show some words."""
    end = time.monotonic() + seconds
    while words not in str(tab.eval("document.body.innerText")):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_the_printed_address_opens_the_page_and_is_not_kept(tab: Any) -> None:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        tab.open(found.site.address)
        assert shown(tab, "21 of 29")
        for page, words in (("#/runs", "Saltmark"), ("#/run/lights-08-6e9adf73-1", "failure"), ("#/items", "items")):
            tab.eval(f"location.hash = {page!r}")
            assert shown(tab, words)
        assert tab.eval("location.search") == "" and tab.eval("document.cookie") == ""
        assert tab.complaints() == []
        assert all(url.startswith(f"http://127.0.0.1:{found.port}/") for url in tab.requests())


def test_a_run_that_is_appended_shows_within_two_seconds(tab: Any, tmp_path: Path) -> None:
    with Bank.create(tmp_path / "b") as bank, served(bank) as found:
        tab.open(found.site.address)
        tab.eval("location.hash = '#/runs'")
        tab.settle()
        begin = time.monotonic()
        bank.append([RunStarted(run="new", task="A task of now"), RunFinished(run="new", outcome="submitted")])
        assert shown(tab, "A task of now")
        assert time.monotonic() - begin < 2


@pytest.mark.slow
def test_a_page_in_the_past_stays_there_while_the_bank_grows(tab: Any, tmp_path: Path) -> None:
    with Bank.create(tmp_path / "b") as bank, served(bank) as found:
        bank.append([RunStarted(run="old", task="An old task"), RunFinished(run="old", outcome="submitted")])
        tab.open(found.site.address)
        tab.eval("location.hash = '#/runs?at=3'")
        assert shown(tab, "An old task")
        bank.append([RunStarted(run="new", task="A task of now")])
        assert shown(tab, "1 new event")
        assert "A task of now" not in tab.eval("document.body.innerText")
