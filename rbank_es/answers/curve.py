"""The question `curve`: how often items helped that covered so much of a question, by the runs that were given them.

Only what was given has an outcome, so the curve begins at the floors that were in force. An item that was drawn from a
run of the same task is left out: it covers its own task's question whatever it is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.events import MemoriesRetrieved
from rbank_es.system.proportion import rounded, wilson

STEPS = tuple(step / 20 for step in range(4, 17))
"""Floors that are compared: 0.2 to 0.8."""


class CurveRow(Struct, frozen=True, kw_only=True):
    """The judged uses of items that covered so much of a question, or more."""

    coverage: Annotated[float, Meta(description="share, 0 to 1: the least coverage")]
    uses: Annotated[int, Meta(description="number: judged uses with that coverage or more")]
    wins: Annotated[int, Meta(description="number: of them, those in runs that succeeded")]
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None


class Curve(BankAnswer, frozen=True, kw_only=True):
    """The curve by coverage. `best` is the floor with most wins beyond those that the bank's runs have anyway."""

    uses: Annotated[int, Meta(description="number: judged uses whose coverage was recorded")]
    run_win_rate: Annotated[float | None, Meta(description="share, 0 to 1: of judged runs that succeeded; null: none")]
    best: Annotated[
        float | None,
        Meta(description=f"share, 0 to 1: the floor to choose; null: fewer than {limits.FLOOR_USES} judged uses"),
    ]
    rows: tuple[CurveRow, ...]


class CurveQuestion(BankQuestion, frozen=True, kw_only=True):
    """Nothing more: the curve is of all judged uses."""


def find_curve(reader: BankReader, question: CurveQuestion) -> Curve:
    """Return the curve of the judged uses up to the position."""
    judged = {run: (verdict, task) for run, verdict, task in reader.view.pick("runs", ("run", "verdict", "task_id"))}
    judged = {run: each for run, each in judged.items() if each[0] in ("success", "failure")}
    successes = sum(verdict == "success" for verdict, _ in judged.values())
    uses = list(_uses(reader, judged))
    rate = successes / len(judged) if judged else None
    reaching = {least: [win for covered, win in uses if covered >= least] for least in STEPS}
    rows = tuple(_row(least, won) for least, won in reaching.items() if won)
    best = None
    if rate is not None and len(uses) >= limits.FLOOR_USES:
        # The highest of equals: it gives least.
        best = max(rows, key=lambda row: (row.wins - rate * row.uses, row.coverage)).coverage
    return Curve(
        bank=reader.name,
        position=reader.position,
        uses=len(uses),
        run_win_rate=rounded(rate),
        best=best,
        rows=rows,
    )


def _uses(reader: BankReader, judged: Mapping[str, tuple[str, str | None]]) -> Iterator[tuple[float, bool]]:
    """Yield the coverage of each item that a judged run was given, the greatest of its searches, and whether it won."""
    covered: dict[tuple[str, str], float] = {}
    own: dict[str, frozenset[str]] = {}
    for event in reader.bank.events(types={"memories_retrieved"}, point=reader.position):
        if not isinstance(event, MemoriesRetrieved) or event.run is None or event.run not in judged:
            continue
        run, task = event.run, judged[event.run][1]
        if task is not None and task not in own:
            own[task] = reader.view.items_of_task(task)
        for hit in event.hits:
            if hit.coverage is not None and (task is None or hit.id not in own[task]):
                covered[run, hit.id] = max(hit.coverage, covered.get((run, hit.id), 0.0))
    for (run, _), share in covered.items():
        yield share, judged[run][0] == "success"


def _row(least: float, won: Sequence[bool]) -> CurveRow:
    wins = sum(won)
    low, high = wilson(wins, len(won)) or (0.0, 1.0)
    return CurveRow(
        coverage=least,
        uses=len(won),
        wins=wins,
        win_rate=rounded(wins / len(won)),
        win_rate_low=rounded(low),
        win_rate_high=rounded(high),
    )


QUESTION = QuestionKind(
    about="How often items helped that covered so much of a question, to choose a floor by.",
    question=CurveQuestion,
    answer=Curve,
    find=find_curve,
    rows="rows",
)
