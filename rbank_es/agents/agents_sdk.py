"""A tracing processor for the OpenAI Agents SDK: each trace is a run, with recall, calls and an end. Loads agents.

>>> recorder = BankProcessor(bank)  # doctest: +SKIP
>>> agents.set_trace_processors([recorder])  # doctest: +SKIP
>>> config = RunConfig(call_model_input_filter=recorder.give_lessons)  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import Any

import msgspec

from rbank_es.agents.answer_judges import AnswerJudge, judge_answer
from rbank_es.bank import Bank
from rbank_es.bank.agent_run import AgentRun
from rbank_es.system.extras import named_extra

with named_extra():
    from agents import exceptions, tracing


class _Traced:
    """A trace under way: its run once the task is known, what came of it so far, and what was being handled before."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.run: AgentRun | None = None
        self.answer, self.failure, self.before = "", "", sys.exception()


class BankProcessor(tracing.TracingProcessor):
    """The recorder of the SDK's traces in one bank, each a run; any number of them at once.

    The task is what the user said in the first call of a model. `give_lessons` is for `call_model_input_filter` of the
    run's configuration: without it nothing is recalled. The SDK logs what a processor raises, and goes on.
    """

    def __init__(self, bank: Bank, *, judge: AnswerJudge | None = None, domain: str | None = None) -> None:
        """Record in `bank`; `judge` gives a verdict on each answer, `domain` is a fact of the runs."""
        self._bank, self._judge, self._domain = bank, judge, domain
        self._traced: dict[str, _Traced] = {}

    async def give_lessons(self, data: Any) -> Any:
        """Return the input of a model's call, with the run's lessons after the instructions. Raises as the recorder."""
        trace, given = tracing.get_current_trace(), data.model_data
        traced, lessons = self._traced.get(trace.trace_id) if trace is not None else None, ""
        if traced is not None:
            # On a thread, because a search would hold the loop.
            lessons = (await asyncio.to_thread(self._run_of, traced, given.input, recalls=True)).recalled
        return replace(given, instructions="\n\n".join(filter(None, (given.instructions, lessons))) or None)

    def on_trace_start(self, trace: Any) -> None:
        """Wait for the task: a trace doesn't say it."""
        self._traced[trace.trace_id] = _Traced()

    def on_span_start(self, span: Any) -> None:
        """Do nothing: what a span is about is known at its end."""

    def on_span_end(self, span: Any) -> None:
        """Record a call of a model or of a tool."""
        data, traced = span.span_data, self._traced.get(span.trace_id)
        if traced is None:
            return
        if isinstance(data, tracing.AgentSpanData):
            traced.failure = _error(span) or ""
        elif isinstance(data, tracing.FunctionSpanData) and traced.run is not None:
            traced.run.tool(data.name, _plain(data.input), data.output, error=_error(span), duration_s=_took_s(span))
            traced.answer = str(data.output)  # unless a model says more
        elif isinstance(data, tracing.GenerationSpanData | tracing.ResponseSpanData):
            self._record_call(traced, span, data)

    def on_trace_end(self, trace: Any) -> None:
        """Record the end: the last words of a model, or the exception that leaves the SDK. Raises as the judge."""
        traced = self._traced.pop(trace.trace_id, None)
        if traced is None or traced.run is None:
            return
        error = sys.exception()
        if error is traced.before:
            # A stream ends its trace before it raises.
            error = exceptions.AgentsException(traced.failure) if traced.failure else None
        if error is not None:
            traced.run.__exit__(type(error), error, None)
            return
        traced.run.finish(traced.answer)
        judge_answer(traced.run, self._judge, traced.answer)

    def shutdown(self) -> None:
        """End the runs of traces that never ended, as unfinished."""
        while self._traced:
            run = self._traced.popitem()[1].run
            if run is not None:
                run.__exit__(None, None, None)

    def force_flush(self) -> None:
        """Do nothing: each event was on disk when it was recorded."""

    def _record_call(self, traced: _Traced, span: Any, data: Any) -> None:
        response = getattr(data, "response", None)
        reply = getattr(data, "output", None) if response is None else response.model_dump(mode="json")
        usage, model = data.usage or {}, getattr(data, "model", None) or getattr(response, "model", None)
        self._run_of(traced, data.input).call(
            request={"model": model, "messages": data.input},
            response=reply,
            model=model,
            tokens_in=usage.get("input_tokens"),
            tokens_out=usage.get("output_tokens"),
            tokens_cached=(usage.get("input_tokens_details") or {}).get("cached_tokens"),
            error=_error(span),
            duration_s=_took_s(span),
        )
        traced.answer = _words(reply) or traced.answer

    def _run_of(self, traced: _Traced, asked: Any, *, recalls: bool = False) -> AgentRun:
        """Return the run of a trace, which begins when its first call of a model says what was asked."""
        with traced.lock:
            if traced.run is None:
                traced.run = self._bank.record(_question(asked), domain=self._domain, executor="openai-agents")
                (traced.run.begin_with_recall if recalls else traced.run.__enter__)()
            return traced.run


def _error(span: Any) -> str | None:
    return f"{span.error['message']}: {(span.error.get('data') or {}).get('error', '')}" if span.error else None


def _took_s(span: Any) -> float:
    return (datetime.fromisoformat(span.ended_at) - datetime.fromisoformat(span.started_at)).total_seconds()


def _plain(arguments: str | None) -> Any:
    try:
        return msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:  # a model wrote them
        return arguments


def _question(asked: Any) -> str:
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked or ()
    return _words([each for each in items if isinstance(each, dict) and each.get("role") == "user"][-1:])


def _words(given: Any) -> str:
    """Return the words of messages of chat completions, or of a response: texts, `content` and `output` in lists."""
    if isinstance(given, dict):
        return _words(given.get("text") or given.get("content") or given.get("output"))
    return "\n".join(filter(None, map(_words, given))) if isinstance(given, list) else given or ""
