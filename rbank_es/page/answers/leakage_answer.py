"""The answer `leakage`: what reached prompts instead of staying behind a handle, by tool, by run, and as red flags."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rbank_es.limits import page_limits
from rbank_es.page.answers.page_question import PageQuestion, cut, listed

GROUPS = ("tool", "run", "flag")
FLAGS = ("single_return", "items_injected", "context_size", "l2_budget")
RUN_SORTS = {
    **{
        name: name
        for name in (
            "total_chars_returned", "max_single_return", "large_returns", "stdout_chars", "variables_n",
            "variables_chars", "subcalls", "memory_items_injected", "context_size", "prompt_chars_max", "iterations",
            "tool_calls", "red_flags",
        )
    },
    "started": "started_seq",
}  # fmt: skip
"""The columns by which runs are sorted, by their names in answers."""


def leakage_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the rows of a grouping, `by` tool (the default), run or flag, and the number of flags of each kind."""
    by = asked.one_of("by", GROUPS) or "tool"
    found = {"tool": _by_tool, "run": _by_run, "flag": _by_flag}[by](asked)
    raised = Counter(row["flag"] for row in asked.view.rows("red_flags"))
    return {"by": by, **found, "flags": {name: raised[name] for name in FLAGS}}


def _by_tool(asked: PageQuestion) -> dict[str, Any]:
    rows = asked.view.rows("leakage_by_tool")
    rows.sort(key=lambda row: (-(row["total_chars_returned"] or 0), row["tool"]))
    return {"total": len(rows), "next": None, "rows": rows[: page_limits.LIST_ROWS_MOST]}


def _by_run(asked: PageQuestion) -> dict[str, Any]:
    page = asked.page("leakage_by_run", [], RUN_SORTS, "-started")
    tasks = asked.tasks([row["run"] for row in page.rows])
    return listed(page, [row | {"task": cut(tasks.get(row["run"]))} for row in page.rows])


def _by_flag(asked: PageQuestion) -> dict[str, Any]:
    rows = asked.view.rows("red_flags")
    rows.sort(key=lambda row: (-row["seq"], row["flag"]))
    return {"total": len(rows), "next": None, "rows": rows[: page_limits.LIST_ROWS_MOST]}
