"""The question `prompts`: what a run's models were asked and replied, call by call, with the replies of no use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.event_texts import EventText, event_texts
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.id_lookup import whole_id
from rbank_es.events import Event, LmCalled, MemoriesExtracted, RunFinished, RunJudged, StepTaken
from rbank_es.events.codec import resolved
from rbank_es.events.event_envelope import Text
from rbank_es.events.memory_events import flaw_of
from rbank_es.events.run_events import Role
from rbank_es.limits import answer_limits
from rbank_es.log.run_reader import RunEvents, read_run

_TYPES = frozenset({"lm_called", "step_taken", "run_judged", "run_finished"})
_Why = StepTaken | RunFinished | MemoriesExtracted | str
"""What says why a reply was of no use: an event, or our own words."""

UNREADABLE = "unreadable"
"""The code of a step, or of a forced answer, whose reply had not the form that was asked for."""

ASKED_AGAIN = "it could not be read, and was asked for again"
NO_VERDICT = "it had no verdict that could be read"


class PromptRow(Struct, frozen=True, kw_only=True):
    """A call of a model: its request, a text for each message, and its reply."""

    seq: int
    role: Role
    step: Annotated[int | None, Meta(description="number: the step that it belongs to, from 1; null: to none")]
    attempt: Annotated[int | None, Meta(description="number: of the try, from 1; null: not recorded")]
    model: str
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    duration_s: float | None
    error_code: str | None
    unread: Annotated[str | None, Meta(description="text: why the reply was of no use; null: it was of use")]
    texts: tuple[EventText, ...]


class Prompts(BankAnswer, frozen=True, kw_only=True):
    """A page of the calls of models in a run and about it, in order."""

    run: str
    total: Annotated[int, Meta(description="number: calls of models in the run and about it")]
    next_seq: Annotated[int | None, Meta(description="position in the log: behind it the calls go on; null: no more")]
    rows: tuple[PromptRow, ...]


class PromptsQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which run, and which of its calls."""

    run: Annotated[str, Meta(min_length=1, description="The run's id, or a beginning of it that no other run has.")]
    after: Annotated[int, Meta(ge=0, description="The position behind which the calls begin.")] = 0
    limit: Annotated[int, Meta(ge=1, le=answer_limits.ANSWER_ROWS_MOST, description="Calls at most.")] = (
        answer_limits.ANSWER_ROWS
    )


def find_prompts(reader: BankReader, question: PromptsQuestion) -> Prompts:
    """Return a page of the calls of a run. Raises `NotInBank`, `AmbiguousId`, and as `EventLog.read`."""
    name, log = whole_id(reader.view, "run", question.run), reader.bank.log
    run = read_run(log, name, reader.position, types=_TYPES)
    unread = unread_replies(run, _extractions(reader, run))
    wanted = [call for call in run.lm_calls if call.seq > question.after]
    chars = reader.text_chars(question.chars)
    made = (_row(reader, call, unread.get(call.seq), chars) for call in wanted)
    rows, following = reader.fitting(made, question.limit)
    return Prompts(
        bank=reader.name, position=reader.position, run=name, total=len(run.lm_calls), next_seq=following, rows=rows
    )


def _extractions(reader: BankReader, run: RunEvents) -> list[MemoriesExtracted]:
    """Return the extractions behind the first call of an extractor: they belong to no run."""
    first = next((call.seq for call in run.lm_calls if call.role == "extractor"), None)
    if first is None:
        return []
    events = reader.bank.log.read(after=first, upto=reader.position, types={"memories_extracted"})
    return [event for event in events if isinstance(event, MemoriesExtracted)]


def _row(reader: BankReader, call: LmCalled, why: _Why | None, chars: int | None) -> PromptRow:
    texts = event_texts(resolved(call, reader.bank.log.text), chars=chars, prompts=reader.bounds.prompts)
    own = {name: getattr(call, name) for name in PromptRow.__struct_fields__ if name not in ("unread", "texts")}
    reason = None if why is None else reader.bank.text(_told(why)) or UNREADABLE
    return PromptRow(**own, unread=reason, texts=tuple(each for each in texts if each.path != "request_key"))


def _told(why: _Why) -> Text | None:
    if isinstance(why, StepTaken):
        return why.output
    if isinstance(why, RunFinished):
        return why.error
    return why.reason if isinstance(why, MemoriesExtracted) else why


def unread_replies(run: RunEvents, extractions: Iterable[MemoriesExtracted]) -> dict[int, _Why]:
    """Return the calls whose replies were of no use, by position, each with the event, or the words, that say why."""
    answered = [call for call in run.lm_calls if call.error_code is None]
    return dict([*_of_agent(run.events), *_of_others(answered, run.of(RunJudged), extractions)])


def _of_agent(events: Iterable[Event]) -> Iterator[tuple[int, _Why]]:
    """Yield the last reply of each step that was unreadable, and that of a forced answer which was."""
    said: LmCalled | None = None
    for event in events:
        if isinstance(event, LmCalled) and event.role == "agent" and event.error_code is None:
            said = event
        elif isinstance(event, StepTaken | RunFinished):
            if said is not None and event.error_code == UNREADABLE:
                yield said.seq, event
            said = None


def _of_others(
    answered: Iterable[LmCalled], judgments: Iterable[RunJudged], extractions: Iterable[MemoriesExtracted]
) -> Iterator[tuple[int, _Why]]:
    """Yield the replies behind which a judge or an extractor was asked again, and those from which nothing was read."""
    asked = {call.id: call for call in answered if call.role in ("judge", "extractor")}
    judged = [each for each in judgments if each.kind == "lm"]
    named = set[str]()
    outcomes: list[RunJudged | MemoriesExtracted] = [*judged, *extractions]
    for outcome in outcomes:
        own = [asked[id].seq for id in outcome.calls if id in asked]
        named.update(outcome.calls)
        yield from ((seq, ASKED_AGAIN) for seq in own[:-1])
        if own and isinstance(outcome, MemoriesExtracted) and flaw_of(outcome):
            yield own[-1], outcome
    # A judgment that names no calls may be from any.
    if all(each.calls for each in judged):
        yield from ((call.seq, NO_VERDICT) for call in asked.values() if call.role == "judge" and call.id not in named)


QUESTION = QuestionKind(
    about="What a run's models were asked and replied, call by call.",
    question=PromptsQuestion,
    answer=Prompts,
    find=find_prompts,
    rows="rows",
    is_single=True,
)
