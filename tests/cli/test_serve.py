"""`rbank-es serve` as a process: what it prints, how it stops, and what is left when it is killed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runner import COMMAND, SAMPLE, environment, run


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("*lock"))
    return tmp_path


@contextmanager
def serving(place: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The running command, and the facts that it printed."""
    words = [*COMMAND, "serve", "./sample", "--port", "0", "--json", *options]
    process = subprocess.Popen(
        words, cwd=place, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr and process.stderr.read()
        yield process, json.loads("".join(lines))
    finally:
        process.kill()
        process.communicate()


class Browser:
    """A browser that was let in."""

    def __init__(self, address: str) -> None:
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with self._opener.open(address, timeout=20) as page:
            self.page, self._place = page.read().decode(), page.geturl()

    def ask(self, path: str) -> Any:
        with self._opener.open(f"{self._place}api/v1/{path}", timeout=20) as found:
            return json.loads(found.read())


@pytest.mark.parametrize("name", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_page_opens_by_the_printed_address_and_a_signal_stops_the_server(place: Path, name: signal.Signals) -> None:
    with serving(place) as (process, facts):
        assert (facts["bank"], facts["position"]) == ("sample", 609)
        browser = Browser(facts["address"])
        assert "<title>sample" in browser.page and browser.ask("runs?limit=1")["total"] == 31
        process.send_signal(name)
        _, err = process.communicate(timeout=10)
        assert (process.returncode, err) == (0, "")
    with pytest.raises(urllib.error.URLError):
        Browser(facts["address"])


@pytest.mark.slow
@pytest.mark.parametrize(("options", "name"), [((), "{}/sample"), (("--no-path",), "./sample")])
def test_commands_of_the_page_name_the_bank_so_that_they_work(place: Path, options: tuple[str, ...], name: str) -> None:
    with serving(place, *options) as (_, facts):
        named = shlex.quote(name.format(place))
        [first, *_] = Browser(facts["address"]).ask("doubts")["rows"]
        assert first["confirm"].startswith(f"rbank-es overrule {named} ")


@pytest.mark.slow
def test_killed_under_load_nothing_hinders_the_next_one_nor_the_bank(place: Path) -> None:
    with serving(place) as (process, facts):
        browser = Browser(facts["address"])
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                with suppress(OSError, ValueError):
                    browser.ask("runs?sort=-tokens")

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for each in threads:
            each.start()
        event = {"type": "run_started", "run": "more", "task": "t"}
        run("append", "./sample", "-", cwd=place, stdin=json.dumps(event))
        os.kill(process.pid, signal.SIGKILL)
        stop.set()
        for each in threads:
            each.join()
    run("verify", "./sample", cwd=place)
    with serving(place) as (_, again):
        assert Browser(again["address"]).ask("runs")["total"] == 32
