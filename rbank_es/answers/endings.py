"""The question `endings`: why runs ended, by kind, and what to do about each kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.events.run_events import Outcome
from rbank_es.system.error_hints import ending_hint


class RunEnding(NamedTuple):
    """The end of a run. A run without an outcome has no recorded end."""

    run: str
    outcome: Outcome | None
    error_code: str | None


class EndingRow(Struct, frozen=True, kw_only=True):
    """The runs that ended in one way."""

    outcome: Outcome | None
    error_code: str | None
    runs: Annotated[int, Meta(description="number: runs that ended so")]
    newest: Annotated[str, Meta(description="id: the run of these that began last")]
    advice: Annotated[str | None, Meta(description="text: what to do about it; null: nothing, it was an answer")]


class Endings(BankAnswer, frozen=True, kw_only=True):
    """The ways in which runs ended, the commonest first."""

    rows: tuple[EndingRow, ...]


class EndingsQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which runs."""

    after: Annotated[int, Meta(ge=0, description="Only runs that began behind this position.")] = 0


def find_endings(reader: BankReader, question: EndingsQuestion) -> Endings:
    """Return the ways in which runs ended, each with their number, the newest of them, and what to do about it."""
    from rbank_es.projections.paged_view import RowCondition

    begun = [RowCondition(("started_seq",), "after", question.after)]
    ends = reader.view.pick("runs", RunEnding._fields, begun, sort="started_seq")
    return Endings(bank=reader.name, position=reader.position, rows=ending_rows(RunEnding(*each) for each in ends))


def ending_rows(ends: Iterable[RunEnding]) -> tuple[EndingRow, ...]:
    """Return a row for each way in which runs ended, the commonest first; `ends` are in the order of the runs."""
    kinds = defaultdict[tuple[Outcome | None, str | None], list[str]](list)
    for end in ends:
        kinds[end.outcome, end.error_code].append(end.run)
    rows = (
        EndingRow(outcome=outcome, error_code=code, runs=len(runs), newest=runs[-1], advice=ending_hint(outcome, code))
        for (outcome, code), runs in kinds.items()
    )
    return tuple(sorted(rows, key=lambda row: -row.runs))


QUESTION = QuestionKind(
    about="Why runs ended, by kind, and what to do about each kind.",
    question=EndingsQuestion,
    answer=Endings,
    find=find_endings,
    rows="rows",
)
