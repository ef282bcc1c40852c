"""The question `overview`: whether the bank gets better, and where it goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rbank_es.answers.health import thinned
from rbank_es.answers.runs import RunRow, reasons_of, run_row
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.failed_runs import FailedRuns, failed_runs
from rbank_es.events.run_events import VerdictValue
from rbank_es.limits import answer_limits
from rbank_es.log.run_reader import read_run

if TYPE_CHECKING:
    from rbank_es.projections.view import View

DECIDED = ("success", "failure")


class VerdictTally(Struct, frozen=True, kw_only=True):
    """Decided verdicts, and those of them that are a success."""

    judged: int
    successes: int


class StateCount(Struct, frozen=True, kw_only=True):
    """The items in one state."""

    state: str
    items: int


class RunMark(Struct, frozen=True, kw_only=True):
    """A run in a strip of runs."""

    run: str
    started_seq: int
    verdict: VerdictValue | None
    score: VerdictValue | None


class RunGroup(Struct, frozen=True, kw_only=True):
    """Runs that began one after the other, by their verdicts. `after` is the run that began next: behind it, a list of
    runs, newest first, goes on with the group."""

    runs: int
    after: str
    success: int
    failure: int
    undecided: int
    not_judged: int


class ItemName(Struct, frozen=True, kw_only=True):
    """An item that a run was given, as it is now."""

    id: str
    title: str | None
    state: str | None


class FailureShown(Struct, frozen=True, kw_only=True):
    """A run that was judged a failure, with its answer and what it was given."""

    run: RunRow
    answer: str | None
    given: tuple[ItemName, ...]


class UsedItem(Struct, frozen=True, kw_only=True):
    """An item that runs were given."""

    id: str
    title: str
    uses: int
    wins: int
    losses: int
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None


class GrowthPoint(Struct, frozen=True, kw_only=True):
    """The active items behind a position."""

    seq: int
    active: int


class Overview(BankAnswer, frozen=True, kw_only=True):
    """The figures of a bank, its newest runs and failures, and what wants a look."""

    learning: VerdictTally
    first_half: VerdictTally
    second_half: VerdictTally
    scoring: VerdictTally
    items: tuple[StateCount, ...]
    red_flags: int
    runs: tuple[RunMark, ...]
    older: tuple[RunGroup, ...]
    failures: tuple[FailureShown, ...]
    errors: int
    failed_runs: tuple[FailedRuns, ...]
    most_used: tuple[UsedItem, ...]
    wants_look: int
    growth: tuple[GrowthPoint, ...]


def find_overview(reader: BankReader, question: BankQuestion) -> Overview:
    """Return the figures at the position; runs are the newest first, older ones in groups, oldest first."""
    view, names = reader.view, ("run", "verdict", "score", "started_seq", "outcome")
    runs = [dict(zip(names, row, strict=True)) for row in view.pick("runs", names, sort="started_seq")]
    decided = [row["verdict"] for row in runs if row["verdict"] in DECIDED]
    scored = [row["score"] for row in runs if row["score"] in DECIDED]
    stock = state_counts(view)
    pending = sum(each.items for each in stock if each.state == "pending")
    half, broken = len(decided) // 2, failed_runs(view)
    newest = reversed(runs[-answer_limits.OVERVIEW_RUNS :])
    return Overview(
        bank=reader.name,
        position=reader.position,
        learning=_tally(decided),
        first_half=_tally(decided[:half]),
        second_half=_tally(decided[half:]),
        scoring=_tally(scored),
        items=stock,
        red_flags=len(view.rows("red_flags")),
        runs=tuple(RunMark(**{name: row[name] for name in RunMark.__struct_fields__}) for row in newest),
        older=tuple(_groups(runs)),
        failures=tuple(_failures(reader, runs)),
        errors=len(broken),
        failed_runs=tuple(broken[: answer_limits.OVERVIEW_FAILURES]),
        most_used=tuple(_most_used(reader)),
        wants_look=sum(map(wants_look, runs)) + len(broken) + pending,
        growth=tuple(_growth(reader)),
    )


def state_counts(view: View) -> tuple[StateCount, ...]:
    """Return the number of items in each state that some are in."""
    states = Counter(state for (state,) in view.pick("items", ("state",)))
    return tuple(StateCount(state=state, items=n) for state, n in sorted(states.items()))


def wants_look(row: Mapping[Any, Any]) -> bool:
    """Return whether a person should look at a run: its verdict and its score differ, or it ended without a verdict.

    Runs that ended in an error are looked at by the error.
    """
    differ = row["verdict"] in DECIDED and row["score"] in DECIDED and row["verdict"] != row["score"]
    return differ or (row["outcome"] not in (None, "failed") and row["verdict"] is None)


def _tally(verdicts: Sequence[str]) -> VerdictTally:
    return VerdictTally(judged=len(verdicts), successes=verdicts.count("success"))


def _groups(runs: Sequence[Mapping[Any, Any]]) -> list[RunGroup]:
    """Return the verdicts of the runs before those that are marked alone, counted in equal groups."""
    older = len(runs) - answer_limits.OVERVIEW_RUNS
    size = max(answer_limits.OVERVIEW_GROUP_RUNS, -(-older // answer_limits.OVERVIEW_GROUPS))
    made = []
    for begin in range(0, older, size):
        end = min(begin + size, older)
        found = Counter(row["verdict"] for row in runs[begin:end])
        counts = {name: found[name] for name in ("success", "failure", "undecided")}
        made.append(RunGroup(runs=end - begin, after=runs[end]["run"], not_judged=found[None], **counts))
    return made


def _failures(reader: BankReader, runs: Sequence[Mapping[Any, Any]]) -> list[FailureShown]:
    from rbank_es.projections.paged_view import RowCondition

    # Those that ended in an error are listed by the error: many of one kind would hide all others.
    judged = [row["run"] for row in reversed(runs) if row["verdict"] == "failure" and row["outcome"] != "failed"]
    newest = RowCondition(("run",), "among", tuple(judged[: answer_limits.OVERVIEW_FAILURES]))
    return [
        FailureShown(
            run=run_row(row, reasons_of(reader, row)),
            answer=row["answer"],
            given=tuple(_given(reader, row["run"])),
        )
        for row in reader.view.page("runs", [newest]).rows
    ]


def _given(reader: BankReader, run: str) -> list[ItemName]:
    """Return the items that a run was given, in order, with their states now."""
    given = read_run(reader.bank.log, run, reader.position, types={"context_built", "memories_read"}).given
    rows = {gift.item: reader.view.item(gift.item) or {} for gift in given}
    return [ItemName(id=id, title=row.get("title"), state=row.get("state")) for id, row in rows.items()]


def _most_used(reader: BankReader) -> list[UsedItem]:
    from rbank_es.projections.paged_view import RowCondition

    used = [RowCondition(("uses",), "after", 0)]
    rows = reader.view.page("items", used, sort="-uses", limit=answer_limits.OVERVIEW_ITEMS).rows
    return [UsedItem(**{name: row[name] for name in UsedItem.__struct_fields__}) for row in rows]


def _growth(reader: BankReader) -> list[GrowthPoint]:
    """Return the number of active items after changes of it, some of many, and at the position itself."""
    active, made = 0, []
    for seq, change in reader.view.active_changes():
        active += change
        made.append(GrowthPoint(seq=seq, active=active))
    points = thinned(made, answer_limits.OVERVIEW_POINTS)
    return [*points, GrowthPoint(seq=reader.position, active=active)] if reader.position else []


QUESTION = QuestionKind(
    about="Whether the bank gets better, and where it goes wrong.",
    question=BankQuestion,
    answer=Overview,
    find=find_overview,
)
