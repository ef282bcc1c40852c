"""The errors that ended runs, as the answer `review` has them."""

from __future__ import annotations

from typing import Any

from rbank_es.bank.failed_runs import failed_runs
from rbank_es.page.answers.page_question import PageQuestion, cut
from rbank_es.system.command_lines import whole_command


def failed(asked: PageQuestion, most: int) -> dict[str, Any]:
    """Return the first errors in which runs ended, each with its newest run and the command that shows it."""
    found = failed_runs(asked.view)
    rows = [
        {"reason": cut(each.reason), "runs": each.runs, "run": each.run, "task": cut(each.task)}
        | {"command": whole_command("show", [asked.argument, each.run])}
        for each in found[:most]
    ]
    return {"total": len(found), "rows": rows}
