"""The answer `overview`: whether the bank gets better, and where it goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rbank_es.bank.failed_runs import failed_runs
from rbank_es.limits import page_limits
from rbank_es.log.run_reader import read_run
from rbank_es.page.answers.health_answer import thinned
from rbank_es.page.answers.page_question import NONE, PageQuestion, cut
from rbank_es.page.answers.runs_answer import run_rows
from rbank_es.system.command_lines import whole_command

DECIDED = ("success", "failure")


def overview_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the figures of the overview."""
    from rbank_es.projections.paged_view import RowCondition

    view = asked.view
    names = ("run", "verdict", "score", "started_seq", "outcome")
    runs = [dict(zip(names, row, strict=True)) for row in view.pick("runs", names, sort="started_seq")]
    decided = [row["verdict"] for row in runs if row["verdict"] in DECIDED]
    scored = [row["score"] for row in runs if row["score"] in DECIDED]
    states = Counter(state for (state,) in view.pick("items", ("state",)))
    # Those that ended in an error are listed by the error: many of one kind would hide all others.
    judged = [row["run"] for row in reversed(runs) if row["verdict"] == "failure" and row["outcome"] != "failed"]
    newest = RowCondition(("run",), "among", tuple(judged[: page_limits.OVERVIEW_FAILURES]))
    lost, broken = view.page("runs", [newest]), failed(asked, page_limits.OVERVIEW_FAILURES)
    used = view.page("items", [RowCondition(("uses",), "after", 0)], sort="-uses", limit=page_limits.OVERVIEW_ITEMS)
    half = len(decided) // 2
    return {
        "learning": {**_tally(decided), "halves": [_tally(decided[:half]), _tally(decided[half:])]},
        "scoring": {"scored": len(scored), "successes": scored.count("success")},
        "items": states,
        "flags": len(view.rows("red_flags")),
        "runs": [
            {**{name: row[name] for name in ("run", "verdict", "score")}, "started": row["started_seq"]}
            for row in reversed(runs[-page_limits.OVERVIEW_RUNS :])
        ],
        "older": _groups(runs),
        "failures": [
            shown | {"answer": cut(row["answer"]), "given": _given(asked, row["run"])}
            for shown, row in zip(run_rows(asked.bank, lost.rows), lost.rows, strict=True)
        ],
        "failed": broken,
        "most_used": [
            {**{name: row[name] for name in ("id", "title", "uses", "wins")}, "judged": row["wins"] + row["losses"]}
            for row in used.rows
        ],
        "wants_look": sum(map(wants_look, runs)) + broken["total"] + states["pending"],
        "growth": _growth(asked),
    }


def wants_look(row: Mapping[Any, Any]) -> bool:
    """Return whether a person should look at a run: its verdict and its score differ, or it ended without a verdict.

    Runs that ended in an error are looked at by the error.
    """
    differ = row["verdict"] in DECIDED and row["score"] in DECIDED and row["verdict"] != row["score"]
    return differ or (row["outcome"] not in (None, "failed") and row["verdict"] is None)


def failed(asked: PageQuestion, most: int) -> dict[str, Any]:
    """Return the first errors in which runs ended, each with its newest run and the command that shows it."""
    found = failed_runs(asked.view)
    rows = [
        {"reason": cut(each.reason), "runs": each.runs, "run": each.run, "task": cut(each.task)}
        | {"command": whole_command("show", [asked.argument, each.run])}
        for each in found[:most]
    ]
    return {"total": len(found), "rows": rows}


def _tally(verdicts: Sequence[str]) -> dict[str, int]:
    return {"judged": len(verdicts), "successes": verdicts.count("success")}


def _groups(runs: Sequence[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """Return the verdicts of the runs before those that are marked alone, counted in equal groups, oldest first.

    `after` is the run that began next: behind it, a list of runs, newest first, goes on with the group.
    """
    older = len(runs) - page_limits.OVERVIEW_RUNS
    size = max(page_limits.OVERVIEW_GROUP_RUNS, -(-older // page_limits.OVERVIEW_GROUPS))
    made = []
    for begin in range(0, older, size):
        end = min(begin + size, older)
        verdicts = Counter(row["verdict"] or NONE for row in runs[begin:end])
        made.append({"runs": end - begin, "after": runs[end]["run"], "verdicts": verdicts})
    return made


def _given(asked: PageQuestion, run: str) -> list[dict[str, Any]]:
    """Return the items that a run was given, in order, with their states now."""
    given = read_run(asked.bank.log, run, asked.position, types={"context_built", "memories_read"}).given
    rows = {gift.item: asked.view.item(gift.item) or {} for gift in given}
    return [{"id": id, "title": row.get("title"), "state": row.get("state")} for id, row in rows.items()]


def _growth(asked: PageQuestion) -> list[dict[str, int]]:
    """Return the number of active items after changes of it, at most `page_limits.OVERVIEW_POINTS`, and at the position
    itself."""
    active, made = 0, []
    for seq, change in asked.view.active_changes():
        active += change
        made.append({"seq": seq, "active": active})
    points = thinned(made, page_limits.OVERVIEW_POINTS)
    return [*points, {"seq": asked.position, "active": active}] if asked.position else []
