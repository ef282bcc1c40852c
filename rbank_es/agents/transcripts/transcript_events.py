"""The events that tell of a transcript's run: the same that a recorder would have written, with ids of its identity.

An open turn may go on, so of it only what can't change is told: calls with their results, messages that another act
followed. The rest comes with a later import. Texts are redacted before they are clipped to their fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rbank_es.agents.hook_process import MARKER
from rbank_es.agents.transcripts.outcome_evidence import OutcomeEvidence, evidence_of
from rbank_es.agents.transcripts.transcript_run import ModelMessage, ToolUse, TranscriptRun, clipped, seconds_between
from rbank_es.bank.recorded_values import recorded_amount, recorded_count, recorded_name
from rbank_es.events import Event, LmCalled, RunFinished, RunJudged, RunStarted, ToolCalled
from rbank_es.events.likely_secrets import redact_likely
from rbank_es.exchange.importer import TIMESTAMP, ImportUnit
from rbank_es.exchange.record_identity import identity, name_of, part_id
from rbank_es.limits import EVENT_S, EVENT_USD, JUDGE_REASON_CHARS
from rbank_es.limits.transcript_limits import (
    TRANSCRIPT_ARGUMENT_CHARS,
    TRANSCRIPT_GROUP_ACTS,
    TRANSCRIPT_GROUP_BYTES,
)
from rbank_es.system.utc_times import utc_time

JUDGES = {"reward": "reward", "tests_passed": "tests", "tests_failed": "tests"}
"""The judge of each kind of evidence."""

_FIRST_TIME = "2000"
"""A clock that wasn't set says 1970: an earlier time is kept as written alone."""

