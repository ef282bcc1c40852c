"""The question `about`: what a bank is, what there was at the position, and the marks of its whole log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from rbank_es import limits
from rbank_es.answers.overview import StateCount, state_counts
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.events import (
    BankCreated,
    ContentErased,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    PolicySet,
    type_of,
)
from rbank_es.events.event_envelope import text_of
from rbank_es.events.readable_text import count
from rbank_es.limits import answer_limits
from rbank_es.system.text_cuts import cut_words

if TYPE_CHECKING:
    from rbank_es.bank.bank_access import OpenBank
    from rbank_es.projections.view import View

NOTABLE = frozenset(
    type_of(each)
    for each in (
        JudgmentOverruled,
        MemoriesRetracted,
        MemoriesForgotten,
        MemoriesRestored,
        MemoriesAdmitted,
        DecisionUndone,
        ContentErased,
        PolicySet,
    )
)
"""The types of events that change what a reader believed."""

STOPS = NOTABLE | {"run_finished", "run_judged", "memories_consolidated"}
"""The types of events at which somebody who goes through the log stops."""

# Events that are searched first for the stop before a position; each further step takes four times as many.
_NEARBY_EVENTS = 256


class EventName(Struct, frozen=True, kw_only=True):
    """The event at the position."""

    type: str
    run: str | None


class NotableEvent(Struct, frozen=True, kw_only=True):
    """A notable event of the log, with what it did in a few words."""

    seq: int
    recorded_at: str
    type: str
    text: str


class Ticks(Struct, frozen=True, kw_only=True):
    """The number of events of each kind in each of equally long parts of the log."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    judgments: tuple[int, ...]
    memory: tuple[int, ...]
    notable: tuple[int, ...]


class FlagLimits(Struct, frozen=True, kw_only=True):
    """The limits over which leakage is flagged."""

    return_chars: int = limits.FLAG_RETURN_CHARS
    items_injected: int = limits.FLAG_ITEMS_INJECTED
    context_chars: int = limits.FLAG_CONTEXT_CHARS
    l2_chars: int = limits.CONTEXT_L2_CHARS


class PolicyName(Struct, frozen=True, kw_only=True):
    """A policy in force."""

    kind: str
    name: str
    version: int


class About(BankAnswer, frozen=True, kw_only=True):
    """A bank's name, counts and policies at the position, and the marks of its whole log."""

    command: str
    bank_id: str
    purpose: str | None
    forked_from: str | None
    head_position: int
    head_digest: str
    last_at: str | None
    event: EventName | None
    stop_before_seq: int | None
    stop_after_seq: int | None
    runs: int
    judged: int
    successes: int
    simulated: int
    scripted: int
    items: tuple[StateCount, ...]
    policies: tuple[PolicyName, ...]
    notable: tuple[NotableEvent, ...]
    ticks: Ticks
    flag_limits: FlagLimits


def find_about(reader: BankReader, question: BankQuestion) -> About:
    """Return what the bank is, and what there was at the position."""
    bank, view = reader.bank, reader.view
    head = bank.position if reader.bounds.head is None else reader.bounds.head
    runs = view.pick("runs", ("verdict", "scripted", "simulated"))
    verdicts = Counter(verdict for verdict, _, _ in runs)
    policies = sorted(view.rows("policies"), key=lambda row: row["kind"])
    with bank.as_of(head) as newest:
        notable, ticks = time_marks(bank, newest)
    return About(
        bank=reader.name,
        position=reader.position,
        command=reader.command,
        bank_id=bank.id,
        purpose=_purpose(bank, head),
        forked_from=forked_from(bank, head),
        head_position=head,
        head_digest=bank.head(head).digest,
        last_at=bank.time_at(reader.position) or None,
        event=_event_at(bank, reader.position),
        stop_before_seq=_stop_before(bank, reader.position),
        stop_after_seq=next((each.seq for each in bank.events(after=reader.position, point=head, types=STOPS)), None),
        runs=len(runs),
        judged=verdicts["success"] + verdicts["failure"],
        successes=verdicts["success"],
        simulated=sum(simulated for _, _, simulated in runs),
        scripted=sum(scripted for _, scripted, _ in runs),
        items=state_counts(view),
        policies=tuple(PolicyName(**{name: row[name] for name in PolicyName.__struct_fields__}) for row in policies),
        notable=tuple(map(notable_mark, notable[-answer_limits.NOTABLE_EVENTS :])),
        ticks=ticks,
        flag_limits=FlagLimits(),
    )


