"""The question `health`: how a bank does, as shares with their counts, and at earlier points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.answers.shared.bank_reader import BankReader, struct_of
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.failed_runs import FailedRuns, failed_runs
from rbank_es.errors import BadInput, LimitExceeded
from rbank_es.limits import answer_limits
from rbank_es.system.proportion import Share, rounded

if TYPE_CHECKING:
    from rbank_es.projections.view import View


class _Counted(NamedTuple):
    """A share of `bank_health` in words, the column of its part, and those that together are its whole.

    `sampled`: it estimates a rate beyond this bank; of the others, which count all there is, an interval says nothing.
    """

    meaning: str
    part: str
    whole: tuple[str, ...]
    sampled: bool = False


MEASURES = {
    "novelty": _Counted("candidates added as new items", "added", ("candidates",)),
    "duplicates": _Counted("candidates that repeat an item", "repeated", ("candidates",)),
    "wins": _Counted("uses won, of those decided", "wins", ("wins", "losses"), sampled=True),
    "wins_last": _Counted(f"of the last {limits.WIN_RATE_USES} uses", "wins_last", ("decided_last",), sampled=True),
    "wins_before": _Counted(
        f"of the {limits.WIN_RATE_USES} uses before", "wins_before", ("decided_before",), sampled=True
    ),
    "top_tenth": _Counted("uses of the most used tenth of the items", "top_uses", ("active_uses",)),
    "never_used": _Counted("retrievable items never used", "never_used", ("for_agents",)),
    "overruled": _Counted("verdicts overruled", "overruled", ("judged",)),
    "undecided": _Counted("verdicts left undecided", "undecided", ("judged",)),
    "disagreement": _Counted("runs on which judges differ", "disagreed", ("judged_twice",), sampled=True),
    "recalls_not_sent": _Counted("runs whose recalls were not all sent", "recalls_not_sent", ("recalls",)),
    "one_verdict": _Counted("active items that rest on one verdict", "on_one_verdict", ("active",)),
}
"""The shares by name, in the order in which people read them. `projections/health.py` says what each count is."""


class HealthQuestion(BankQuestion, frozen=True, kw_only=True):
    """The earlier points at which the health is told too, and the points of its course."""

    every: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="A point after so many events.")] = None
    points: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="So many points, evenly apart.")] = None
    course: Annotated[
        int, Meta(ge=0, le=answer_limits.COURSE_POINTS, description="Moments of the course at most; of more, some.")
    ] = 0


class Measure(Struct, frozen=True, kw_only=True):
    """A share in words, with its counts; `low` and `high` are the interval (Wilson, 95 %) of an estimated rate."""

    name: str
    meaning: str
    part: int
    whole: int
    rate: float | None
    low: float | None
    high: float | None


class Stock(Struct, frozen=True, kw_only=True):
    """The items of one source in one state."""

    src: str
    state: str
    items: int


class HealthPoint(Struct, frozen=True, kw_only=True):
    """The health at an earlier point, as it was told then."""

    position: int
    last_at: str | None
    size: int
    uses: int
    win_rate_drift: float | None
    measures: tuple[Measure, ...]


class CoursePoint(Struct, frozen=True, kw_only=True):
    """A moment at which the memory, or what is known of its uses, changed."""

    seq: int
    recorded_at: str
    size: int
    candidates: int
    added: int
    novelty_rate: float | None
    duplicate_rate: float | None
    uses: int
    win_rate_last: float | None
    win_rate_before: float | None
    win_rate_drift: float | None


class Health(BankAnswer, frozen=True, kw_only=True):
    """How a bank does, what a person should look at, and how it came there."""

    last_at: str | None
    size: int
    uses: int
    win_rate_drift: float | None
    measures: tuple[Measure, ...]
    stock: tuple[Stock, ...]
    failed_runs: tuple[FailedRuns, ...]
    due: tuple[str, ...]
    series: tuple[HealthPoint, ...]
    course: tuple[CoursePoint, ...]


def find_health(reader: BankReader, question: HealthQuestion) -> Health:
    """Return the health at the position. Raises `BadInput` for two ways to choose the points, `LimitExceeded`."""
    stock = (Stock(**row) for row in reader.view.rows("items_by_source"))
    return Health(
        bank=reader.name,
        position=reader.position,
        last_at=reader.bank.time_at(reader.position) or None,
        **_told(reader.view),
        stock=tuple(sorted(stock, key=lambda each: (each.src, each.state))),
        failed_runs=tuple(failed_runs(reader.view)),
        due=tuple(row["id"] for row in reader.view.rows("due") if row["kind"] == "cause"),
        series=tuple(_series(reader, question)),
        course=tuple(_course(reader, question.course)),
    )


def _told(view: View) -> dict[str, Any]:
    [row] = view.rows("bank_health")
    return {
        "size": row["active"],
        "uses": row["uses"],
        "win_rate_drift": _drift(row),
        "measures": tuple(_measures(row)),
    }


def _measures(row: Mapping[str, Any]) -> Iterator[Measure]:
    for name, (meaning, part, whole, sampled) in MEASURES.items():
        share = Share(row[part], sum(row[each] for each in whole))
        low, high = (share.interval if sampled else None) or (None, None)
        yield Measure(
            name=name,
            meaning=meaning,
            part=share.part,
            whole=share.whole,
            rate=rounded(share.rate),
            low=rounded(low),
            high=rounded(high),
        )


def _drift(row: Mapping[str, Any]) -> float | None:
    """Return the win rate of the last uses less that of those before; None where one isn't known yet."""
    last, before = (Share(row[f"wins_{uses}"], row[f"decided_{uses}"]).rate for uses in ("last", "before"))
    if row["uses"] < 2 * limits.WIN_RATE_USES or last is None or before is None:
        return None
    return rounded(last - before)


