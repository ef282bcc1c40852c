"""The events of a trace's run, and what of them a bank doesn't have: late spans join their run in any order.

An act has the id of its span and says what that alone tells, so it is the same whatever came before it. The end says
what follows from the top and from all calls of models, those that the bank has included; where late spans change it,
the run gets another end, and the last one holds. The task is that of the first telling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from rbank_es.agents.traces.otlp_body import time_text
from rbank_es.agents.traces.span_facts import Evaluation, SpanFacts
from rbank_es.agents.traces.trace_run import FORM, Trace, rank_of, run_of
from rbank_es.agents.transcripts.transcript_events import EventWriter, identity_of
from rbank_es.agents.transcripts.transcript_run import clipped, decoded, seconds_between, text_or_none
from rbank_es.events import Event, LmCalled, RunFinished, RunJudged, ToolCalled, type_of
from rbank_es.exchange.exported_runs import extra_of
from rbank_es.exchange.identity import identity, part_id
from rbank_es.exchange.importer import ImportUnit, News, Parsed, RecordChange
from rbank_es.limits import JUDGE_REASON_CHARS
from rbank_es.log import EventLog
from rbank_es.log.run_reader import read_run

_TOP = "top"
"""Key of `extra` of an end for the span that it is of."""


class TopSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The top of a trace, as far as an end tells it: see `rank_of`. `answer` is its own, not that of a model below."""

    rank: int
    began: str
    span: str
    ended: str | None = None
    answer: str = ""
    answer_chars: int = 0
    is_error: bool = False
    error: str = ""

    @property
    def order(self) -> tuple[int, str, str]:
        """The least one is the top."""
        return self.rank, self.began, self.span


def start_id(trace: str) -> str:
    """Return the id of the event with which the run of a trace starts."""
    return part_id(identity("transcript", FORM, trace), "started", "")


class TraceEvents:
    """The events of traces. Pure but for the comparison with a log."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._tops: dict[str, TopSpan | None] = {}
        self._additions = set[str]()

    def units(self, trace: Trace) -> list[ImportUnit]:
        """Return the events of a trace in pieces that are appended whole."""
        run, record = run_of(trace), identity("transcript", FORM, trace.id)
        name, top = identity_of(run)[1], _top_of(trace.top, self._writer)
        self._tops[name] = top
        self._additions |= set() if trace.is_of_agent else {name}
        told = [replace(unit, events=tuple(map(_bare, unit.events))) for unit in self._writer.units(run)]
        calls = [event for unit in told for event in unit.events if isinstance(event, LmCalled)]
        judged = tuple(self._judged(record, name, each) for each in _each_once(trace.evaluations))
        end = _end(record, name, top, calls, self._writer)
        made = []
        for unit in told:
            events = [end if isinstance(event, RunFinished) else event for event in unit.events]
            made.append(replace(unit, events=tuple(events), record=f"trace {trace.id}"))
        return [*made[:-1], replace(made[-1], events=(*made[-1].events, *judged))]

    def parsed(self, path: str, units: Sequence[ImportUnit], **said: Any) -> Parsed:
        """Return units as a file to be imported, compared with its log by the rule of traces."""
        return Parsed(path=path, form=FORM, units=tuple(units), compared=self._news, **said)

    def _judged(self, record: bytes, run: str, given: Evaluation) -> RunJudged:
        # Whoever evaluates may be anything, so it has the authority of a model.
        return RunJudged(
            id=part_id(record, "judged", given.name, given.verdict, given.at_ns),
            occurred_at=self._writer.time(time_text(given.at_ns)),
            run=run,
            purpose="learning",
            verdict=given.verdict,
            judge=f"evaluation:{given.name}"[:_JUDGE_CHARS],
            judge_version="1",
            kind="lm",
            reason=given.reason[:JUDGE_REASON_CHARS],
        )

    # ---------------------------------------------------------------- in a bank

    def _news(self, log: EventLog, parsed: Parsed, position: int) -> News:
        """Return what of traces is new at a position of a log."""
        runs: dict[str, list[ImportUnit]] = {}
        for unit in parsed.units:
            runs.setdefault(getattr(unit.events[0], "run", ""), []).append(unit)
        news, changes, known, left_out = list[ImportUnit](), list[RecordChange](), 0, 0
        for run, units in runs.items():
            if not _is_stored(log, units[0].events[0], position):
                # Of a trace that brings evaluations alone, the run must be there.
                news += [] if run in self._additions else units
                left_out += len(units) if run in self._additions else 0
                continue
            missing = self._missing(log, run, units, position)
            known += len(units) - len(missing)
            news += missing
            if added := Counter(type_of(event) for unit in missing for event in unit.events):
                changes.append(RecordChange(record=units[0].record, run=run, added=dict(added)))
        return News(news, tuple(changes), known=known, left_out=left_out)

    def _missing(self, log: EventLog, run: str, units: Sequence[ImportUnit], position: int) -> list[ImportUnit]:
        """Return what a known run has not; its end follows from all that it has then."""
        stored = partial(_is_stored, log, position=position)
        acts = [
            replace(unit, events=tuple(e for e in unit.events if not isinstance(e, RunFinished) and not stored(e)))
            for unit in units
        ]
        made = [unit for unit in acts if unit.events]
        known = read_run(log, run, position, types={"lm_called", "run_finished"}, resolve=True)
        tops = [self._tops.get(run), *map(_told_top, known.of(RunFinished))]
        top = min((each for each in tops if each is not None), key=lambda each: each.order, default=None)
        calls = [call for call in known.lm_calls if call.role == "agent"]
        calls += (e for unit in made for e in unit.events if isinstance(e, LmCalled))
        trace = units[0].record.removeprefix("trace ")
        end = _end(identity("transcript", FORM, trace), run, top, calls, self._writer)
        if not stored(end):
            made.append(replace(units[-1], events=(end,)))
        return made


_JUDGE_CHARS = 120


def _each_once(given: Sequence[Evaluation]) -> list[Evaluation]:
    return list({(each.name, each.verdict, each.at_ns): each for each in given}.values())


def _is_stored(log: EventLog, event: Event, position: int) -> bool:
    seq = log.seq_of_id(event.id)
    return seq is not None and seq <= position


def _bare(event: Event) -> Event:
    """Return an act without what its span alone doesn't tell: the number of its step. A span that ended is answered."""
    if isinstance(event, LmCalled):
        return replace(event, step=None)
    if isinstance(event, ToolCalled):
        return replace(event, step=None, error_code=None if event.error_code == "unanswered" else event.error_code)
    return event


