"""The question `health`: how a bank does, as shares with their counts, and at earlier points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader, struct_of
from rbank_es.answers.shared.question import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.failed_runs import FailedRuns, failed_runs
from rbank_es.bank.health_report import HealthReport, Measured, health_of, health_series, measures_of, series_positions
from rbank_es.errors import BadInput
from rbank_es.limits import answer_limits
from rbank_es.system.proportion import rounded


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
    report = health_of(reader.view)
    stock = [(src, state, items) for src, states in report.stock.items() for state, items in states.items()]
    return Health(
        bank=reader.name,
        position=reader.position,
        last_at=reader.bank.time_at(reader.position) or None,
        **_told(report),
        stock=tuple(Stock(src=src, state=state, items=items) for src, state, items in sorted(stock)),
        failed_runs=tuple(failed_runs(reader.view)),
        due=tuple(row["id"] for row in reader.view.rows("due") if row["kind"] == "cause"),
        series=tuple(_series(reader, question)),
        course=tuple(_course(reader, question.course)),
    )


def _told(report: HealthReport) -> dict[str, Any]:
    return {
        "size": report.size,
        "uses": report.uses,
        "win_rate_drift": report.drift,
        "measures": tuple(map(_measure, measures_of(report))),
    }


def _measure(each: Measured) -> Measure:
    low, high = each.interval or (None, None)
    return Measure(
        name=each.name,
        meaning=each.words,
        part=each.share.part,
        whole=each.share.whole,
        rate=rounded(each.share.rate),
        low=rounded(low),
        high=rounded(high),
    )


def _series(reader: BankReader, question: HealthQuestion) -> Iterator[HealthPoint]:
    if question.every is not None and question.points is not None:
        raise BadInput("every and points both choose the points: give one of them")
    positions = series_positions(reader.position, every=question.every, points=question.points)
    for at, report in health_series(reader.bank, positions, reader.progress) if positions else ():
        yield HealthPoint(position=at, last_at=reader.bank.time_at(at) or None, **_told(report))


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
