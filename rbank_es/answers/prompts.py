"""The question `prompts`: what a run's models were asked and replied, call by call, with the replies of no use."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.event_texts import EventText, event_texts
from rbank_es.answers.shared.question import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.ids import whole_id
from rbank_es.events import Event, LmCalled, RunFinished, RunJudged, StepTaken
from rbank_es.events.codec import resolved
from rbank_es.events.run_events import Role
from rbank_es.limits import answer_limits
from rbank_es.log.run_reader import read_run

_TYPES = frozenset({"lm_called", "step_taken", "run_judged", "run_finished"})
UNREADABLE = "unreadable"
"""The code of a step, or of a forced answer, whose reply had not the form that was asked for."""

ASKED_AGAIN = "it had no verdict that could be read: the judge was asked again, or gave up"


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
    chars: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Characters of each text at most; null: whole.")
    ] = None


def find_prompts(reader: BankReader, question: PromptsQuestion) -> Prompts:
    """Return a page of the calls of a run. Raises `NotInBank`, `AmbiguousId`, and as `EventLog.read`."""
    name, log = whole_id(reader.view, "run", question.run), reader.bank.log
    run = read_run(log, name, reader.position, types=_TYPES)
    unread = unread_replies(run.events)
    wanted = [call for call in run.lm_calls if call.seq > question.after]
    chars = reader.text_chars(question.chars)
    made = (_row(reader, call, unread.get(call.seq), chars) for call in wanted)
    rows, following = reader.fitting(made, question.limit)
    return Prompts(
        bank=reader.name, position=reader.position, run=name, total=len(run.lm_calls), next_seq=following, rows=rows
    )


def _row(reader: BankReader, call: LmCalled, why: StepTaken | RunFinished | str | None, chars: int | None) -> PromptRow:
    texts = event_texts(resolved(call, reader.bank.log.text), chars=chars, prompts=reader.bounds.prompts)
    own = {name: getattr(call, name) for name in PromptRow.__struct_fields__ if name not in ("unread", "texts")}
    told = why.output if isinstance(why, StepTaken) else why.error if isinstance(why, RunFinished) else why
    reason = None if why is None else reader.text(told, chars) or UNREADABLE
    return PromptRow(**own, unread=reason, texts=tuple(each for each in texts if each.path != "request_key"))


def unread_replies(events: tuple[Event, ...]) -> dict[int, StepTaken | RunFinished | str]:
    """Return the calls whose replies were of no use, by position, each with the event that says why.

    That is the last reply of a step that was unreadable, that of a forced answer which was, and each reply of a judge
    behind which no verdict of a model follows before it is asked again.
    """
    found = dict[int, StepTaken | RunFinished | str]()
    said: LmCalled | None = None
    judged: LmCalled | None = None
    for event in events:
        if isinstance(event, LmCalled) and event.error_code is None:
            if event.role == "agent":
                said = event
            elif event.role == "judge":
                if judged is not None:
                    found[judged.seq] = ASKED_AGAIN
                judged = event
        elif isinstance(event, StepTaken | RunFinished):
            if said is not None and event.error_code == UNREADABLE:
                found[said.seq] = event
            said = None
        elif isinstance(event, RunJudged) and event.kind == "lm":
            judged = None
    if judged is not None:
        found[judged.seq] = ASKED_AGAIN
    return found


QUESTION = QuestionKind(
    about="What a run's models were asked and replied, call by call.",
    question=PromptsQuestion,
    answer=Prompts,
    find=find_prompts,
    rows="rows",
)