def _top_of(span: SpanFacts | None, writer: EventWriter) -> TopSpan | None:
    rank = rank_of(span) if span is not None else None
    if span is None or rank is None:
        return None
    return TopSpan(
        rank=rank,
        began=writer.time(time_text(span.began_ns)) or "",
        span=span.span,
        ended=writer.time(time_text(span.ended_ns)),
        answer=span.text if span.kind != "tool" else "",
        answer_chars=span.text_chars if span.kind != "tool" else 0,
        is_error=span.is_error,
        error=span.error,
    )


def _told_top(end: RunFinished) -> TopSpan | None:
    """Return the top that an end in a bank tells; None where it is of none."""
    fields = extra_of(end).get(_TOP)
    if not isinstance(fields, dict) or type(fields.get("rank")) is not int:
        return None
    own = fields.get("answers") is True
    return TopSpan(
        rank=fields["rank"],
        began=str(fields.get("began")),
        span=str(fields.get("span")),
        ended=end.occurred_at,
        answer=end.answer if own and isinstance(end.answer, str) else "",
        answer_chars=(end.answer_chars or 0) if own else 0,
        is_error=end.outcome == "failed",
        error=end.error if isinstance(end.error, str) else "",
    )


def _end(record: bytes, run: str, top: TopSpan | None, calls: Sequence[LmCalled], writer: EventWriter) -> RunFinished:
    """Return the end that follows from the top of a trace and from its calls of models, in whatever order."""
    said = [(call.occurred_at or "", call.id, text) for call in calls if (text := _words_of(call))]
    last = max(said, default=("", "", ""))
    own = top is not None and bool(top.answer)
    answer = top.answer if top is not None and own else last[2]
    chars = top.answer_chars if top is not None and own else len(answer)
    fails = top is None or top.is_error
    extra = {_TOP: {"rank": top.rank, "began": top.began, "span": top.span, "answers": own}} if top is not None else {}
    return RunFinished(
        id=part_id(record, "finished", top.span if top else "", "" if own else last[1], len(calls)),
        occurred_at=top.ended
        if top is not None
        else max((call.occurred_at or "" for call in calls), default="") or None,
        run=run,
        outcome="failed" if fails else "submitted",
        error_code=("interrupted" if top is None else "provider") if fails else None,
        error=top.error or None if top is not None and fails else None,
        iterations=len(calls),
        answer=writer.text(answer) if answer else None,
        answer_chars=chars if answer else None,
        previews=("answer",) if answer and chars > len(answer) else (),
        duration_s=_lasted(top),
        extra=writer.json(extra) if extra else None,
    )


def _lasted(top: TopSpan | None) -> float | None:
    return max(0.0, seconds_between(top.began, top.ended)) if top is not None and top.began and top.ended else None


def _words_of(call: LmCalled) -> str:
    """Return what a model said, as the event of its call has it."""
    fields = decoded(call.response) if isinstance(call.response, str) else None
    return clipped(text_or_none(fields.get("text")) or "") if isinstance(fields, dict) else ""