_GIVEN = re.compile(rf"\[{MARKER} [0-9a-f]{{16}}\]")
"""The end of what a hook gave: a text that speaks of the marker is none."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def identity_of(run: TranscriptRun) -> tuple[str, str]:
    """Return by what a run of a transcript is known in a bank: the id of the event with which it starts, its name."""
    record = identity("transcript", run.form, *run.key)
    day = _DATE.match(run.began or "")
    # The date, because 32 bits tell the runs of a day apart, and not those of years.
    return part_id(record, "started", ""), name_of(run.name or (f"{run.host}-{day[0]}" if day else run.host), record)


class EventWriter:
    """A maker of events. `hidden` are secrets of this environment, `now` is a time that none of a run may be behind."""

    def __init__(self, hidden: tuple[str, ...], now: str) -> None:
        self._hidden, self._now = hidden, now

    def units(self, run: TranscriptRun) -> list[ImportUnit]:
        """Return the events of a run, in pieces that are appended whole; none for a turn that nothing answered yet."""
        acts = _settled(run)
        if run.ending == "open" and not acts:
            return []
        events = _RunEvents(self, run).events(acts)
        # `by_id`, because copies differ in what is around a run: its session, its folder, its context.
        return [ImportUnit(tuple(piece), record=f"line {run.line:,}", by_id=True) for piece in _pieces(events)]

    def text(self, text: str) -> str:
        """Return a text as the log may have it."""
        return redact_likely(text, self._hidden)

    def json(self, value: Any) -> str:
        """Return a value as redacted JSON."""
        return self.text(msgspec.json.encode(value, order="sorted").decode())

    def fact(self, text: str | None) -> str | None:
        """Return a name as the log may have it, redacted and short; None for none."""
        return recorded_name(self.text(text), "") or None if text else None

    def time(self, written: str | None) -> str | None:
        """Return a time as the log has it; None for one that no clock that was set can have said."""
        if not written:
            return None
        try:
            time = utc_time(written)
        except ValueError:
            return None
        return time if _FIRST_TIME < time <= self._now else None


class _RunEvents:
    """The events of one run."""

    def __init__(self, writer: EventWriter, run: TranscriptRun) -> None:
        self._writer, self._run = writer, run
        self._record, self._name = identity("transcript", run.form, *run.key), identity_of(run)[1]

    def events(self, acts: Sequence[ToolUse | ModelMessage]) -> Iterator[Event]:
        """Yield the events in the order of what they tell."""
        yield self._started()
        step = 0
        for act in acts:
            step += isinstance(act, ModelMessage)
            yield self._called(act, step) if isinstance(act, ToolUse) else self._said(act, step)
        if self._run.ending != "open":
            yield self._finished()
            if (evidence := evidence_of(self._run)) is not None:
                yield self._judged(evidence)

    def _common(self, part: str, key: str, time: str | None, extra: dict[str, Any]) -> dict[str, Any]:
        occurred_at = self._writer.time(time)
        kept = extra | ({TIMESTAMP: time} if time and occurred_at is None else {})
        return {
            "id": part_id(self._record, part, key),
            "occurred_at": occurred_at,
            "run": self._name,
            "extra": self._writer.json(kept) if kept else None,
        }

    def _started(self) -> RunStarted:
        run = self._run
        told = {
            **{"session": run.session, "cwd": run.cwd, "branch": run.branch, "agent": run.agent, "parent": run.parent},
            **{"contexts": run.contexts, "trial": run.trial.trial if run.trial else None},
        }
        extra = run.extra | {key: value for key, value in told.items() if value}
        return RunStarted(
            **self._common("started", "", run.began, extra),
            task=clipped(self._writer.text("\n\n".join(run.prompts))),
            task_id=self._writer.fact(run.trial.task) if run.trial else None,
            executor=self._writer.fact(run.host),
            model=self._writer.fact(run.model),
            release=self._writer.fact(run.release),
            commit=self._writer.fact(run.commit),
        )

    def _called(self, call: ToolUse, step: int) -> ToolCalled:
        arguments = self._writer.json(call.arguments) if call.arguments is not None else None
        fields: dict[str, Any] = {}
        previews = []
        if arguments is not None and len(arguments) > TRANSCRIPT_ARGUMENT_CHARS:
            arguments, previews = arguments[:TRANSCRIPT_ARGUMENT_CHARS], ["arguments"]
        if call.answered:
            field = "error" if call.is_error else "result"
            fields = {field: self._writer.text(call.result), "chars": call.chars}
            previews += [field] if call.chars > len(call.result) else []
        extra = {"exit_code": call.exit_code, "agent": call.agent}
        return ToolCalled(
            **self._common("call", call.id, call.ended or call.at, {k: v for k, v in extra.items() if v is not None}),
            **fields,
            tool=self._writer.fact(call.name) or "unknown",
            call=self._writer.fact(call.id),
            step=step or None,
            error_code=_error_code(call),
            duration_s=_seconds(call.duration_s, self._writer.time(call.at), self._writer.time(call.ended)),
            arguments=arguments,
            previews=tuple(previews),
        )

    def _said(self, said: ModelMessage, step: int) -> LmCalled:
        words = {"text": clipped(said.text), "reasoning": clipped(said.reasoning)}
        return LmCalled(
            **self._common("message", said.id, said.at, {}),
            role="agent",
            model=self._writer.fact(said.model or self._run.model) or "unknown",
            step=step,
            tokens_in=recorded_count(said.tokens_in),
            tokens_out=recorded_count(said.tokens_out),
            tokens_cached=recorded_count(said.tokens_cached),
            cost_usd=recorded_amount(said.cost_usd, EVENT_USD),
            duration_s=_seconds(said.duration_s, None, None),
            error_code="failed" if said.error is not None else None,
            error=self._writer.text(said.error) if said.error else None,
            response=self._writer.json({key: text for key, text in words.items() if text}),
        )

    def _finished(self) -> RunFinished:
        run = self._run
        answer = self._writer.text(clipped(run.answer)) if run.answer else None
        failed = run.ending != "done"
        return RunFinished(
            **self._common("finished", "", run.ended or run.began, {"commits": run.commits} if run.commits else {}),
            outcome="failed" if failed else "submitted",
            error_code=("interrupted" if run.ending == "interrupted" else "provider") if failed else None,
            error=self._writer.text(clipped(run.error)) if run.error else None,
            iterations=len(run.messages),
            # Only what is proved: where no mark is found, nothing may have been recalled.
            recall_sent=True if any(_GIVEN.search(text) for text in run.contexts) else None,
            answer=answer,
            answer_chars=len(run.answer) if run.answer else None,
            previews=("answer",) if answer is not None and len(run.answer) > len(answer) else (),
            duration_s=_seconds(None, self._writer.time(run.began), self._writer.time(run.ended)),
        )

    def _judged(self, evidence: OutcomeEvidence) -> RunJudged:
        # By the call that decided, or the trial: a turn that goes on may be judged again, and the latest stands. Other
        # results of a call are no later ones: what came in first stands, and an import tells of it.
        return RunJudged(
            **self._common("judged", evidence.call or evidence.code, evidence.at or self._run.ended, {}),
            purpose="learning",
            verdict=evidence.verdict,
            judge=JUDGES[evidence.code],
            judge_version="1",
            kind="outcome",
            evidence=(evidence.code,),
            reason=self._writer.text(evidence.reason)[:JUDGE_REASON_CHARS],
        )


def _settled(run: TranscriptRun) -> Sequence[ToolUse | ModelMessage]:
    """Return the acts that no later line of the file changes."""
    if run.ending != "open":
        return run.acts
    last = next((act for act in reversed(run.acts) if isinstance(act, ModelMessage)), None)
    return [act for act in run.acts if act is not last and (isinstance(act, ModelMessage) or act.answered)]


def _pieces(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Yield the events in groups that depend on those before alone, so that a run that grows has the same ones."""
    piece, size = list[Event](), 0
    for event in events:
        if piece and (len(piece) >= TRANSCRIPT_GROUP_ACTS or size > TRANSCRIPT_GROUP_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(event)
        size += sum(
            len(text)
            for name in ("task", "arguments", "result", "error", "response")
            if isinstance(text := getattr(event, name, None), str)
        )
    yield piece


def _error_code(call: ToolUse) -> str | None:
    if not call.answered:
        return "unanswered"
    if call.exit_code:
        return f"exit_{call.exit_code}"
    return "failed" if call.is_error else None


def _seconds(given: float | None, start: str | None, end: str | None) -> float | None:
    lasted = given if given is not None or not (start and end) else seconds_between(start, end)
    return lasted if lasted is not None and 0 <= lasted <= EVENT_S else None