def _purpose(bank: OpenBank, head: int) -> str | None:
    # An empty bank has no position 1.
    first = next(bank.events(point=min(1, head)), None)
    said = bank.text(first.purpose) if isinstance(first, BankCreated) else None
    return said and cut_words(said, answer_limits.PURPOSE_CHARS)


def forked_from(bank: OpenBank, position: int) -> str | None:
    """Return which bank a bank was forked from, and where, as of a position; None where it was not yet forked."""
    parents = [each for each in bank.log.ancestors() if each.upto < position]
    return f"{parents[-1].bank} at position {parents[-1].upto:,}" if parents else None


def _event_at(bank: OpenBank, position: int) -> EventName | None:
    event = next(bank.events(after=position - 1, point=position), None) if position else None
    return None if event is None else EventName(type=type_of(event), run=getattr(event, "run", None))


def _stop_before(bank: OpenBank, at: int) -> int | None:
    upto, width = at - 1, _NEARBY_EVENTS
    while upto > 0:
        found = [event.seq for event in bank.events(after=max(upto - width, 0), point=upto, types=STOPS)]
        if found:
            return found[-1]
        upto, width = upto - width, 4 * width
    return None


# ---------------------------------------------------------------- the marks of the log


def time_marks(bank: OpenBank, newest: View) -> tuple[list[Event], Ticks]:
    """Return the notable events, and the number of events of each kind by parts, of the whole log up to a view."""
    head = newest.position
    notable = list(bank.events(point=head, types=NOTABLE))
    runs = newest.pick("runs", ("started_seq", "finished_seq", "judged_seq"))
    starts, ends, verdicts = zip(*runs, strict=True) if runs else ((), (), ())
    return notable, Ticks(
        starts=binned(starts, head),
        ends=binned(ends, head),
        judgments=binned(verdicts, head),
        memory=binned(newest.memory_changes(0), head),
        notable=binned((event.seq for event in notable), head),
    )


def binned(positions: Iterable[int | None], head: int) -> tuple[int, ...]:
    """Return how many positions of a log of `head` events fall into each of `answer_limits.TICKS` equal parts."""
    counts = [0] * answer_limits.TICKS
    for seq in positions:
        if seq is not None:
            counts[(seq - 1) * answer_limits.TICKS // head] += 1
    return tuple(counts)


def notable_mark(event: Event) -> NotableEvent:
    """Return a notable event: position, type, time, and what it did in a few words."""
    text = cut_words(_words(event), answer_limits.NOTABLE_CHARS)
    return NotableEvent(seq=event.seq, recorded_at=event.at, type=type_of(event), text=text)


def _words(event: Event) -> str:
    match event:
        case JudgmentOverruled():
            what, why = f"{event.run}: {event.verdict}, by {event.by}", event.why or event.reason
        case MemoriesRetracted(how="tainted"):
            what, why = f"{count(len(event.extractions), 'extraction')} set aside", event.why
        case MemoriesRetracted() | MemoriesRestored():
            what, why = f"{count(len(event.ids), 'item')} {event.how}", event.why
        case MemoriesForgotten() | MemoriesAdmitted():
            what, why = count(len(event.ids), "item"), event.why
        case DecisionUndone():
            what, why = "a decision holds again" if event.lifted else "a decision is taken back", event.why
        case ContentErased():
            what, why = count(len(event.units), "text"), event.reason
        case PolicySet():
            what, why = ", ".join(f"{each.kind} {each.name}-{each.version}" for each in event.policies), event.why
        case _:
            what, why = "", ""
    words = text_of(why)
    return f"{what}: {words}" if words else what


QUESTION = QuestionKind(
    about="What the bank is: its name, purpose, head, counts, policies, and the marks of its log.",
    question=BankQuestion,
    answer=About,
    find=find_about,
)
