"""The question `runs`: a list of runs with their tasks, ends, costs and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader, struct_of
from rbank_es.answers.shared.question_form import ListQuestion, Page, QuestionKind
from rbank_es.bank.failed_runs import end_reason
from rbank_es.bank.id_lookup import whole_id
from rbank_es.events.run_events import Outcome, VerdictValue
from rbank_es.law.validity import authority_name
from rbank_es.log.run_reader import read_run


class RunRow(Struct, frozen=True, kw_only=True):
    """A run in a list. `docs/words.md` has the unit and the meaning of each field, and what none means."""

    run: str
    task: str | None
    task_id: str | None
    level: int | None
    family: str | None
    suite: str | None
    ontology: str | None
    endpoint: str | None
    executor: str | None
    model: str | None
    mode: str | None
    scripted: bool
    simulated: bool
    started_seq: int
    started_at: str
    imported_at: str | None
    finished_seq: int | None
    finished_at: str | None
    outcome: Outcome | None
    error_code: str | None
    error: str | None
    end_reason: str | None
    verdict: VerdictValue | None
    judge: str | None
    kind: str | None
    authority: str | None
    sure: bool | None
    overruled: bool | None
    judged_seq: int | None
    reason: str | None
    score: VerdictValue | None
    scored_seq: int | None
    score_reason: str | None
    iterations: int
    iterations_max: int | None
    steps: int
    tool_calls: int
    lm_calls: int | None
    tokens_in: int | None
    tokens_out: int | None
    tokens: int | None
    cost_usd: float | None
    duration_s: float | None
    answer_chars: int | None
    items_injected: int | None
    recall_sent: bool | None
    red_flags: int
    rollout_group: str | None
    rollout_index: int | None
    experiment: str | None
    condition: str | None


class RunPage(Page[RunRow], frozen=True, kw_only=True):
    """A page of runs, in JSON under `runs`."""

    rows: Annotated[tuple[RunRow, ...], Meta(description="JSON list: the runs of this page")] = msgspec.field(
        name="runs"
    )


class RunsQuestion(ListQuestion, frozen=True, kw_only=True):
    """Which runs, in which order."""

    q: Annotated[str | None, Meta(description="Words that a run's id, task id or task must all have.")] = None
    item: Annotated[
        str | None, Meta(description="Only runs that were given this item, or read it in full: its id, or a beginning.")
    ] = None


def find_runs(reader: BankReader, question: RunsQuestion) -> RunPage:
    """Return a page of the runs that fit, the one that began last first unless sorted otherwise."""
    from rbank_es.projections.paged_view import RowCondition

    narrowed = []
    if words := tuple((question.q or "").split()):
        narrowed.append(RowCondition(("run", "task_id", "task"), "contains", words))
    if question.item is not None:
        given = reader.view.rows("item_exposures", item=whole_id(reader.view, "item", question.item))
        narrowed.append(RowCondition(("run",), "among", tuple({row["run"] for row in given})))
    page = reader.page("runs", RunRow, question, sort="-started_at", conditions=narrowed)
    rows = tuple(run_row(row, reasons_of(reader, row)) for row in page.rows)
    return RunPage(bank=reader.name, position=reader.position, total=page.total, next=page.next, rows=rows)


def run_row(row: Mapping[str, Any], reasons: Mapping[int, str | None]) -> RunRow:
    """Return a row of the view `runs` with the reasons of its verdicts, given by the positions of the judgments."""
    return struct_of(
        RunRow,
        row,
        end_reason=end_reason(row["outcome"], row["error_code"], row["error"]),
        authority=None if row["verdict"] is None else authority_name(row["rank"], row["kind"]),
        reason=reasons.get(row["judged_seq"]),
        score_reason=reasons.get(row["scored_seq"]),
    )


def reasons_of(reader: BankReader, row: Mapping[str, Any]) -> dict[int, str | None]:
    """Return the reasons of the judgments of a run that stand, by their positions; None for one that was erased."""
    found = dict[int, str | None]()
    for seq in {row["judged_seq"], row["scored_seq"]} - {None}:
        # By run, because the log finds its events by an index.
        for event in read_run(reader.bank.log, row["run"], seq, after=seq - 1).judgments:
            found[event.seq] = reader.bank.text(event.reason)
    return found


QUESTION = QuestionKind(
    about="The runs, filtered, sorted, page by page.",
    question=RunsQuestion,
    answer=RunPage,
    find=find_runs,
    rows="rows",
)
