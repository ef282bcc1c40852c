"""The events of a trace's run, and what of them a bank doesn't have: late spans join their run in any order.

An act has the id of its span and says what that alone tells, so it is the same whatever came before it. The end says
what follows from the top and from all calls of models, those that the bank has included; where late spans change it,
the run gets another end, and the last one holds. The task is that of the first telling.

A trace that joins the run of a loop leaves a note there, under the id with which its own run would start. Messages that
come behind their call are a note, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from rbank_es.agents.traces.otlp_body import time_text
from rbank_es.agents.traces.span_facts import Evaluation, SpanFacts
from rbank_es.agents.traces.trace_run import FORM, Trace, rank_of, run_of
from rbank_es.agents.transcripts.transcript_events import EventWriter, identity_of
from rbank_es.agents.transcripts.transcript_run import clipped, decoded, seconds_between, text_or_none
from rbank_es.events import Event, LmCalled, NoteLogged, RunFinished, RunJudged, RunStarted, ToolCalled, type_of
from rbank_es.exchange.exported_runs import extra_of
from rbank_es.exchange.importer import ImportUnit, News, Parsed, RecordChange
from rbank_es.exchange.known_records import is_stored
from rbank_es.exchange.record_identity import identity, name_of, part_id
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
    return part_id(_record(trace), "started", "")


def _record(trace: str) -> bytes:
    return identity("transcript", FORM, trace)


class _ToldRun:
    """What some traces tell of one run; `key` is the trace, or what the loop of these traces is known by."""

    def __init__(self, key: str, *, is_loop: bool) -> None:
        self.key, self.is_loop = key, is_loop
        self.units, self.tops = list[ImportUnit](), list[TopSpan | None]()


class TraceEvents:
    """The events of traces. Pure but for the comparison with a log."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._tops: dict[str, TopSpan | None] = {}
        self._loops: dict[str, tuple[str, ...]] = {}
        self._additions = set[str]()

    def units(self, trace: Trace) -> list[ImportUnit]:
        """Return the events of a trace in pieces that are appended whole."""
        run, record = run_of(trace), _record(trace.id)
        name, top = identity_of(run)[1], _top_of(trace.top, self._writer)
        self._tops[name], self._loops[name] = top, trace.loop
        self._additions |= set() if trace.is_of_agent else {name}
        told = [replace(unit, events=tuple(map(_bare, unit.events))) for unit in self._writer.units(run)]
        calls = [event for unit in told for event in unit.events if isinstance(event, LmCalled)]
        late = [self._messages(record, name, each) for each in trace.logs]
        judged = [self._judged(record, name, each) for each in _each_once(trace.evaluations)]
        end = _end(record, name, top, calls, {}, self._writer)
        made = []
        for unit in told:
            events = [end if isinstance(event, RunFinished) else event for event in unit.events]
            made.append(replace(unit, events=tuple(events), record=f"trace {trace.id}"))
        return [*made[:-1], replace(made[-1], events=(*made[-1].events, *late, *judged))]

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

    def _messages(self, record: bytes, run: str, log: SpanFacts) -> NoteLogged:
        said = {"call": part_id(record, "message", log.span), "prompt": log.prompt, "text": clipped(log.text)}
        return NoteLogged(
            id=part_id(record, "messages", log.span, log.key[2]),
            occurred_at=self._writer.time(time_text(log.began_ns)),
            run=run,
            note=self._writer.json({name: text for name, text in said.items() if text}),
        )

    # ---------------------------------------------------------------- in a bank

    def _news(self, log: EventLog, parsed: Parsed, position: int) -> News:
        """Return what of traces is new at a position of a log."""
        news, changes, known, left_out = list[ImportUnit](), list[RecordChange](), 0, 0
        for run, told in self._told_runs(log, parsed, position).items():
            is_new = not is_stored(log, start_id(told.key), position)
            if is_new and not told.is_loop:
                # Of a trace that brings evaluations alone, the run must be there.
                news += [] if run in self._additions else told.units
                left_out += len(told.units) if run in self._additions else 0
                continue
            missing = self._missing(log, run, told, position)
            known += max(0, len(told.units) - len(missing))
            news += missing
            added = Counter(type_of(event) for unit in missing for event in unit.events)
            if added and not is_new:
                changes.append(RecordChange(record=told.units[0].record, run=run, added=dict(added)))
        return News(news, tuple(changes), known=known, left_out=left_out)

    def _told_runs(self, log: EventLog, parsed: Parsed, position: int) -> dict[str, _ToldRun]:
        """Return what is told of each run, by its name: of that of a trace, or of its loop."""
        traces: dict[str, list[ImportUnit]] = {}
        for unit in parsed.units:
            traces.setdefault(getattr(unit.events[0], "run", ""), []).append(unit)
        found: dict[str, _ToldRun] = {}
        # In order of time, because the first call of a loop says what the task is.
        for own, units in sorted(traces.items(), key=lambda each: each[1][0].events[0].occurred_at or ""):
            trace = units[0].record.removeprefix("trace ")
            loop = self._loop_of(log, own, trace, position)
            run = name_of(f"loop-{loop[:_NAME_DIGITS]}", _record(loop)) if loop else own
            told = found.setdefault(run, _ToldRun(loop or trace, is_loop=bool(loop)))
            told.units += [_in_loop(unit, run, loop, trace) for unit in units] if loop else units
            told.tops.append(self._tops.get(own))
        return found

    def _loop_of(self, log: EventLog, run: str, trace: str, position: int) -> str:
        """Return by what the loop of a trace is known; empty for a trace that is a run of its own."""
        seq = log.seq_of_id(start_id(trace))
        if seq is None or seq > position:
            return sha256("\0".join(self._loops[run]).encode()).hexdigest()[:32] if self._loops[run] else ""
        [start] = log.read(after=seq - 1, upto=seq, resolve={"note_logged"})
        fields = decoded(start.note) if isinstance(start, NoteLogged) and isinstance(start.note, str) else None
        return str(fields.get("loop")) if isinstance(fields, dict) else ""

    def _missing(self, log: EventLog, run: str, told: _ToldRun, position: int) -> list[ImportUnit]:
        """Return what a run has not; its end follows from all that it has then."""
        made, seen = list[ImportUnit](), set[str]()
        for unit in told.units:
            events = list[Event]()
            for event in unit.events:
                if not (isinstance(event, RunFinished) or event.id in seen or is_stored(log, event.id, position)):
                    events.append(event)
                    seen.add(event.id)
            made += [replace(unit, events=tuple(events))] if events else []
        known = read_run(log, run, position, types={"lm_called", "run_finished", "note_logged"}, resolve=True)
        new = [event for unit in made for event in unit.events]
        calls = [call for call in known.lm_calls if call.role == "agent"]
        calls += (event for event in new if isinstance(event, LmCalled))
        notes = dict(_late_words([*known.of(NoteLogged), *new]))
        top = _top_of_all([*told.tops, *map(_told_top, known.of(RunFinished))], is_loop=told.is_loop)
        end = _end(_record(told.key), run, top, calls, notes, self._writer)
        if not is_stored(log, end.id, position):
            made.append(replace(told.units[-1], events=(end,)))
        return made


