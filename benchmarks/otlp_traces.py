"""Traces: files of ten thousand spans imported, and a server that is sent 500 spans a second for some seconds."""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.exchange import import_paths
from rbank_es.page.page_handler import PageHandler
from rbank_es.page.page_server import PageServer, listen
from rbank_es.page.trace_receiver import TraceReceiver

SPANS, BATCH, SECONDS, RATE = 10_000, 50, 10, 500
_TEXT = "lamp a is lit, lamp b is not; " * 20
_START_NS = 1_795_348_022_000_000_000


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row for an import, and one for a server at its rate; the rows of spans lost must be 0."""
    path = place / "traces.jsonl"
    path.write_text("".join(json.dumps(_request(trace)) + "\n" for trace in range(SPANS // 10)))
    numbers = count()
    contestants = {"import": timed(partial(_import, place, numbers, path)), "floor": timed(partial(_decode, path))}
    samples = interleave(contestants, sizes.harness_rounds)
    yield Row(
        "traces",
        f"{SPANS:,} spans of OpenTelemetry, {path.stat().st_size / 1e6:.0f} MB of JSON, imported into a new bank",
        duration(samples.median("import")),
        floor=f"json.loads of every line {duration(samples.median('floor'))}",
        goal=Goal("≤", 5, "s"),
        value=samples.median("import"),
    )
    rate, lost = _served(place)
    yield Row(
        "traces",
        f"spans a second that a server takes for {SECONDS} s, sent at {RATE}, {BATCH} a request",
        f"{rate:,.0f}",
        goal=Goal("≥", 0.98 * RATE, "/s"),
        value=rate,
    )
    yield Row(
        "traces",
        "spans that were answered 200 to and are not in the bank",
        str(lost),
        goal=Goal("≤", 0, ""),
        value=lost,
    )


def _request(trace: int) -> dict[str, Any]:
    """Return a request with a trace of ten spans: an agent, five calls of a model, four of tools."""
    spans = [_span(trace, 0, {"openinference.span.kind": "AGENT", "input.value": f"q{trace}", "output.value": _TEXT})]
    for number in range(1, 10):
        messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": _TEXT}]}])
        model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": messages}
        said = {"gen_ai.output.messages": messages, "gen_ai.usage.input_tokens": 400}
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.result": _TEXT}
        spans.append(_span(trace, number, model | said if number % 2 else tool))
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": spans}]}]}


def _span(trace: int, number: int, given: dict[str, Any]) -> dict[str, Any]:
    values = {
        key: {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
        for key, value in given.items()
    }
    began = _START_NS + (trace * 10 + number) * 1_000_000
    return {
        "traceId": f"{trace + 1:032x}",
        "spanId": f"{number + 1:016x}",
        **({"parentSpanId": f"{1:016x}"} if number else {}),
        "name": "work",
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + 900_000),
        "attributes": [{"key": key, "value": value} for key, value in values.items()],
    }


def _import(place: Path, numbers: Iterator[int], path: Path) -> None:
    folder = place / str(next(numbers))
    with Bank.create(folder) as bank:
        assert import_paths(bank, [path]).files[0].runs == SPANS // 10
    shutil.rmtree(folder)


def _decode(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def _served(place: Path) -> tuple[float, int]:
    """Return the spans a second that a server took, and how many of them are not in its bank afterwards."""
    os.environ["XDG_DATA_HOME"] = str(place / "data")
    with Bank.create(place / "served") as bank:
        receiver, listening = TraceReceiver(bank), listen(0)
        port = listening.getsockname()[1]
        server = PageServer(PageHandler(bank, port, receiver=receiver), listening)
        thread = Thread(target=server.serve)
        thread.start()
        began, taken, traces = time.monotonic(), 0, count(1)
        while taken < SECONDS * RATE:
            requests = [_request(next(traces))["resourceSpans"][0] for _ in range(BATCH // 10)]
            body = json.dumps({"resourceSpans": requests}).encode()
            headers = {"authorization": f"Bearer {receiver.token}", "content-type": "application/json"}
            with urllib.request.urlopen(
                urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body, headers), timeout=10
            ) as reply:
                taken += BATCH if reply.status == 200 else 0
            time.sleep(max(0.0, began + taken / RATE - time.monotonic()))
        took_s = time.monotonic() - began
        server.stop()
        thread.join()
        receiver.close()
        # An agent's own span is the end of its run; the nine others are acts.
        acts = sum(1 for _ in bank.log.read(types=["lm_called", "tool_called", "run_finished"]))
    return taken / took_s, taken - acts
