"""The question `check`: whether the log is undamaged and unchanged, and whether a correction is due."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from rbank_es.answers.difference import SharedHistory
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.bank_access import OpenBank
from rbank_es.bank.branches import common_history
from rbank_es.bank.canonical_check import CanonicalCheck, check_canonical
from rbank_es.bank.policy_record import PolicyInForce, policies_in_force
from rbank_es.bank.retrieval_check import RetrievalCheck, check_retrievals
from rbank_es.bank.strict_check import SlipCheck, check_slips
from rbank_es.errors import CheckFailed
from rbank_es.log import Cut, ForeignFile, Head, TornTail


class BankCheck(BankAnswer, frozen=True, kw_only=True):
    """The result of checking a sound log to its end, `head`, whatever position was asked about; and what is due.

    `ok`: nothing among the log's files could be taken for a part of it, and neither a decision nor, where asked for, a
    slip is wrong. `cleared`: writers had been stopped after a failed sync, and are admitted again.
    """

    ok: bool
    head: str
    events: int
    parts: dict[str, int]
    texts_apart: int
    texts_erased: int
    noted: tuple[str, ...]
    torn: TornTail | None
    cuts: tuple[Cut, ...]
    kept: dict[str, int]
    erasing: bool
    cleared: bool
    foreign: tuple[ForeignFile, ...]
    canonical: CanonicalCheck
    unknown_policies: tuple[PolicyInForce, ...]
    retrievals: RetrievalCheck | None
    slips: SlipCheck | None
    shared: SharedHistory | None


class CheckQuestion(BankQuestion, frozen=True, kw_only=True):
    """What else is checked; the log itself always is, to its end."""

    noted: Annotated[
        tuple[str, ...], Meta(description="Heads noted earlier, POSITION:DIGEST, of this bank or of one it came from.")
    ] = ()
    retrievals: Annotated[bool, Meta(description="Whether every recorded retrieval is repeated.")] = False
    decisions: Annotated[bool, Meta(description="Whether every decision is made again, by today's verdicts.")] = False
    strict: Annotated[bool, Meta(description="Whether facts without a subject are listed.")] = False
    parent: Annotated[str | None, Meta(description="A bank with which this one shares what their ancestry claims.")] = (
        None
    )


def find_check(reader: BankReader, question: CheckQuestion) -> BankCheck:
    """Check every byte of the log, and what is asked for.

    Raises `LogCorruption` for damage; `CheckFailed` if a noted head, a retrieval or the claimed ancestry does not hold;
    `BadInput` for a text that is no head.
    """
    bank, progress = reader.bank, reader.progress
    noted = [Head.parse(text) for text in question.noted]
    seen = bank.log.verify(noted)
    shared = None if question.parent is None else _shared(reader, question.parent)
    canonical = check_canonical(bank, every=question.decisions, progress=progress)
    retrievals = check_retrievals(bank.log, progress) if question.retrievals else None
    if retrievals is not None:
        retrievals.require_same()
    slips = check_slips(bank.log, progress) if question.strict else None
    differs = question.decisions and not canonical.canonical
    return BankCheck(
        bank=reader.name,
        position=reader.position,
        ok=not (differs or any(each.harmful for each in seen.foreign) or (slips is not None and slips.slips)),
        head=str(seen.head),
        events=seen.events,
        parts=seen.parts,
        texts_apart=seen.texts,
        texts_erased=seen.erased,
        noted=tuple(map(str, seen.noted)),
        torn=seen.torn,
        cuts=seen.cuts,
        kept=seen.kept,
        erasing=seen.erasing,
        cleared=seen.cleared,
        foreign=seen.foreign,
        canonical=canonical,
        unknown_policies=tuple(each for each in policies_in_force(bank.log, seen.head.seq) if each.problem),
        retrievals=retrievals,
        slips=slips,
        shared=shared,
    )


def _shared(reader: BankReader, parent: str) -> SharedHistory:
    """Return what a bank shares with a relative. Raises `CheckFailed` where that is nothing, or less than claimed."""
    reader.require_files(parent)
    with OpenBank.open(parent) as other:
        found = common_history(reader.bank.log, other.log)
        if found is None:
            raise CheckFailed(f"{reader.name} and {other.name} share nothing: they do not descend from one bank")
        found.require_claimed(reader.name, other.name)
        return SharedHistory.of(found)


QUESTION = QuestionKind(
    about="Whether the log is undamaged and unchanged, and whether a correction is due.",
    question=CheckQuestion,
    answer=BankCheck,
    find=find_check,
)