def _in_loop(unit: ImportUnit, run: str, loop: str, trace: str) -> ImportUnit:
    """Return a unit of a trace as one of the run of a loop, without an end."""
    events = list[Event]()
    for event in unit.events:
        if isinstance(event, RunStarted):
            note = msgspec.json.encode({"trace": trace, "loop": loop}).decode()
            joined = NoteLogged(id=event.id, occurred_at=event.occurred_at, run=run, note=note)
            events += [replace(event, id=start_id(loop), run=run), joined]
        elif isinstance(event, ToolCalled) and event.call is not None and " " in event.call:
            # Told by the messages of a later call, and of those behind it: it is one.
            events.append(replace(event, id=part_id(_record(loop), "call", event.call), run=run))
        elif not isinstance(event, RunFinished):
            events.append(replace(event, run=run))
    return replace(unit, events=tuple(events))


def _top_of_all(tops: Sequence[TopSpan | None], *, is_loop: bool) -> TopSpan | None:
    """Return the top of a run by all that tell of one: of a loop its last call, which began with the first."""
    known = [each for each in tops if each is not None]
    if not is_loop or not known:
        return min(known, key=lambda each: each.order, default=None)
    last = max(known, key=lambda each: (each.ended or "", each.span))
    return replace(last, began=min(each.began for each in known), answer="", answer_chars=0)


def _late_words(events: Sequence[Event]) -> Iterator[tuple[str, str]]:
    """Yield the ids of calls whose messages came behind them, with what the model said."""
    for event in events:
        fields = decoded(event.note) if isinstance(event, NoteLogged) and isinstance(event.note, str) else None
        if isinstance(fields, dict) and isinstance(fields.get("call"), str) and text_or_none(fields.get("text")):
            yield fields["call"], str(fields["text"])


_JUDGE_CHARS = 120
_NAME_DIGITS = 16


def _each_once(given: Sequence[Evaluation]) -> list[Evaluation]:
    return list({(each.name, each.verdict, each.at_ns): each for each in given}.values())


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


def _end(
    record: bytes,
    run: str,
    top: TopSpan | None,
    calls: Sequence[LmCalled],
    notes: Mapping[str, str],
    writer: EventWriter,
) -> RunFinished:
    """Return the end that follows from the top of a run and from its calls of models, in whatever order.

    `notes` are words of models that came behind their calls, by the ids of these.
    """
    words = [(call.occurred_at or "", call.id, _words_of(call) or notes.get(call.id, "")) for call in calls]
    last = max((each for each in words if each[2]), default=("", "", ""))
    own = top is not None and bool(top.answer)
    late = ["late"] if not own and last[1] in notes else []
    answer = top.answer if top is not None and own else last[2]
    chars = top.answer_chars if top is not None and own else len(answer)
    fails = top is None or top.is_error
    extra = {_TOP: {"rank": top.rank, "began": top.began, "span": top.span, "answers": own}} if top is not None else {}
    return RunFinished(
        id=part_id(record, "finished", top.span if top else "", "" if own else last[1], len(calls), *late),
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
