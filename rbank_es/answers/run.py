"""The question `run`: everything about a run, with its events page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from rbank_es.answers.event import WholeEvent, whole_event
from rbank_es.answers.leakage import RedFlag, RunLeakage, ToolLeakage
from rbank_es.answers.runs import RunRow, run_row
from rbank_es.answers.shared.bank_reader import BankReader, struct_of
from rbank_es.answers.shared.event_texts import EventText, event_texts
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.id_lookup import whole_id
from rbank_es.events.codec import resolved
from rbank_es.events.run_events import JudgeKind, JudgmentOverruled, Purpose, VerdictValue
from rbank_es.law.fold_memory import rank_of
from rbank_es.law.validity import authority_name
from rbank_es.limits import answer_limits
from rbank_es.log.run_reader import Gift, RunEvents, read_run


class JudgmentRow(Struct, frozen=True, kw_only=True):
    """A judgment of a run, whether it stands or not."""

    seq: int
    judged_at: str
    purpose: Purpose
    verdict: VerdictValue
    judge: str
    judge_version: str
    kind: JudgeKind
    authority: str
    sure: bool
    confidence: float | None
    stands: bool
    overruled_seq: int | None
    by: str | None
    origin: str | None
    reason: str | None
    why: str | None


class GivenRow(Struct, frozen=True, kw_only=True):
    """An item that a run was given in full, with its state then and as of the answer."""

    item: str
    title: str | None
    polarity: str | None
    way: Literal["injected", "read"]
    seq: int
    hit_rank: int | None
    hit_score: float | None
    state_then: str | None
    state: str | None


class LearnedRow(Struct, frozen=True, kw_only=True):
    """A candidate that was drawn from a run, with the decision in force and the items that it supports now."""

    extraction: str
    place: int
    kind: str
    seq: int
    item: str
    title: str | None
    action: str | None
    undone: bool | None
    stands: bool
    landed: tuple[str, ...]
    state: str | None


class LayerRow(Struct, frozen=True, kw_only=True):
    """A layer of the context that a run was given last."""

    layer: str
    seq: int
    chars: int
    budget: int | None
    truncated: bool
    text: EventText | None


class RunAnswer(BankAnswer, frozen=True, kw_only=True):
    """A run."""

    run: RunRow
    answer: str | None
    sparql: str | None
    bound: str | None
    recall_unsent: tuple[str, ...] | None
    judgments: tuple[JudgmentRow, ...]
    given: tuple[GivenRow, ...]
    learned: tuple[LearnedRow, ...]
    layers: tuple[LayerRow, ...]
    leakage: RunLeakage
    leakage_by_tool: tuple[ToolLeakage, ...]
    red_flags: tuple[RedFlag, ...]
    events_total: int
    events_next_seq: int | None
    events: tuple[WholeEvent, ...]


class RunQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which run, and which of its events."""

    run: Annotated[str, Meta(min_length=1, description="The run's id, or a beginning of it that no other run has.")]
    after: Annotated[int, Meta(ge=0, description="The position behind which the events begin.")] = 0
    limit: Annotated[int, Meta(ge=1, le=answer_limits.ANSWER_ROWS_MOST, description="Events at most.")] = (
        answer_limits.ANSWER_ROWS
    )
    sentences: Annotated[bool, Meta(description="Whether there is a sentence about each event.")] = True


def find_run(reader: BankReader, question: RunQuestion) -> RunAnswer:
    """Return all about a run. Raises `NotInBank`, `AmbiguousId`, and as `EventLog.read`."""
    name = whole_id(reader.view, "run", question.run)
    row = reader.view.run(name)
    assert row is not None
    chars = reader.text_chars(question.chars)
    run = read_run(reader.bank.log, name, reader.position)
    judgments = tuple(_judgments(reader, run, row))
    end, (events, following) = run.end, _events(reader, run, question, chars)
    leakage = _rows(reader, "leakage_by_run", name)[0]
    return RunAnswer(
        bank=reader.name,
        position=reader.position,
        run=run_row(row, {each.seq: each.reason for each in judgments}),
        answer=row["answer"] or None,
        sparql=row["sparql"] or None,
        given=tuple(_given(reader, gift) for gift in run.given),
        learned=_learned(reader, name),
        leakage=struct_of(RunLeakage, leakage, task=row["task"]),
        leakage_by_tool=tuple(struct_of(ToolLeakage, each) for each in _rows(reader, "leakage_by_run_and_tool", name)),
        red_flags=tuple(struct_of(RedFlag, each) for each in _rows(reader, "red_flags", name)),
        bound=end.bound if end is not None else None,
        recall_unsent=end.recall_unsent if end is not None and end.recall_sent is not None else None,
        judgments=judgments,
        layers=tuple(_layers(reader, run, chars)),
        events_total=len(run.events),
        events_next_seq=following,
        events=events,
    )


