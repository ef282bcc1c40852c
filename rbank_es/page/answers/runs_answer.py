"""The answer `runs`: a page of the list of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from rbank_es.bank import Bank
from rbank_es.bank.run_judgments import AUTHORITIES
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.events.run_events import Outcome
from rbank_es.page.answers.page_question import NONE, PageQuestion, cut, listed

VERDICTS = ("success", "failure", "undecided", NONE)
OUTCOMES = (*get_args(Outcome), NONE)
TEXTS = ("task", "reason", "score_reason", "error")
SORTS = {
    **{name: name for name in ("verdict", "score", "steps", "tokens")},
    **{"started": "started_seq", "flags": "red_flags", "tools": "tool_calls"},
    **{"calls": "lm_calls", "items": "items_injected"},
}
"""The columns by which runs are sorted, by their names in answers."""


def runs_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return a page of the runs that fit the filters: `q`, `verdict`, `score`, `outcome`, `item`, `model`."""
    from rbank_es.projections.paged_view import RowCondition

    conditions = asked.words("run", "task_id", "task")
    for name, values in (("verdict", VERDICTS), ("score", VERDICTS), ("outcome", OUTCOMES)):
        if (value := asked.one_of(name, values)) is not None:
            conditions.append(RowCondition((name,), "is", None if value == NONE else value))
    if (model := asked.text("model")) is not None:
        conditions.append(RowCondition(("model",), "is", model))
    if (item := asked.text("item")) is not None:
        given = asked.view.rows("item_exposures", item=item)
        conditions.append(RowCondition(("run",), "among", tuple({row["run"] for row in given})))
    page = asked.page("runs", conditions, SORTS, "-started")
    return listed(page, run_rows(asked.bank, page.rows))


def run_rows(bank: Bank, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of the view `runs` as lists show them, texts truncated."""
    made = []
    for row in rows:
        whole = run_row(bank, row)
        made.append(whole | {name: cut(whole[name]) for name in TEXTS})
    return made


def run_row(bank: Bank, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the view `runs` as answers name its columns, texts whole, with the reasons of its verdicts."""
    same = ("run", "task", "task_id", "model", "executor", "outcome", "error_code", "error", "verdict", "judge", "kind")
    return {
        **{name: row[name] for name in (*same, "score")},
        **{"started": row["started_seq"], "time": row["started_at"], "imported": row["imported_at"]},
        **{"ontology": row["ontology"] or row["endpoint"]},
        "authority": None if row["verdict"] is None else AUTHORITIES[row["rank"]],
        **{name: None if row[name] is None else bool(row[name]) for name in ("sure", "overruled")},
        "reason": _reason(bank, row["run"], row["judged_seq"]),
        "score_reason": _reason(bank, row["run"], row["scored_seq"]),
        **{"steps": row["steps"], "tools": row["tool_calls"], "calls": row["lm_calls"], "tokens": row["tokens"]},
        **{"items": row["items_injected"], "flags": row["red_flags"]},
        **{name: bool(row[name]) for name in ("scripted", "simulated")},
        **{name: row[name] for name in ("experiment", "condition")},
    }


def _reason(bank: Bank, run: str, seq: int | None) -> str | None:
    """Return the reason of the judgment at a position; None without one, or where it was erased."""
    if seq is None:
        return None
    # By run, because the log finds its events by an index.
    for event in bank.events(after=seq - 1, point=seq, run=run):
        if isinstance(event, RunJudged | JudgmentOverruled):
            return bank.text(event.reason)
    return None
