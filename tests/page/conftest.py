"""A headless Chromium for the tests of the pages."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.page import write_page
from tests.cli_runner import SAMPLE


class Chromium:
    """A headless Chromium that is spoken to over a pipe, by its DevTools protocol: no port, no download, no network."""

    FLAGS = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe"
    )

    def __init__(self, binary: str, profile: Path) -> None:
        # Chromium reads commands from descriptor 3 and writes to 4; these may be ours already, so ours go high first.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for pair in (os.pipe(), os.pipe()) for end in pair]
        commands, self.output, self.input, answers = ends

        def place() -> None:
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [binary, *self.FLAGS.split(), f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self.buffer, self.number, self.events = b"", 0, list[dict[str, Any]]()

    def close(self) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self.send("Browser.close")
        os.close(self.output)
        os.close(self.input)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are kept."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        os.write(self.output, json.dumps(command).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def receive(self, timeout_s: float = 60) -> dict[str, Any]:
        poller = select.poll()
        poller.register(self.input, select.POLLIN)
        while b"\0" not in self.buffer:
            assert poller.poll(timeout_s * 1000), f"Chromium said nothing for {timeout_s} s"
            got = os.read(self.input, 1 << 20)
            assert got, "Chromium went away"
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)


class Tab:
    """One page, opened from disk, with everything that it logged and asked for."""

    def __init__(self, browser: Chromium, **context: str) -> None:
        """Open a page; in a `browserContextId` of its own, with cookies of its own."""
        self.browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank", **context)["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self.browser.send("Target.closeTarget", targetId=self.target)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.send(method, self.session, **params)

    def open(self, path: Path | str, *, width: int = 1280, dark: bool = False, scripts: bool = True) -> None:
        self.browser.events.clear()
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.scheme(dark=dark)
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.send("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        self.loaded(scripts=scripts)

    def loaded(self, *, scripts: bool = True) -> None:
        """Wait until a page that was opened, or led to, is there."""
        until = time.monotonic() + 60
        while not self.seen("Page.loadEventFired"):
            assert time.monotonic() < until, "the page did not load"
            self.browser.events.append(self.browser.receive())
        if scripts:
            self.settle()

    def shows(self, words: str, seconds: float = 10) -> bool:
        """Whether the page comes to show some words."""
        end = time.monotonic() + seconds
        while words not in str(self.eval("document.body?.innerText")):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def press(self, key: str, code: int, **more: Any) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def settle(self) -> None:
        """Let the page draw, and let a request that it may make show itself."""
        self.eval("new Promise(done => requestAnimationFrame(() => setTimeout(done, 250)))")

    def scheme(self, *, dark: bool) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def eval(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.browser.events if event.get("method") == method]

    def requests(self) -> list[str]:
        """The addresses of everything that was asked for, data: addresses aside."""
        asked = (event["request"]["url"] for event in self.seen("Network.requestWillBeSent"))
        return [url for url in asked if not url.startswith("data:")]

    def complaints(self) -> list[Any]:
        """Whatever the page logged, threw or was refused."""
        thrown = [event["exceptionDetails"] for event in self.seen("Runtime.exceptionThrown")]
        logged = [event["args"] for event in self.seen("Runtime.consoleAPICalled")]
        return thrown + logged + [event["entry"] for event in self.seen("Log.entryAdded")]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = next(filter(None, map(shutil.which, names)), None)
    if binary is None:
        reason = f"none of {', '.join(names)} is installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    browser = Chromium(binary, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def sample_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the sample with all its stops, as a file. It takes seconds to make: all that only look share it."""
    path = tmp_path_factory.mktemp("page") / "page with spaces & signs.html"
    with Bank.open(SAMPLE) as bank, bank.as_of() as view:
        write_page(bank, view, path)
    return path


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    opened = Tab(chromium)
    yield opened
    # A page that is still served would complain, when its server is gone, in the next test.
    opened.close()
