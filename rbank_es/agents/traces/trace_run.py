"""A trace as a run: the facts of its spans, in whatever order and however often they came, as one value.

A run is a trace, so whatever comes of it later belongs to the same run. Its end is that of its top: the span without a
parent, else one whose parent is in another process, else an agent's whose parent never came. Where the top is a call,
nothing tells of the agent's loop: calls of one conversation, or of one process that begin with the same words of the
user, are then one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rbank_es.agents.traces.otlp_body import time_text
from rbank_es.agents.traces.span_facts import Evaluation, SpanFacts
from rbank_es.agents.transcripts.transcript_run import ModelMessage, ToolUse, TranscriptRun
from rbank_es.limits.otlp_limits import OTLP_SETTLE_S, OTLP_WAIT_S

FORM = "otlp"
_NAME_DIGITS = 16
_CALLS = ("model", "tool", "retrieval")
_OF_AGENTS = ("agent", *_CALLS)
_SURE = (0, 1)
_NS = 1e9


class Trace(NamedTuple):
    """The facts of a trace: its spans in order of their beginning, its evaluations, and messages of spans that aren't
    here."""

    id: str
    spans: tuple[SpanFacts, ...]
    evaluations: tuple[Evaluation, ...]
    logs: tuple[SpanFacts, ...] = ()

    @property
    def is_of_agent(self) -> bool:
        """Whether any span is of an agent, a model, a tool or a search."""
        return any(each.kind in _OF_AGENTS for each in self.spans)

    @property
    def tells(self) -> bool:
        """Whether it tells anything of a run, of its own or of one that is there."""
        return self.is_of_agent or bool(self.evaluations or self.logs)

    @property
    def loop(self) -> tuple[str, ...]:
        """By what the loop of a trace that is one call is known; empty for any other trace, and where nothing says."""
        top = self.top
        if top is None or top.parent or top.kind not in _CALLS:
            return ()
        if top.session:
            return "session", top.host, top.session
        return ("instance", top.host, top.instance, top.opening) if top.instance else ()

    @property
    def is_rooted(self) -> bool:
        """Whether a span has come that surely is the top."""
        return any(map(is_sure, self.spans))

    @property
    def top(self) -> SpanFacts | None:
        """The span that has the end of the run; None where it did not come, as of an agent that was killed."""
        known = {each.span for each in self.spans}
        tops = [each for each in self.spans if rank_of(each) is not None and each.parent not in known]
        return min(tops, key=lambda each: (rank_of(each), each.began_ns, each.span), default=None)

    @property
    def ended_ns(self) -> int:
        """When the last span ended."""
        return max((each.ended_ns for each in self.spans), default=0)


def rank_of(span: SpanFacts) -> int | None:
    """Return how sure it is that a span is the top of its trace, 0 is best; None for one that can't be."""
    if not span.parent:
        return 0
    if span.remote:
        return 1
    return 2 if span.kind == "agent" else None


def is_sure(span: SpanFacts) -> bool:
    """Return whether a span surely is the top of its trace, unless a better one comes."""
    return rank_of(span) in _SURE


def is_due(*, rooted: bool, quiet_s: float) -> bool:
    """Return whether a trace is to be taken in. `rooted`: it has a root, or the bank has its run; `quiet_s`: seconds
    since anything of it came."""
    return quiet_s >= (OTLP_SETTLE_S if rooted else OTLP_WAIT_S)


def traces_of(facts: Iterable[SpanFacts]) -> Iterator[Trace]:
    """Yield the traces of some facts; of a span that came twice, the one that ended later."""
    found: dict[str, dict[tuple[str, str, str], SpanFacts]] = {}
    for each in facts:
        parts = found.setdefault(each.trace, {})
        before = parts.get(each.key)
        if before is None or weight_of(before) < weight_of(each):
            parts[each.key] = each
    for trace, parts in found.items():
        logs = [part for key, part in sorted(parts.items()) if part.kind == "log"]
        spans = [_with_logs(part, logs) for part in parts.values() if part.kind != "log"]
        spans.sort(key=lambda each: (each.began_ns, each.span))
        judged = [given for each in (*spans, *logs) for given in each.evaluations]
        here = {each.span for each in spans}
        late = tuple(log for log in logs if log.span not in here and (log.text or log.prompt))
        evaluations = sorted(judged, key=lambda each: (each.at_ns, each.name, each.verdict))
        yield Trace(trace, tuple(spans), tuple(evaluations), late)


def weight_of(facts: SpanFacts) -> tuple[int, bytes]:
    """Return by what one of two spans with the same id is chosen, whichever came first."""
    return facts.ended_ns, msgspec.json.encode(facts, order="sorted")


def _with_logs(span: SpanFacts, logs: Sequence[SpanFacts]) -> SpanFacts:
    """Return a span with the messages that logs tell of it."""
    for log in logs:
        if log.span == span.span and (log.text or log.prompt) and not (span.text or span.prompt):
            names = ("prompt", "given", "text", "text_chars", "reasoning", "made")
            return replace(span, **{name: getattr(log, name) for name in names})
    return span


def run_of(trace: Trace) -> TranscriptRun:
    """Return the run of a trace; its end is another's work, because later spans may change it."""
    top, first = trace.top, trace.spans[0] if trace.spans else None
    models = [each for each in trace.spans if each.kind == "model"]
    known = [each for each in (top, *trace.spans) if each is not None]
    prompt = next((each.prompt for each in (*([top] if top else ()), *models) if each.prompt), "")
    host = next((each.host for each in known if each.host), FORM)
    run = TranscriptRun(
        form=FORM,
        host=host,
        key=(trace.id,),
        name=f"trace-{trace.id[:_NAME_DIGITS]}",
        session=next((each.session for each in known if each.session), ""),
        line=0,
        prompts=[prompt or (top.name if top else "")],
        began=time_text(first.began_ns) if first else None,
        ended=time_text(trace.ended_ns),
        ending="done",
        release=next((each.release for each in known if each.release), None),
        model=next((each.model for each in models if each.model), None),
        extra={"trace": trace.id} | _dropped(trace),
    )
    for span in models:
        for text in span.given:
            run.give(text)
    for span in trace.spans:
        if span.kind == "model":
            # Only of a run that is one call: the tools of others have spans of their own.
            for call in span.made if span is top else ():
                run.add(call)
            run.add(_message(span))
        elif span.kind in ("tool", "retrieval"):
            run.add(_tool_use(span))
    return run


def _dropped(trace: Trace) -> dict[str, int]:
    number = sum(each.dropped for each in trace.spans)
    return {"attributes_dropped": number} if number else {}


def _message(span: SpanFacts) -> ModelMessage:
    return ModelMessage(
        id=span.span,
        model=span.model or None,
        at=time_text(span.ended_ns),
        text=span.text,
        reasoning=span.reasoning,
        tokens_in=span.tokens_in,
        tokens_out=span.tokens_out,
        tokens_cached=span.tokens_cached,
        cost_usd=span.cost_usd,
        duration_s=(span.ended_ns - span.began_ns) / _NS,
        error=span.error if span.is_error else None,
    )


def _tool_use(span: SpanFacts) -> ToolUse:
    call = ToolUse(
        id=span.span,
        name=span.name or span.kind,
        arguments=span.arguments,
        at=time_text(span.began_ns),
        ended=time_text(span.ended_ns),
        duration_s=(span.ended_ns - span.began_ns) / _NS,
        is_error=span.is_error,
    )
    text = span.text or (span.error if span.is_error else "")
    if text:
        call.answer(text, call.ended)
        call.chars = max(call.chars, span.text_chars)
    return call
