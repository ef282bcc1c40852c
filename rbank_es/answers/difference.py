"""The question `difference`: what changed of items, runs and policies since a point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct, structs

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankQuestion, QuestionKind
from rbank_es.bank.bank_difference import Difference, ItemDifference, RunDifference, compared, difference_as, facts_at
from rbank_es.bank.branches import CommonHistory, common_history
from rbank_es.limits import answer_limits


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


class ItemSince(ItemDifference, frozen=True, kw_only=True):
    """An item before and after, and the event that put it in another state, if it is in one."""

    changed_seq: int | None


class RunSince(RunDifference, frozen=True, kw_only=True):
    """A run before and after, and the event that gave it another verdict for learning, if it has one."""

    task: str | None
    changed_seq: int | None


class ChangeCounts(Struct, frozen=True, kw_only=True):
    """The number of changes, also of those that a page leaves out.

    `items_in_state` are in another state than before, those new to the bank too. The first verdict on a run changes
    none: `first_verdicts` counts them by their value.
    """

    items: int
    items_added: int
    items_in_state: int
    runs: int
    runs_began: int
    first_verdicts: dict[str, int]
    verdicts_changed: int


class BankDifference(Difference, frozen=True, kw_only=True):
    """What changed from one point to another, of one bank, or from another bank `since_bank` to this one.

    `shared` is what two banks share; None for one bank, and for two that descend from none together.
    """

    items: tuple[ItemSince, ...] = ()
    runs: tuple[RunSince, ...] = ()
    counts: ChangeCounts
    since_at: str | None = None
    since_bank: str | None = None
    shared: SharedHistory | None = None


class DifferenceQuestion(BankQuestion, frozen=True, kw_only=True):
    """Since when; the answer goes to the point that is asked about."""

    since: Annotated[
        str | int,
        Meta(description="The point before: a position, an ISO time, HEAD~n or the id of a run; it may be later, too."),
    ] = 0
    states: Annotated[
        bool,
        Meta(
            description="Whether to leave out items in the same state, and runs whose verdict is the first or the same."
        ),
    ] = False
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=answer_limits.ANSWER_ROWS_MOST)] | None,
        Meta(description="Items and runs at most, those first that changed their state or verdict last; null: all."),
    ] = None


def find_difference(reader: BankReader, question: DifferenceQuestion) -> BankDifference:
    """Return what changed since a point. Raises `BadPoint`."""
    bank = reader.bank
    with bank.as_of(bank.resolve(question.since)) as earlier:
        before = BankReader(earlier, reader.name, bank=bank, bounds=reader.bounds)
        found = between(before, reader)
    if question.states:
        items, runs = filter(_is_in_state, found.items), filter(_is_judged_again, found.runs)
        found = structs.replace(found, items=tuple(items), runs=tuple(runs))
    most = min(filter(None, (question.limit, reader.bounds.rows_most)), default=None)
    return structs.replace(found, items=found.items[:most], runs=found.runs[:most])


def between(before: BankReader, after: BankReader) -> BankDifference:
    """Return what changed from a bank as of a position to another one, what changed last first."""
    found = compared(after.name, facts_at(before.view), facts_at(after.view))
    same = before.bank.place == after.bank.place
    states, verdicts = (after.view.changed_states, after.view.changed_verdicts) if same else (None, None)
    items = {row[0]: row[-1] for row in states(before.position)} if states else {}
    runs = {row[0]: row[-1] for row in verdicts(before.position)} if verdicts else {}
    tasks = after.tasks([each.run for each in found.runs])
    return difference_as(
        BankDifference,
        structs.replace(
            found,
            items=_latest(
                ItemSince(
                    id=each.id,
                    title=each.title,
                    before=each.before,
                    after=each.after,
                    changed_seq=items.get(each.id),
                )
                for each in found.items
            ),
            runs=_latest(
                RunSince(
                    run=each.run,
                    before=each.before,
                    after=each.after,
                    task=tasks.get(each.run),
                    changed_seq=runs.get(each.run),
                )
                for each in found.runs
            ),
        ),
        counts=_counts(found),
        since_at=before.bank.time_at(before.position) or None,
        since_bank=None if same else before.name,
        shared=None if same else _shared(before, after),
    )


def _is_in_state(each: ItemDifference) -> bool:
    return (each.before and each.before.state) != (each.after and each.after.state)


def _is_judged_again(each: RunDifference) -> bool:
    """Return whether a run had a verdict for learning, and has another one, or none."""
    was = each.before and each.before.verdict
    return was is not None and was != (each.after and each.after.verdict)


def _counts(found: Difference) -> ChangeCounts:
    verdicts = [(each.before, each.after.verdict) for each in found.runs if each.after and each.after.verdict]
    return ChangeCounts(
        items=len(found.items),
        items_added=sum(each.before is None for each in found.items),
        items_in_state=sum(map(_is_in_state, found.items)),
        runs=len(found.runs),
        runs_began=sum(each.before is None for each in found.runs),
        first_verdicts=dict(Counter(now for was, now in verdicts if not (was and was.verdict)).most_common()),
        verdicts_changed=sum(map(_is_judged_again, found.runs)),
    )


Changed = TypeVar("Changed", ItemSince, RunSince)


def _latest(rows: Iterable[Changed]) -> tuple[Changed, ...]:
    return tuple(sorted(rows, key=lambda each: -(each.changed_seq or 0)))


def _shared(before: BankReader, after: BankReader) -> SharedHistory | None:
    found = common_history(before.bank.log, after.bank.log, (before.position, after.position))
    return None if found is None else SharedHistory.of(found)


QUESTION = QuestionKind(
    about="What changed since a point: items, runs, policies.",
    question=DifferenceQuestion,
    answer=BankDifference,
    find=find_difference,
    rows="items",
)
