"""The question `doubts`: the verdicts that a person should check first, why, and the commands that settle them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.verdict_error import Doubt, JudgeRecord
from rbank_es.bank.verdict_review import OPPOSITE, DoubtfulVerdict, Stake, doubts_at, minutes_to_check, within
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.events.event_envelope import text_of
from rbank_es.events.readable_text import count
from rbank_es.limits import answer_limits
from rbank_es.system.command_lines import whole_command
from rbank_es.system.proportion import percent

RUN_TEXTS = ("task", "answer", "sparql", "error")
"""The texts of a run that a person reads to check a verdict, beside the judge's reason."""


class StakeItem(Struct, frozen=True, kw_only=True):
    """An item that rests on a verdict alone."""

    id: str
    title: str


class DoubtRow(Struct, frozen=True, kw_only=True):
    """A verdict on which items rest alone: how likely it is wrong, what would leave then, and the commands for it."""

    run: str
    task: str | None
    answer: str | None
    sparql: str | None
    error: str | None
    verdict: str
    judge: str
    kind: str
    judged_seq: int
    reason: str
    probability: float
    judge_error: float
    checked: int
    wrong: int
    because: tuple[str, ...]
    loss: float
    weight: float
    takes_out: str
    stake_total: int
    stake: tuple[StakeItem, ...]
    stake_uses: int
    stake_runs: tuple[str, ...]
    minutes: float
    confirm: str
    overrule: str


class Doubts(BankAnswer, frozen=True, kw_only=True):
    """The first doubtful verdicts, those whose being wrong would cost most first, and the command that lists more."""

    total: int
    rows: tuple[DoubtRow, ...]
    command: str


class DoubtsQuestion(BankQuestion, frozen=True, kw_only=True):
    """How many of them."""

    limit: Annotated[int, Meta(ge=1, le=limits.REVIEW_VERDICTS, description="Verdicts at most.")] = answer_limits.DOUBTS
    minutes: Annotated[
        Annotated[float, Meta(gt=0, le=limits.REVIEW_MINUTES)] | None,
        Meta(description="Of these, as many as a person can check in so many minutes; null: all."),
    ] = None


def find_doubts(reader: BankReader, question: DoubtsQuestion) -> Doubts:
    """Return the verdicts to check first. Fractions have 4 decimals."""
    found = doubts_at(reader.bank, reader.position, reader.progress)
    rows = [_row(reader, each) for each in found[: reader.limit(question.limit)]]
    if question.minutes is not None:
        rows = [rows[place] for place in within((each.minutes for each in rows), question.minutes)]
    options = f"--verdicts {min(len(found), limits.REVIEW_VERDICTS)}"
    return Doubts(
        bank=reader.name,
        position=reader.position,
        total=len(found),
        rows=tuple(rows),
        command=whole_command("review", [reader.command], options),
    )


def _row(reader: BankReader, each: DoubtfulVerdict) -> DoubtRow:
    run = reader.view.run(each.run) or {}
    judgment = reader.bank.event_at(each.seq, resolve=True)
    assert isinstance(judgment, RunJudged | JudgmentOverruled)
    reason, names = text_of(judgment.reason), [reader.command, each.run]
    texts: dict[str, Any] = {name: run.get(name) for name in RUN_TEXTS}
    named = {id: reader.view.item(id) or {} for id in each.stake.items[: limits.IDS_NAMED]}
    return DoubtRow(
        **texts,
        run=each.run,
        verdict=each.verdict,
        judge=each.judge,
        kind=each.kind,
        judged_seq=each.seq,
        reason=reason,
        probability=round(each.doubt.probability, 4),
        judge_error=round(each.doubt.error, 4),
        checked=each.doubt.record.checked,
        wrong=each.doubt.record.wrong,
        because=tuple(_because(each.doubt)),
        loss=round(each.loss, 4),
        weight=round(each.stake.weight, 4),
        takes_out=_consequence(each.stake),
        stake_total=len(each.stake.items),
        stake=tuple(StakeItem(id=id, title=row.get("title") or "") for id, row in named.items()),
        stake_uses=each.stake.uses,
        stake_runs=each.stake.runs,
        minutes=round(minutes_to_check(len(reason) + sum(len(text or "") for text in texts.values())), 1),
        confirm=whole_command("overrule", names, f"--{each.verdict} --reason TEXT"),
        overrule=whole_command("overrule", names, f"--{OPPOSITE[each.verdict]} --reason TEXT"),
    )


def _because(doubt: Doubt) -> list[str]:
    """Return the reasons of a probability, in words."""
    record, reasons = doubt.record, [_checked(doubt.record)]
    if (family := doubt.family) is not None:
        reasons.append(f"{family.wrong:,} of {family.checked:,} on tasks like this one ({family.family})")
    if doubt.confidence is not None and record.confidence is not None:
        said, usual = f"{doubt.confidence:.2f}", f"{record.confidence:.2f}"
        reasons += [f"confidence {said}, {usual} on average"] if said != usual else []
    reasons += [f"{each.judge} says {each.verdict} ({each.purpose})" for each in doubt.against]
    reasons += [f"{each.judge} agrees ({each.purpose})" for each in doubt.agreeing]
    return reasons


def _checked(record: JudgeRecord) -> str:
    what = f"{record.verdict} verdicts of {record.judge}"
    if not record.checked:
        return f"none of the {what} was checked here, and {percent(record.prior)} is assumed"
    return f"{record.wrong:,} of {record.checked:,} checked {what} {'was' if record.wrong == 1 else 'were'} wrong"


def _consequence(stake: Stake) -> str:
    items = count(len(stake.items), "item")
    if not stake.uses:
        return f"{items}, not used yet"
    return f"{items}, used {count(stake.uses, 'time')} in {count(len(stake.runs), 'run')}"


QUESTION = QuestionKind(
    about="The verdicts on which items rest alone, first those whose being wrong would cost most.",
    question=DoubtsQuestion,
    answer=Doubts,
    find=find_doubts,
)