def _rows(reader: BankReader, view: str, run: str) -> list[dict[str, Any]]:
    return reader.view.rows(view, run=run)


def _events(
    reader: BankReader, run: RunEvents, question: RunQuestion, chars: int | None
) -> tuple[tuple[WholeEvent, ...], int | None]:
    """Return a page of a run's events, and the position behind which to go on (None: no more); one event at least."""
    behind = (event for event in run.events if event.seq > question.after)
    made = (whole_event(reader, event, chars, sentence=question.sentences) for event in behind)
    return reader.fitting(made, question.limit)


def _judgments(reader: BankReader, run: RunEvents, row: Mapping[str, Any]) -> Iterator[JudgmentRow]:
    """Return all judgments of a run, given its row of the view `runs`, which says which of them stand."""
    standing = (row["judged_seq"], row["scored_seq"])
    overruled = {each.judgment: each.seq for each in run.of(JudgmentOverruled)[::-1]}
    for event in run.judgments:
        by, why = (event.by, event.why) if isinstance(event, JudgmentOverruled) else (None, None)
        judging = reader.view.policy_choice("judging", event.seq)
        yield JudgmentRow(
            seq=event.seq,
            judged_at=event.occurred_at or event.at,
            purpose=event.purpose,
            verdict=event.verdict,
            judge=event.judge,
            judge_version=event.judge_version,
            kind=event.kind,
            authority=authority_name(rank_of(event, {} if judging is None else {"judging": judging}), event.kind),
            sure=event.sure,
            confidence=event.confidence,
            stands=event.seq in standing,
            overruled_seq=overruled.get(event.id),
            by=by,
            origin=event.origin,
            reason=reader.bank.text(event.reason),
            why=reader.bank.text(why) or None,
        )


def _given(reader: BankReader, gift: Gift) -> GivenRow:
    row, history = reader.view.item(gift.item) or {}, reader.view.item_history(gift.item)
    return GivenRow(
        item=gift.item,
        title=row.get("title"),
        polarity=row.get("polarity"),
        way=gift.way,
        seq=gift.seq,
        hit_rank=gift.hit.rank if gift.hit is not None else None,
        hit_score=gift.hit.score if gift.hit is not None else None,
        state_then=next((each["state"] for each in reversed(history) if each["from"] <= gift.seq), None),
        state=row.get("state"),
    )


def _learned(reader: BankReader, run: str) -> tuple[LearnedRow, ...]:
    """Return the candidates that were drawn from a run, alone or with others, in order of extraction."""
    rows = sorted(_rows(reader, "drawn_candidates", run), key=itemgetter("seq", "place"))
    landed = {
        (each["extraction"], each["place"]): each["landed"]
        for extraction in dict.fromkeys(row["extraction"] for row in rows)
        for each in reader.view.rows("candidate_decisions", extraction=extraction)
    }
    return tuple(struct_of(LearnedRow, row | {"landed": landed.get((row["extraction"], row["place"]))}) for row in rows)


def _layers(reader: BankReader, run: RunEvents, chars: int | None) -> Iterator[LayerRow]:
    """Return the layers of a run's latest context, each with its budget and its text as it was sent."""
    if (latest := run.context) is None:
        return
    said = resolved(latest, reader.bank.log.text)
    texts = {text.path: text for text in event_texts(said, chars=chars, prompts=reader.bounds.prompts)}
    for number, layer in enumerate(latest.layers):
        yield LayerRow(
            layer=layer.layer,
            seq=latest.seq,
            chars=layer.chars,
            budget=layer.budget,
            truncated=layer.truncated,
            text=texts.get(f"texts.{number}"),
        )


QUESTION = QuestionKind(
    about="Everything about one run: verdicts, items, lessons, context, leakage, events.",
    question=RunQuestion,
    answer=RunAnswer,
    find=find_run,
    is_single=True,
)