def _series(reader: BankReader, question: HealthQuestion) -> Iterator[HealthPoint]:
    """Yield the health at each of the points, of what was known there."""
    if question.every is not None and question.points is not None:
        raise BadInput("every and points both choose the points: give one of them")
    positions = series_positions(reader.position, every=question.every, points=question.points)
    for number, at in enumerate(positions):
        if reader.progress is not None:
            reader.progress(number, len(positions))
        with reader.bank.as_of(at) as view:
            yield HealthPoint(position=at, last_at=reader.bank.time_at(at) or None, **_told(view))


def series_positions(head: int, *, every: int | None = None, points: int | None = None) -> tuple[int, ...]:
    """Return the positions of a series up to `head`, which is the last: every so many events, or so many points.

    Raises `LimitExceeded` for more than `answer_limits.HEALTH_POINTS`.
    """
    wanted = -(-head // every) if every is not None else points or 0
    if wanted > answer_limits.HEALTH_POINTS:
        advice = "ask for fewer points, or for a larger step between them"
        raise LimitExceeded("points of a series", wanted, answer_limits.HEALTH_POINTS, advice)
    if every is not None:
        return (*range(every, head, every), *((head,) if head else ()))
    return tuple(sorted({head * number // wanted for number in range(1, wanted + 1)} - {0})) if wanted else ()


def _course(reader: BankReader, most: int) -> Iterable[CoursePoint]:
    rows = sorted(reader.view.rows("health_over_time"), key=lambda row: row["seq"]) if most else []
    return (struct_of(CoursePoint, row) for row in thinned(rows, most))


def thinned(rows: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many rows: the last of each of as many equal groups of neighbours."""
    groups = min(len(rows), most)
    return [rows[(number + 1) * len(rows) // groups - 1] for number in range(groups)]


QUESTION = QuestionKind(
    about="How the bank does: its size, what is new and what repeats, wins, uses, firmness of verdicts.",
    question=HealthQuestion,
    answer=Health,
    find=find_health,
    rows="measures",
)
