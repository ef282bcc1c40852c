"""The answer `review`: what a person should look at, each with the command that settles it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rbank_es.answers.overview import wants_look
from rbank_es.limits import page_limits
from rbank_es.page.answers.overview_answer import failed
from rbank_es.page.answers.page_question import PageQuestion, cut
from rbank_es.system.command_lines import whole_command

LOOKED_AT = ("run", "verdict", "score", "outcome")


def review_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return runs whose verdict and score differ or that nobody judged, errors that ended runs, pending items, and
    active ones that mostly lose: the newest of each."""
    return {
        **{"verdicts": _verdicts(asked), "failed": failed(asked, page_limits.LIST_ROWS_MOST)},
        **{"pending": _pending(asked), "losing": _losing(asked)},
    }


def _part(rows: Sequence[dict[str, Any]], total: int) -> dict[str, Any]:
    return {"total": total, "rows": list(rows)}


def _verdicts(asked: PageQuestion) -> dict[str, Any]:
    from rbank_es.projections.paged_view import RowCondition

    picked = (dict(zip(LOOKED_AT, row, strict=True)) for row in asked.view.pick("runs", LOOKED_AT))
    runs = tuple(row["run"] for row in picked if wants_look(row))
    shown = asked.view.page("runs", [RowCondition(("run",), "among", runs[: page_limits.LIST_ROWS_MOST])])
    return _part([_verdict(asked, row) for row in shown.rows], len(runs))


def _verdict(asked: PageQuestion, row: Mapping[str, Any]) -> dict[str, Any]:
    facts = {"run": row["run"], "task": cut(row["task"]), "verdict": row["verdict"], "score": row["score"]}
    names = [asked.argument, row["run"]]
    if row["verdict"] is None:
        ended = "was stopped at a limit" if row["outcome"] == "forced_at_limit" else "ended"
        return facts | {
            "why": f"it {ended}, and nobody judged it",
            "command": whole_command("judge run", names, "--ont FILE"),
        }
    why = f"judged a {row['verdict']}, and scored a {row['score']}"
    return facts | {"why": why, "command": whole_command("overrule", names, f"--{row['score']} --reason TEXT")}


def _pending(asked: PageQuestion) -> dict[str, Any]:
    from rbank_es.projections.paged_view import RowCondition

    page = asked.view.page("items", [RowCondition(("state",), "is", "pending")], limit=page_limits.LIST_ROWS_MOST)
    return _part([_item(row, "it waits for a person") | _admission(asked, row) for row in page.rows], page.total)


def _admission(asked: PageQuestion, row: Mapping[str, Any]) -> dict[str, str]:
    return {"command": whole_command("admit", [asked.argument, row["id"]])}


def _losing(asked: PageQuestion) -> dict[str, Any]:
    from rbank_es.projections.paged_view import RowCondition

    lost = [RowCondition(("state",), "is", "active"), RowCondition(("losses",), "after", 0)]
    rows = [row for row in asked.view.page("items", lost).rows if row["losses"] > row["wins"]]
    shown = [
        _item(row, f"lost {row['losses']:,} of {row['wins'] + row['losses']:,} decided uses")
        | {"command": whole_command("retract", [asked.argument, row["id"]], "--because TEXT")}
        for row in rows[: page_limits.LIST_ROWS_MOST]
    ]
    return _part(shown, len(rows))


def _item(row: Mapping[str, Any], why: str) -> dict[str, Any]:
    same = ("id", "src", "wins", "losses")
    return {**{name: row[name] for name in same}, "title": cut(row["title"]), "why": why}
