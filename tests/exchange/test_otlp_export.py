"""A bank's runs as traces: the SDK's own messages hold them, with searches, lessons and verdicts of today's names."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from rbank_es import Bank
from rbank_es.exchange import import_paths
from rbank_es.exchange.exporters import export, export_files
from tests.cli_runner import SAMPLE


def decoded(line: bytes) -> list[Span]:
    """The spans of a line as the SDK's messages have them, whose own JSON has ids in base64 where OTLP has digits."""
    body = json.loads(line)
    for each in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in each:
                each[name] = base64.b64encode(bytes.fromhex(each[name])).decode()
    request = ParseDict(body, ExportTraceServiceRequest())
    again = ExportTraceServiceRequest.FromString(request.SerializeToString())
    return list(again.resource_spans[0].scope_spans[0].spans)


def given(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_a_recorded_run_is_a_trace_with_its_memory_and_its_verdict() -> None:
    with Bank.create("memory:exported") as bank:
        bank.remember("Count lamps with DISTINCT", "Joins repeat rows of lamps: write COUNT(DISTINCT ?lamp).")
        with bank.record("How are lamps counted?", model="small") as agent:
            agent.recall()
            agent.tool("look", {"at": "a"}, error=ValueError("no such lamp"))
            agent.finish("By DISTINCT.")
        agent.judge(False, by="tests", reason="expected 3")
        lesson = {"title": "Ask for all", "description": "Lamps", "content": "Ask for all lamps at once."}
        bank.learn(agent, complete=lambda _: json.dumps({"memory_items": [lesson]}))
        (line,) = list(export(bank, None, "otlp"))
        (name, pieces), *none = export_files(bank, None, "otlp")
        assert b"".join(pieces) == line and name.endswith(".jsonl") and not none
    top, *below = decoded(line)
    spans = {each.name.partition(" ")[0]: each for each in below}
    assert set(spans) == {"search_memory", "execute_tool", "create_memory"}
    assert not top.parent_span_id and {each.parent_span_id for each in below} == {top.span_id}
    asked = json.loads(given(top)["gen_ai.input.messages"])
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "How are lamps counted?"}]}]
    (verdict,) = top.events
    assert verdict.name == "gen_ai.evaluation.result" and given(verdict)["gen_ai.evaluation.score.label"] == "fail"
    assert given(verdict)["gen_ai.evaluation.score.value"] == 0.0
    searched = given(spans["search_memory"])
    assert searched["gen_ai.memory.query.text"] == "How are lamps counted?"
    # A search for each polarity: one found the strategy, the other no guardrail.
    records = [json.loads(given(each)["gen_ai.memory.records"]) for each in below if "search_memory" in each.name]
    (record,) = [record for found in records for record in found]
    assert record["id"] and record["score"] > 0 and "DISTINCT" in record["content"]
    (made,) = json.loads(given(spans["create_memory"])["gen_ai.memory.records"])
    assert made["content"].startswith("Ask for all")
    assert spans["execute_tool"].status.code == 2 and given(spans["execute_tool"])["error.type"]


def test_an_export_comes_back_as_nothing_because_its_runs_are_there(tmp_path: Path) -> None:
    with Bank.open(SAMPLE) as bank:
        (tmp_path / "traces.jsonl").write_bytes(b"".join(export(bank, None, "otlp")))
    with Bank.create("memory:read-back") as other:
        assert import_paths(other, [tmp_path / "traces.jsonl"]).appended == 0
