"""A bank's views as lists of rows, and a headless Chromium, for the tests of the page."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rbank_es.dashboard import PageFacts, render

Rows = dict[str, list[dict[str, Any]]]

TASKS = (
    "Which spacecraft visited more than one outer planet?",
    "List the instruments that failed before their mission ended",
    "How many moons were found by flyby, and by which missions?",
    "Name the launch sites that served both probes and orbiters",
)
TITLES = (
    "Bind the class before following a property path",
    "Ask the schema for the direction of a property first",
    "Count distinct subjects, not rows, when a join fans out",
    "Don't filter labels with a regular expression on the endpoint",
    "Read one example resource before writing the query",
    "Check units and datatypes before comparing numbers",
    "Name the graph when the ontology is split in several",
    "Stop and submit once two different queries agree",
)
TOOLS = ("sparql_query", "sparql_slice", "mem_search", "mem_get", "g_describe", "ctx_peek")


class FakeView:
    """The views of a bank at a point in time, by name."""

    def __init__(self, rows: Mapping[str, list[dict[str, Any]]]) -> None:
        self.tables = rows

    def rows(self, name: str, /, **equal: str) -> Sequence[Mapping[str, Any]]:
        return [row for row in self.tables[name] if all(row[key] == value for key, value in equal.items())]


def at(seq: int) -> str:
    return f"2026-01-{1 + seq // 288 % 28:02d}T{seq // 12 % 24:02d}:{seq * 5 % 60:02d}:00.000000Z"


def run_row(i: int) -> dict[str, Any]:
    seq, outcome = 5 + 17 * i, ("submitted", "submitted", "submitted", "forced_at_limit", "failed")[i * 7 % 5]
    return {
        **{"run": f"run-{i + 1:03d}", "task": TASKS[i % 4], "ontology": "voyages", "endpoint": None, "executor": "rlm"},
        **{"model": "scripted", "mode": "auto", "scripted": 1, "rollout_group": None, "rollout_index": None},
        **{"iterations_max": 12, "started_seq": seq, "started_at": at(seq), "finished_seq": seq + 14},
        **{
            "finished_at": at(seq + 14),
            "outcome": outcome,
            "iterations": 3 + i * 5 % 9,
            "lm_calls": 5,
            "tokens_in": 900,
        },
        **{"tokens_out": 120, "cost_usd": None, "duration_s": 41.5, "answer": "42", "sparql": None, "error": None},
        **{"verdict": verdict_row(i, outcome), "judge": "checks", "score": None},
        **{"kind": ("lm", "human", "check")[i % 3], "sure": int(i % 3 == 2)},
        **{"items_injected": 1 + i % 3, "tool_calls": 6, "steps": 4},
    }


def verdict_row(i: int, outcome: str) -> str | None:
    if i % 11 == 9:
        return None
    return "undecided" if i % 13 == 12 else "success" if outcome == "submitted" else "failure"


def edge_row(i: int, item: str) -> dict[str, Any]:
    """An item that ended by a verdict; every other one came back by a later correction."""
    effect, kind = (("ended", "judgment"), ("restored", "correction"))[i % 2]
    source = {"source_kind": kind, "source": f"0199-{i // 6}", "relation": effect}
    return source | {"target_kind": "item", "target": item, "seq": 50 + 10 * (i // 6) + i % 2}


def leakage_row(i: int) -> dict[str, Any]:
    large = 1400 + 310 * (i % 4) if i % 5 == 3 else 240 + 61 * (i * 7 % 11)
    context = None if i % 9 == 8 else 1900 + 97 * (i * 5 % 13) + (2600 if i % 12 == 7 else 0)
    injected = 4 if i % 10 == 6 else 1 + i % 3
    return {
        **{
            "run": f"run-{i + 1:03d}",
            "started_seq": 5 + 17 * i,
            "total_chars_returned": large + 900 + 113 * (i * 3 % 7),
        },
        **{"max_single_return": large, "large_returns": int(large > 1000), "stdout_chars": 300 + 71 * (i * 11 % 8)},
        **{"variables_n": 5, "variables_chars": 9000 + 1700 * (i * 5 % 7), "subcalls": i % 3},
        **{"memory_items_injected": injected, "context_size": context, "prompt_chars_max": 5200 + 310 * (i * 7 % 9)},
        **{"iterations": 3 + i * 5 % 9, "tool_calls": 6},
        "red_flags": int(large > 1000) + int((context or 0) > 4000) + int(injected > 3),
    }


def flag_rows(leakage: list[dict[str, Any]]) -> list[dict[str, Any]]:
    watched = (("single_return", "max_single_return", 1000), ("items_injected", "memory_items_injected", 3))
    watched += (("context_size", "context_size", 4000),)
    return [
        {
            **{"run": row["run"], "flag": flag, "value": row[column], "threshold": threshold},
            **{"seq": row["started_seq"] + 2, "tool": TOOLS[n % 2] if flag == "single_return" else None},
        }
        for n, row in enumerate(leakage)
        for flag, column, threshold in watched
        if (row[column] or 0) > threshold
    ]


def tool_row(i: int, tool: str) -> dict[str, Any]:
    return {
        **{
            "tool": tool,
            "calls": 61 - 8 * i,
            "errors": (3, 0, 1, 0, 0, 0)[i],
            "total_chars_returned": 24900 // (i + 1),
        },
        **{"max_single_return": 2330 // (i + 1), "large_returns": (5, 1, 0, 0, 0, 0)[i], "truncated": i % 2},
    }


def item_row(i: int) -> dict[str, Any]:
    src = ("success", "success", "failure", "seed", "contrastive", "success", "pattern")[i % 7]
    state = "active" if i % 6 else ("superseded", "forgotten", "unsupported", "rejected")[i // 6 % 4]
    title = TITLES[i % 8] + ("" if i < 8 else f" ({i // 8 + 1})")
    return {
        **{
            "id": f"{i:012x}",
            "title": title,
            "desc": "",
            "content": "…",
            "src": src,
            "polarity": "success",
            "tags": "[]",
        },
        **{"role": None, "scope": "", "domain": "voyages", "state": state, "support": 1, "uses": 0, "wins": 0},
        **{"born_seq": 20 + 16 * i, "ended_seq": None, "extraction": None, "erased": 0},
    }


def usage_row(i: int, item: dict[str, Any]) -> dict[str, Any]:
    uses = max(1, 19 - 2 * i)
    wins = uses * (7 - i % 4) // 9
    return {
        **{"item": item["id"], "title": item["title"], "uses": uses, "wins": wins, "win_rate": wins / uses},
        **{"first_used_seq": 40 + i, "last_used_seq": 400 - i},
    }


def health_row(i: int) -> dict[str, Any]:
    uses, added = 3 * i, 1 + i - i // 4
    last = None if uses == 0 else 0.45 + 0.012 * i - 0.05 * (i % 3)
    before = 0.42 + 0.008 * i if uses >= 40 else None
    return {
        **{
            "seq": 20 + 16 * i,
            "at": at(20 + 16 * i),
            "size": max(1, added - i // 6),
            "candidates": 1 + i,
            "added": added,
        },
        **{
            "skipped": i // 4,
            "duplicate_rate": (i // 4) / (1 + i),
            "novelty_rate": added / (1 + i),
            "win_rate_last": last,
        },
        **{
            "win_rate_before": before,
            "win_rate_drift": last - before if last is not None and before is not None else None,
        },
        "uses": uses,
    }


def measured_row(changes: int) -> dict[str, Any]:
    """The counts of health: each a different number, and no part over its whole."""
    wholes = {"items": 40, "candidates": 3 * changes, "uses": 60, "decided_last": 18, "decided_before": 20}
    wholes |= {"for_agents": 23, "active_uses": 55, "judged": 21, "judged_twice": 6, "active": 24}
    parts = {"added": 2 * changes, "repeated": changes, "wins": 31, "losses": 19, "wins_last": 9, "wins_before": 11}
    parts |= {"never_used": 4, "top_items": 3, "top_uses": 25, "undecided": 2, "overruled": 1, "disagreed": 3}
    return wholes | parts | {"on_one_verdict": 7}


def bank_rows(runs: int = 24, items: int = 26, changes: int = 24) -> Rows:
    """Believable rows: some flags, some gaps, an ended item or two."""
    stock, leakage = [item_row(i) for i in range(items)], [leakage_row(i) for i in range(runs)]
    return {
        "runs": [run_row(i) for i in range(runs)],
        "leakage_by_run": leakage,
        "leakage_by_tool": [tool_row(i, tool) for i, tool in enumerate(TOOLS)] if runs else [],
        "red_flags": flag_rows(leakage),
        "item_usage": [usage_row(i, item) for i, item in enumerate(stock[: items // 2])] if runs else [],
        "items": stock,
        "health_over_time": [health_row(i) for i in range(changes)],
        "bank_health": [measured_row(changes)] if changes else [],
        "lineage_edges": [edge_row(i, row["id"]) for i, row in enumerate(stock)],
    }


def empty_rows() -> Rows:
    """The views of a bank in which nothing has happened."""
    return {name: [] for name in bank_rows(0, 0, 0)}


FACTS = PageFacts(
    name="voyages",
    position=437,
    head="437:" + "9f2c41d07ab85e63" * 4,
    at="2026-01-02T12:25:00.000000Z",
    purpose="What an agent learned from asking about space probes.",
)


@pytest.fixture
def rows() -> Rows:
    """A bank of the size that a page is read at."""
    return bank_rows()


@pytest.fixture
def nothing() -> Rows:
    return empty_rows()


@pytest.fixture
def many() -> Rows:
    """A bank that is larger than a page."""
    return bank_rows(runs=12_000, items=3_000, changes=5_000)


@pytest.fixture
def facts() -> PageFacts:
    return FACTS


@pytest.fixture
def page() -> Callable[..., str]:
    """Render rows as a page."""
    return lambda rows, facts=FACTS: render(FakeView(rows), facts)


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

    def __init__(self, browser: Chromium) -> None:
        self.browser = browser
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.send(method, self.session, **params)

    def open(self, path: Path, *, width: int = 1280, dark: bool = False, scripts: bool = True) -> None:
        self.browser.events.clear()
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.scheme(dark=dark)
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.send("Page.navigate", url=path.as_uri())
        until = time.monotonic() + 60
        while not self.seen("Page.loadEventFired"):
            assert time.monotonic() < until, "the page did not load"
            self.browser.events.append(self.browser.receive())
        if scripts:
            self.settle()

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

    def screenshot(self, path: Path) -> None:
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
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


@pytest.fixture
def tab(chromium: Chromium) -> Tab:
    return Tab(chromium)
