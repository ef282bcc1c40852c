"""A bank's runs as OpenTelemetry's traces: JSON Lines of OTLP requests, one a run, in the names of today's conventions.

    invoke_agent      the run, with its task and answer; its verdicts are events `gen_ai.evaluation.result`
    chat              a call of a model, with what it answered
    execute_tool      a call of a tool
    search_memory     a search of the bank, with the items that it found
    create_memory     the items that were drawn from the run

Ids follow from those of the events, so a second export has the same spans. Where an erasure took words, they are left
out. Its resource says that a bank wrote it, and no import reads it, because the runs are there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from rbank_es import __version__
from rbank_es.bank import Bank
from rbank_es.events import (
    Event,
    JudgmentOverruled,
    LmCalled,
    MemoriesExtracted,
    MemoriesRetrieved,
    RunFinished,
    RunJudged,
    ToolCalled,
)
from rbank_es.events.run_events import VerdictValue
from rbank_es.exchange.exported_runs import begun_runs
from rbank_es.exchange.otlp_names import EVALUATED, OURS, SDK, names_of
from rbank_es.law import State
from rbank_es.log.run_reader import RunEvents

_TYPES = (
    *("run_started", "memories_retrieved", "tool_called", "lm_called", "run_finished", "run_judged"),
    "judgment_overruled",
)
_LABELS: Mapping[VerdictValue, tuple[str, float | None]] = {
    "success": ("pass", 1.0),
    "failure": ("fail", 0.0),
    "undecided": ("undecided", None),
}
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2


def trace_lines(bank: Bank, upto: int, run: str | None) -> Iterator[bytes]:
    """Yield a line for each run that began by a position, or of one."""
    state, drawn = bank.state(upto), dict[str, list[MemoriesExtracted]]()
    for event in bank.log.read(upto=upto, types=("memories_extracted",)):
        if isinstance(event, MemoriesExtracted) and event.runs:
            drawn.setdefault(event.runs[0], []).append(event)
    resource = {"attributes": _pairs({"service.name": OURS, "service.version": __version__, SDK: OURS})}
    for found in begun_runs(bank, upto, run, _TYPES):
        spans = list(_Spans(bank, state, found).all(drawn.get(found.run, [])))
        scope = {"scope": {"name": OURS, "version": __version__}, "spans": spans}
        yield msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + b"\n"


class _Spans:
    """The spans of one run."""

    def __init__(self, bank: Bank, state: State, run: RunEvents) -> None:
        self._bank, self._state, self._run = bank, state, run
        assert run.started is not None  # `begun_runs` gives no others
        self._started = run.started
        self._trace = sha256(f"{bank.log.bank_id} {run.started.id}".encode()).hexdigest()[:_TRACE_DIGITS]
        self._root = _span_id(run.started)

    def all(self, drawn: list[MemoriesExtracted]) -> Iterator[dict[str, Any]]:
        """Yield the root, and what is below it."""
        yield self._of_run()
        for event in self._run.events:
            if isinstance(event, LmCalled) and event.role == "agent":
                yield self._of_model(event)
            elif isinstance(event, ToolCalled):
                yield self._of_tool(event)
            elif isinstance(event, MemoriesRetrieved):
                records = [{"id": hit.id, "score": hit.score} for hit in event.hits]
                yield self._of_memory(event, "search_memory", records, query=_text(event.query))
        for extraction in drawn:
            yield self._of_memory(extraction, "create_memory", [{"id": head.id} for head in extraction.heads])

    def _of_run(self) -> dict[str, Any]:
        start, end = self._started, self._run.end
        given = {
            "operation": "invoke_agent",
            "agent": start.executor,
            "session": self._run.run,
            "model": start.model,
            "input": _messages("user", _text(start.task)),
            "output": _messages("assistant", _text(end.answer)) if end is not None else None,
        }
        span = self._span(start, f"invoke_agent {start.executor or self._run.run}", given, is_root=True)
        ended = _ns(end) if end is not None else max(map(_ns, self._run.events))
        failed = isinstance(end, RunFinished) and end.outcome == "failed"
        return span | {
            "startTimeUnixNano": str(_ns(start)),
            "endTimeUnixNano": str(max(ended, _ns(start))),
            "status": _status(_text(end.error) or end.error_code or "failed") if failed and end is not None else {},
            "events": [_evaluated(each) for each in self._run.judgments if each.purpose == "learning"],
        }

    def _of_model(self, event: LmCalled) -> dict[str, Any]:
        given = {
            "operation": "chat",
            "model": event.model,
            "tokens_in": event.tokens_in,
            "tokens_out": event.tokens_out,
            "tokens_cached": event.tokens_cached,
            "output": _messages("assistant", _text(event.response)),
            "error": event.error_code,
        }
        return self._span(event, f"chat {event.model}", given, kind=_CLIENT, error=_error(event))

    def _of_tool(self, event: ToolCalled) -> dict[str, Any]:
        given = {
            "operation": "execute_tool",
            "tool": event.tool,
            "arguments": _text(event.arguments),
            "result": _text(event.result),
            "error": event.error_code,
        }
        return self._span(event, f"execute_tool {event.tool}", given, error=_error(event))

    def _of_memory(
        self,
        event: MemoriesRetrieved | MemoriesExtracted,
        operation: str,
        records: list[dict[str, Any]],
        query: str = "",
    ) -> dict[str, Any]:
        """Return the span of a search or an extraction; its records have the words that their items have now."""
        for record in records:
            entry = self._state.items.get(record["id"])
            if entry is not None and not entry.erased:
                record["content"] = f"{entry.item.title}\n{entry.item.content}"
        given = {
            "operation": operation,
            "store": self._bank.name,
            "query": query or None,
            "documents": msgspec.json.encode(records).decode(),
        }
        return self._span(event, f"{operation} {self._bank.name}", given)

    def _span(
        self,
        event: Event,
        name: str,
        given: Mapping[str, Any],
        *,
        kind: int = _INTERNAL,
        is_root: bool = False,
        error: str = "",
    ) -> dict[str, Any]:
        ended, lasted = _ns(event), getattr(event, "duration_s", None) or 0.0
        return {
            "traceId": self._trace,
            "spanId": _span_id(event),
            **({} if is_root else {"parentSpanId": self._root}),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(max(0, ended - int(lasted * 1e6) * 1_000)),
            "endTimeUnixNano": str(ended),
            "attributes": _pairs({names_of(fact)[0]: value for fact, value in given.items() if value is not None}),
            "status": _status(error) if error else {},
        }


_TRACE_DIGITS, _SPAN_DIGITS = 32, 16


def _evaluated(event: RunJudged | JudgmentOverruled) -> dict[str, Any]:
    label, score = _LABELS[event.verdict]
    given = {"evaluation": event.judge, "label": label, "score": score, "explanation": _text(event.reason) or None}
    attributes = _pairs({names_of(fact)[0]: value for fact, value in given.items() if value is not None})
    return {"name": EVALUATED, "timeUnixNano": str(_ns(event)), "attributes": attributes}


def _span_id(event: Event) -> str:
    return sha256(event.id.encode()).hexdigest()[:_SPAN_DIGITS]


def _ns(event: Event) -> int:
    """Return the time of an event in nanoseconds since 1970."""
    since = datetime.fromisoformat(event.occurred_at or event.at) - datetime.fromisoformat("1970-01-01T00:00:00Z")
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


def _text(value: object) -> str:
    """Return a text that is there; empty for one that was erased."""
    return value if isinstance(value, str) else ""


def _error(event: LmCalled | ToolCalled) -> str:
    return (_text(event.error) or event.error_code or "") if event.error_code or event.error else ""


def _status(message: str) -> dict[str, Any]:
    return {"code": _ERROR, "message": message}


def _messages(role: str, text: str) -> str | None:
    parts = [{"type": "text", "content": text}]
    return msgspec.json.encode([{"role": role, "parts": parts}]).decode() if text else None


def _pairs(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in given.items()]


def _value(value: str | float) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}
