"""The question `difference`: what changed of items, runs and policies since a point."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from rbank_es.answers.shared.bank_reader import BankReader, shortened
from rbank_es.answers.shared.question import BankQuestion, QuestionKind
from rbank_es.bank.branches import CommonHistory, common_history
from rbank_es.bank.difference import Difference, compared, difference_as, facts_at


class SharedHistory(Struct, frozen=True, kw_only=True):
    """The history that two banks of a lineage share: the same events up to `head`, as its digest proves.

    `beyond` has the number of events behind it of the bank before and of the one after. `claimed_seq` is the position
    up to which they share by their ancestry: if it is higher, one was altered, or a copy went on.
    """

    lineage: str
    head: str
    head_seq: int
    beyond: tuple[int, int]
    claimed_seq: int

    @classmethod
    def of(cls, found: CommonHistory) -> SharedHistory:
        """Return what was found as an answer has it."""
        head = found.head
        return cls(
            lineage=found.lineage, head=str(head), head_seq=head.seq, beyond=found.beyond, claimed_seq=found.claimed
        )


class BankDifference(Difference, frozen=True, kw_only=True):
    """What changed from one point to another, of one bank, or from another bank `since_bank` to this one.

    `shared` is what two banks share; None for one bank, and for two that descend from none together.
    """

    since_bank: str | None = None
    shared: SharedHistory | None = None


class DifferenceQuestion(BankQuestion, frozen=True, kw_only=True):
    """Since when; the answer goes to the point that is asked about."""

    since: Annotated[
        str | int,
        Meta(description="The point before: a position, an ISO time, HEAD~n or the id of a run; it may be later, too."),
    ] = 0
    chars: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Characters of each title at most; null: whole.")
    ] = None


def find_difference(reader: BankReader, question: DifferenceQuestion) -> BankDifference:
    """Return what changed since a point. Raises `BadPoint`, and `BadInput` for a file of read models."""
    bank = reader.bank
    with bank.as_of(bank.resolve(question.since)) as earlier:
        found = between(BankReader(earlier, reader.name, bank=bank, bounds=reader.bounds), reader)
    chars = reader.chars(question.chars)
    if chars is None:
        return found
    items = (structs.replace(each, title=shortened(each.title, chars) or "") for each in found.items)
    return structs.replace(found, items=tuple(items))


def between(before: BankReader, after: BankReader) -> BankDifference:
    """Return what changed from a bank as of a position, or of a file of read models, to another one."""
    found = compared(after.name, facts_at(before.view), facts_at(after.view))
    same = before.has_log and after.has_log and before.bank.place == after.bank.place
    return difference_as(
        BankDifference,
        found,
        since_bank=None if same else before.name,
        shared=None if same else _shared(before, after),
    )


def _shared(before: BankReader, after: BankReader) -> SharedHistory | None:
    if not (before.has_log and after.has_log):
        return None
    found = common_history(before.bank.log, after.bank.log, (before.position, after.position))
    return None if found is None else SharedHistory.of(found)


QUESTION = QuestionKind(
    about="What changed since a point: items, runs, policies.",
    question=DifferenceQuestion,
    answer=BankDifference,
    find=find_difference,
    rows="items",
)
