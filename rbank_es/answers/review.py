"""The question `review`: what a person should look at, with the commands that settle it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from rbank_es.answers.item import ItemGround, grounds_of
from rbank_es.answers.overview import wants_look
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.failed_runs import FailedRuns, failed_runs
from rbank_es.bank.near_items import NearItem, rejected_near
from rbank_es.events.items import Polarity, Source
from rbank_es.events.run_events import VerdictValue, has_source, source_of
from rbank_es.limits import answer_limits
from rbank_es.system.command_lines import whole_command

LOOKED_AT = ("run", "task", "verdict", "score", "outcome", "ontology", "endpoint", "executor", "mode")
LOSING = ("id", "title", "src", "wins", "losses")


class RunToSettle(Struct, frozen=True, kw_only=True):
    """A run whose verdict and score differ, or that ended and was not judged."""

    run: str
    task: str | None
    verdict: VerdictValue | None
    score: VerdictValue | None
    outcome: str | None
    why: str
    command: str


class PendingItem(Struct, frozen=True, kw_only=True):
    """An item that waits for a person: its words, the rejected items that it is near to, and what it rests on."""

    id: str
    title: str
    desc: str
    content: str
    src: Source
    polarity: Polarity
    domain: str | None
    near: tuple[NearItem, ...]
    grounds: tuple[ItemGround, ...]
    command: str


class LosingItem(Struct, frozen=True, kw_only=True):
    """An active item that lost more of its decided uses than it won."""

    id: str
    title: str
    src: Source
    wins: int
    losses: int
    command: str


class Review(BankAnswer, frozen=True, kw_only=True):
    """The first errors that ended runs, those of most runs first; of all else the newest, and how many there are."""

    errors: int
    failed_runs: tuple[FailedRuns, ...]
    runs_to_settle_total: int
    runs_to_settle: tuple[RunToSettle, ...]
    pending_total: int
    pending: tuple[PendingItem, ...]
    losing_total: int
    losing: tuple[LosingItem, ...]


class ReviewQuestion(BankQuestion, frozen=True, kw_only=True):
    """How many of each."""

    limit: Annotated[int, Meta(ge=1, le=answer_limits.ANSWER_ROWS_MOST, description="Rows of each list at most.")] = (
        answer_limits.ANSWER_ROWS
    )


def find_review(reader: BankReader, question: ReviewQuestion) -> Review:
    """Return what a person should look at."""
    from rbank_es.projections.paged_view import RowCondition

    view, limit = reader.view, reader.limit(question.limit)
    failed = failed_runs(view)
    picked = (dict(zip(LOOKED_AT, row, strict=True)) for row in view.pick("runs", LOOKED_AT, sort="-started_seq"))
    runs = [row for row in picked if wants_look(row)]
    waiting = view.page("items", [RowCondition(("state",), "is", "pending")], sort="-born_seq", limit=limit)
    lost = [RowCondition(("state",), "is", "active"), RowCondition(("losses",), "after", 0)]
    found = (dict(zip(LOSING, row, strict=True)) for row in view.pick("items", LOSING, lost, sort="-born_seq"))
    losing = [row for row in found if row["losses"] > row["wins"]]
    return Review(
        bank=reader.name,
        position=reader.position,
        errors=len(failed),
        failed_runs=tuple(failed[:limit]),
        runs_to_settle_total=len(runs),
        runs_to_settle=tuple(_run(reader, row) for row in runs[:limit]),
        pending_total=waiting.total,
        pending=tuple(_pending(reader, row) for row in waiting.rows),
        losing_total=len(losing),
        losing=tuple(_losing(reader, row) for row in losing[:limit]),
    )


def _run(reader: BankReader, row: Mapping[Any, Any]) -> RunToSettle:
    names = [reader.command, row["run"]]
    if row["verdict"] is None:
        ended = "was stopped at a limit" if row["outcome"] == "forced_at_limit" else "ended"
        asked = source_of(row["ontology"], row["endpoint"], row["executor"], row["mode"])
        by = "--ont FILE" if has_source(asked) else "--judge-lm MODEL"
        why, command = f"it {ended}, and nobody judged it", whole_command("judge run", names, by)
    else:
        why = f"judged a {row['verdict']}, and scored a {row['score']}"
        command = whole_command("overrule", names, f"--{row['score']} --reason TEXT")
    shown = {name: row[name] for name in ("run", "task", "verdict", "score", "outcome")}
    return RunToSettle(**shown, why=why, command=command)


def _pending(reader: BankReader, row: dict[str, Any]) -> PendingItem:
    return PendingItem(
        **{name: row[name] for name in ("id", "title", "desc", "content", "src", "polarity", "domain")},
        near=rejected_near(reader.view, row),
        grounds=grounds_of(reader, row["id"]),
        command=whole_command("admit", [reader.command, row["id"]]),
    )


def _losing(reader: BankReader, row: Mapping[Any, Any]) -> LosingItem:
    command = whole_command("retract", [reader.command, row["id"]], "--because TEXT")
    return LosingItem(**row, command=command)


QUESTION = QuestionKind(
    about="What a person should look at: errors, verdicts that scores contradict, and items that wait or mostly lose.",
    question=ReviewQuestion,
    answer=Review,
    find=find_review,
)
