"""The question `leakage`: what reached prompts instead of staying behind a handle: by tool, by run, as red flags."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader, struct_of
from rbank_es.answers.shared.question_form import ListQuestion, Page, QuestionKind
from rbank_es.limits import answer_limits


class RunLeakage(Struct, frozen=True, kw_only=True):
    """What reached the prompts of one run. Sizes are in characters; none was not recorded."""

    run: str
    task: str | None
    started_seq: int
    total_chars_returned: int | None
    max_single_return: int | None
    large_returns: int
    stdout_chars: int | None
    variables_n: int | None
    variables_chars: int | None
    subcalls: int
    items_injected: int | None
    context_size: int | None
    prompt_chars_max: int | None
    iterations: int
    tool_calls: int
    red_flags: int


class ToolLeakage(Struct, frozen=True, kw_only=True):
    """What one tool returned to all runs."""

    tool: str
    calls: int
    errors: int
    total_chars_returned: int | None
    max_single_return: int | None
    large_returns: int
    truncated: int


class RedFlag(Struct, frozen=True, kw_only=True):
    """A limit that a run passed."""

    run: str
    flag: str
    value: int
    threshold: int
    seq: int
    tool: str | None


class FlagCounts(Struct, frozen=True, kw_only=True):
    """The number of red flags of each kind."""

    single_return: int
    items_injected: int
    context_size: int
    l2_budget: int


class Leakage(Page[RunLeakage], frozen=True, kw_only=True):
    """A page of runs, beside all tools, the one that returned most first, and the newest red flags."""

    rows: Annotated[
        tuple[RunLeakage, ...], Meta(description="JSON list: what reached the prompts of the runs of this page")
    ] = msgspec.field(name="runs")
    leakage_by_tool: tuple[ToolLeakage, ...]
    flag_counts: FlagCounts
    flags: tuple[RedFlag, ...]


def find_leakage(reader: BankReader, question: ListQuestion) -> Leakage:
    """Return the leakage of a page of runs, the one that began last first unless sorted otherwise."""
    page = reader.page("leakage_by_run", RunLeakage, question, sort="-started_seq")
    tasks = reader.tasks([row["run"] for row in page.rows])
    tools = sorted(
        reader.view.rows("leakage_by_tool"), key=lambda row: (-(row["total_chars_returned"] or 0), row["tool"])
    )
    raised = sorted(reader.view.rows("red_flags"), key=lambda row: (-row["seq"], row["flag"]))
    counts = Counter(row["flag"] for row in raised)
    return Leakage(
        bank=reader.name,
        position=reader.position,
        total=page.total,
        next=page.next,
        rows=tuple(struct_of(RunLeakage, row, task=tasks.get(row["run"])) for row in page.rows),
        leakage_by_tool=tuple(struct_of(ToolLeakage, row) for row in tools[: answer_limits.LEAKAGE_ROWS]),
        flag_counts=FlagCounts(**{name: counts[name] for name in FlagCounts.__struct_fields__}),
        flags=tuple(struct_of(RedFlag, row) for row in raised[: answer_limits.LEAKAGE_ROWS]),
    )


QUESTION = QuestionKind(
    about="What reached prompts instead of staying behind a handle: by tool, by run, as red flags.",
    question=ListQuestion,
    answer=Leakage,
    find=find_leakage,
    rows="rows",
)
