"""Files of OpenTelemetry: what a run has of its trace, in both conventions and all forms; and hostile files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rbank_es import Bank
from rbank_es.agents.traces.otlp_body import body_of_json, body_of_protobuf
from rbank_es.errors import BadImport, BadInput
from rbank_es.events import LmCalled, NoteLogged, RunFinished, RunJudged, RunStarted, ToolCalled
from rbank_es.events.codec import event_types
from rbank_es.exchange import import_paths
from tests.agents.traces.made_traces import (
    SAMPLES,
    Fields,
    chat,
    details,
    logs,
    pairs,
    request,
    root,
    span,
    tool,
    write,
)


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank.create(f"memory:{uuid4().hex}") as made:
        yield made


def events(bank: Bank, kind: type[Any]) -> list[Any]:
    return [event for event in bank.log.read(resolve=event_types().keys()) if isinstance(event, kind)]


@pytest.mark.parametrize("name", ["genai.json", "genai.pb", "genai-base64.json"])
def test_a_trace_of_the_generative_conventions_is_a_run(bank: Bank, name: str) -> None:
    import_paths(bank, [SAMPLES / name])
    (start,), (call,), (search, broken) = events(bank, RunStarted), events(bank, LmCalled), events(bank, ToolCalled)
    (end,), (judged,) = events(bank, RunFinished), events(bank, RunJudged)
    assert (start.task, start.executor, start.model, start.release) == (
        "Which lamps are lit?",
        "lamp-agent",
        "small-model-2026",
        "0.1",
    )
    assert "Answer briefly." in start.extra and start.occurred_at.startswith("2026-11-22")
    assert (call.tokens_in, call.tokens_out, call.duration_s is not None) == (21, 9, True)
    assert (search.tool, json.loads(search.arguments), json.loads(search.result)) == (
        "search",
        {"q": "lamps"},
        {"lit": ["a", "c"]},
    )
    assert (broken.error, broken.error_code) == ("no such lamp", "failed")
    assert (end.outcome, end.iterations) == ("submitted", 1)
    assert (judged.verdict, judged.kind, judged.judge) == ("success", "lm", "evaluation:tests")


@pytest.mark.parametrize("name", ["openinference.json", "openinference.pb"])
def test_a_trace_of_openinference_is_a_run(bank: Bank, name: str) -> None:
    import_paths(bank, [SAMPLES / name])
    (start,), (call,), (search,) = events(bank, RunStarted), events(bank, LmCalled), events(bank, ToolCalled)
    (end,) = events(bank, RunFinished)
    assert (start.task, end.answer, end.outcome) == ("Which lamps are lit?", "a and c", "submitted")
    assert (call.model, call.tokens_in, call.tokens_out) == ("small-model", 21, 9)
    assert (search.tool, json.loads(search.result)) == ("search", {"lit": ["a", "c"]})


def steps_of_a_loop() -> list[Fields]:
    """Three calls of one loop, each a trace of its own that tells the conversation so far."""
    messages: list[Fields] = [{"role": "user", "parts": [{"type": "text", "content": "Which lamps are lit?"}]}]
    calls = list[Fields]()
    for number in (1, 2, 3):
        given = chat(number, None, "", f"step {number}", trace=number)
        kept = [each for each in given["attributes"] if each["key"] != "gen_ai.input.messages"]
        given["attributes"] = kept + pairs({"gen_ai.input.messages": json.dumps(messages)})
        calls.append(given)
        call = {"type": "tool_call", "id": f"t{number}", "name": "look", "arguments": {"at": number}}
        messages.append({"role": "assistant", "parts": [call]})
        answer = {"type": "tool_call_response", "id": f"t{number}", "response": f"lamp {number}"}
        messages.append({"role": "tool", "parts": [answer]})
    return calls


def test_the_calls_of_a_script_that_has_no_span_of_its_own_are_one_run(bank: Bank, tmp_path: Path) -> None:
    """Those of one process whose conversations begin with the same words; each of its tools once."""
    other = chat(9, None, "How many lamps?", "7", trace=9)
    for number, spans in enumerate([steps_of_a_loop()[:2], [*steps_of_a_loop()[2:], other]]):
        import_paths(bank, [write(tmp_path / f"{number}.json", [request(spans, instance="a-process")])])
    assert [start.task for start in events(bank, RunStarted)] == ["Which lamps are lit?", "How many lamps?"]
    loop, alone = (start.run for start in events(bank, RunStarted))
    ends = {end.run: end for end in events(bank, RunFinished)}
    assert (ends[loop].answer, ends[loop].iterations, ends[loop].outcome) == ("step 3", 3, "submitted")
    assert ends[loop].duration_s == pytest.approx(0.0025) and ends[alone].answer == "7"
    assert [call.result for call in events(bank, ToolCalled)] == ["lamp 1", "lamp 2"]
    again = import_paths(bank, [write(tmp_path / "all.json", [request(steps_of_a_loop(), instance="a-process")])])
    assert again.appended == 0
    import_paths(bank, [write(tmp_path / "new.json", [request(steps_of_a_loop()[:1], instance="another")])])
    assert len(events(bank, RunStarted)) == 2  # its trace is known


def test_the_calls_of_a_conversation_are_one_run_and_of_nothing_known_each_its_own(bank: Bank, tmp_path: Path) -> None:
    def said(number: int, **more: Any) -> Fields:
        call = chat(number, None, f"question {number}", "a", trace=number)
        return call | {"attributes": call["attributes"] + pairs(more)}

    named = [request([said(number, **{"gen_ai.conversation.id": "c1"})], instance=str(number)) for number in (1, 2)]
    import_paths(bank, [write(tmp_path / "t.jsonl", [*named, request([said(3)]), request([said(4)])])])
    assert [start.task for start in events(bank, RunStarted)] == ["question 1", "question 3", "question 4"]


def test_messages_that_come_behind_their_call_end_in_its_run(bank: Bank, tmp_path: Path) -> None:
    silent = chat(2, 1, "", "") | {"attributes": pairs({"gen_ai.operation.name": "chat"})}
    late = write(tmp_path / "late.jsonl", [details(2, "Which lamps?", "a and c")])
    assert import_paths(bank, [late]).appended == 0
    import_paths(bank, [write(tmp_path / "t.json", [request([root(1, "q", ""), silent])])])
    for _ in range(2):
        import_paths(bank, [late])
    (note,), ends = events(bank, NoteLogged), events(bank, RunFinished)
    (call,) = events(bank, LmCalled)
    assert (note.run, json.loads(note.note)) == (
        call.run,
        {"call": call.id, "prompt": "Which lamps?", "text": "a and c"},
    )
    assert [end.answer for end in ends] == [None, "a and c"] and {end.run for end in ends} == {call.run}


def test_a_search_is_a_call_with_its_documents(bank: Bank, tmp_path: Path) -> None:
    found = {"retrieval.documents.0.document.content": "lamp a is lit", "retrieval.documents.0.document.score": 0.5}
    given = {"openinference.span.kind": "RETRIEVER", "input.value": "lamps", **found}
    import_paths(bank, [write(tmp_path / "t.json", [request([root(1, "q", ""), span(2, 1, "docs", given)])])])
    (search,) = events(bank, ToolCalled)
    assert (search.tool, search.arguments) == ("docs", '"lamps"') and "lamp a is lit" in search.result


def test_a_raw_request_outweighs_flattened_names_of_which_the_oldest_are_lost(bank: Bank, tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "Which lamps are lit?"}], "model": "small-model"}
    given = {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps(body),
        "llm.input_messages.7.message.role": "user",
    }
    lost = span(1, None, "ChatCompletion", given | {"llm.input_messages.7.message.content": "end"})
    import_paths(bank, [write(tmp_path / "t.json", [request([lost | {"droppedAttributesCount": 40}])])])
    (start,) = events(bank, RunStarted)
    assert start.task == "Which lamps are lit?" and json.loads(start.extra)["attributes_dropped"] == 40


def test_an_agent_below_another_programs_request_ends_by_itself(bank: Bank, tmp_path: Path) -> None:
    agent = root(2, "q", "done")
    import_paths(bank, [write(tmp_path / "t.json", [request([agent | {"parentSpanId": f"{1:016x}", "flags": 0x300}])])])
    (end,) = events(bank, RunFinished)
    assert (end.outcome, end.answer) == ("submitted", "done")


def test_a_young_trace_without_its_root_is_left_out_until_it_comes(bank: Bank, tmp_path: Path) -> None:
    now = {"startTimeUnixNano": str(time.time_ns() - 2_000_000), "endTimeUnixNano": str(time.time_ns() - 1_000_000)}
    below = chat(2, 1, "q", "a") | now
    report = import_paths(bank, [write(tmp_path / "t.jsonl", [request([below])])])
    assert report.appended == 0 and "without a root" in report.files[0].notes[0]
    import_paths(bank, [write(tmp_path / "t.jsonl", [request([below]), request([root(1, "q", "") | now])])])
    assert [end.outcome for end in events(bank, RunFinished)] == ["submitted"]


def test_a_later_evaluation_judges_its_run_and_makes_none(bank: Bank, tmp_path: Path) -> None:
    given = pairs({"gen_ai.evaluation.name": "facts", "gen_ai.evaluation.score.label": "fail"})
    record = {"traceId": f"{1:032x}", "spanId": f"{1:016x}", "eventName": "gen_ai.evaluation.result"}
    late = write(tmp_path / "late.jsonl", [logs(record | {"attributes": given, "timeUnixNano": "1795348023000000000"})])
    assert import_paths(bank, [late]).appended == 0
    import_paths(bank, [write(tmp_path / "t.json", [request([root(1, "q", "a")])])])
    import_paths(bank, [late])
    (judged,) = events(bank, RunJudged)
    assert (judged.verdict, judged.judge) == ("failure", "evaluation:facts")


def test_no_secret_of_a_trace_reaches_the_bank(bank: Bank, tmp_path: Path) -> None:
    key = "sk-live0123456789abcdefghij"
    spans = [root(1, f"use {key}", f"used {key}"), chat(2, 1, key, key), tool(3, 1, f'{{"k": "{key}"}}', key)]
    spans.append(span(4, 1, f"execute_tool {key}", {"gen_ai.operation.name": "execute_tool"}))
    import_paths(bank, [write(tmp_path / "t.json", [request(spans, service=key)])])
    assert len(events(bank, ToolCalled)) == 2
    assert not any(key in repr(event) for event in bank.log.read(resolve=event_types().keys()))


# ---------------------------------------------------------------- hostile


def test_parents_in_a_circle_are_a_run_all_the_same(bank: Bank, tmp_path: Path) -> None:
    circle = [chat(1, 3, "q", "a"), tool(2, 1, "x", "y"), chat(3, 2, "q", "b"), chat(4, 4, "q", "c")]
    import_paths(bank, [write(tmp_path / "t.json", [request(circle)])])
    assert len(events(bank, LmCalled)) == 3 and len(events(bank, RunFinished)) == 1


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"traceId": "zz"}, "traceId is no 32"),
        ({"traceId": "0" * 32}, "traceId is no 32"),
        ({"spanId": 7}, "spanId or parentSpanId is no 16"),
        ({"parentSpanId": "éé"}, "spanId or parentSpanId is no 16"),
        ({"spanId": "A" * 12}, "spanId or parentSpanId is no 16"),
    ],
)
def test_a_span_without_an_id_is_refused_alone(bank: Bank, tmp_path: Path, broken: Fields, reason: str) -> None:
    spans = [root(1, "q", "a"), chat(2, 1, "q", "a") | broken]
    report = import_paths(bank, [write(tmp_path / "t.json", [request(spans)])])
    assert report.files[0].lines_refused == 1 and reason in report.files[0].refusals[0].reason
    assert not report.is_whole and len(events(bank, RunFinished)) == 1
    with pytest.raises(BadImport, match="none of 1 span can be read"):
        import_paths(bank, [write(tmp_path / "t.json", [request(spans[1:])])])


@pytest.mark.parametrize("data", [b"\n\xff\xff\xff\xff\x0f\n", b"\n\x05\n\x03abc", b"\n\x40\n\x00garbage"])
def test_a_file_that_is_no_protobuf_is_refused(bank: Bank, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t.pb").write_bytes(data)
    with pytest.raises(BadInput):
        import_paths(bank, [tmp_path / "t.pb"])
    assert bank.position == 2


def test_spans_of_no_agent_make_no_run(bank: Bank, tmp_path: Path) -> None:
    web = [span(1, None, "GET /", {"http.request.method": "GET"}), span(2, 1, "SELECT", {"db.system.name": "x"})]
    report = import_paths(bank, [write(tmp_path / "t.json", [request(web)])])
    assert report.appended == 0 and report.files[0].notes


@pytest.mark.parametrize("said", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_the_same_from_protobuf_and_from_json(said: str) -> None:
    sent = ExportTraceServiceRequest.FromString((SAMPLES / "genai.pb").read_bytes())
    message = sent.resource_spans[0].scope_spans[0].spans[0]
    message.attributes.add(key="score").value.double_value = float(said)
    score = {"key": "score", "value": {"doubleValue": said}}
    document = json.dumps(request([span(1, None, "lamps", {}) | {"attributes": [score]}])).encode()
    bodies = [body_of_protobuf(sent.SerializeToString(), "traces"), body_of_json(document, "traces")]
    assert [repr(body.spans[0].attributes["score"]) for body in bodies] == [repr(float(said))] * 2
