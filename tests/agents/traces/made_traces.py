"""Traces of made-up agents, as OTLP's JSON has them, in the names of both conventions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Fields = dict[str, Any]
START_NS = 1_795_348_022_000_000_000
SAMPLES = Path(__file__).resolve().parent / "samples"


def value(given: Any) -> Fields:
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        return {"doubleValue": given}
    if isinstance(given, list):
        return {"arrayValue": {"values": [value(each) for each in given]}}
    if isinstance(given, dict):
        return {"kvlistValue": {"values": pairs(given)}}
    return {"stringValue": given}


def pairs(given: Fields) -> list[Fields]:
    return [{"key": key, "value": value(each)} for key, each in given.items()]


def span(number: int, parent: int | None, name: str, given: Fields, *, trace: int = 1, **more: Any) -> Fields:
    """A span that begins `number` milliseconds after the start."""
    fields: Fields = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(START_NS + number * 1_000_000),
        "endTimeUnixNano": str(START_NS + number * 1_000_000 + 500_000),
        "attributes": pairs(given),
        "status": {},
    }
    return fields | ({"parentSpanId": f"{parent:016x}"} if parent is not None else {}) | more


def request(spans: Iterable[Fields], service: str = "lamp-agent", instance: str = "") -> Fields:
    named = {"service.instance.id": instance} if instance else {}
    resource = {"attributes": pairs({"service.name": service, "service.version": "0.1"} | named)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def logs(*records: Fields) -> Fields:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


def chat(number: int, parent: int | None, asked: str, said: str, **more: Any) -> Fields:
    """A model's call, in the names of OpenTelemetry."""
    given = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "small-model",
        "gen_ai.usage.input_tokens": 21,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": asked}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": said}]}]),
    }
    return span(number, parent, "chat small-model", given, **more)


def details(number: int, asked: str, said: str, *, trace: int = 1) -> Fields:
    """The messages of a model's call as a log."""
    messages = {"gen_ai.input.messages": [("user", asked)], "gen_ai.output.messages": [("assistant", said)]}
    given = {
        name: [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in each]
        for name, each in messages.items()
    }
    ids = {"traceId": f"{trace:032x}", "spanId": f"{number:016x}"}
    event = {"eventName": "gen_ai.client.inference.operation.details", "timeUnixNano": str(START_NS)}
    return logs({**ids, **event, "attributes": pairs(given)})


def tool(number: int, parent: int | None, arguments: str, result: str, **more: Any) -> Fields:
    """A tool's call, in the names of OpenInference."""
    given = {"openinference.span.kind": "TOOL", "tool.name": "search", "input.value": arguments, "output.value": result}
    return span(number, parent, "search", given, **more)


def root(number: int, asked: str, said: str, **more: Any) -> Fields:
    given = {"openinference.span.kind": "AGENT", "input.value": asked} | ({"output.value": said} if said else {})
    return span(number, None, "lamps", given, **more)


def write(path: Path, lines: Sequence[Fields]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


_words = st.text("abc é\n", min_size=1, max_size=8)


@st.composite
def traces(draw: st.DrawFn, trace: int = 1) -> list[Fields]:
    """A trace with its root, with or without an answer of its own, and calls below it."""
    spans = [root(1, draw(_words), draw(st.sampled_from(["", "it is a"])), trace=trace)]
    for number in range(2, draw(st.integers(3, 9))):
        parent = draw(st.integers(1, number - 1))
        made = tool if draw(st.booleans()) else chat
        spans.append(made(number, parent, draw(_words), draw(_words), trace=trace))
    return spans
