"""Runs that ended in an error, by the error: a person should look at them, whether or not somebody judged them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from rbank_es.projections.view import View

UNKNOWN = "no reason was recorded"


class FailedRuns(Struct, frozen=True):
    """Runs that ended in the same error: its words in the newest of them, their number, the newest's id and task."""

    reason: str
    runs: int
    run: str
    task: str | None


def failed_runs(view: View) -> list[FailedRuns]:
    """Return the runs that ended in an error, by its code and words: most runs first, among equals the newest first.

    Figures in the words don't count: a port or a time differs from run to run. A run that was judged a success all the
    same is not among them.
    """
    from rbank_es.projections.paged_view import RowCondition

    found: dict[str, FailedRuns] = {}
    ended = [RowCondition(("outcome",), "is", "failed")]
    for run, task, verdict, code, error in view.pick("runs", ("run", "task", "verdict", "error_code", "error"), ended):
        if verdict != "success":
            reason = end_reason("failed", code, error) or UNKNOWN
            kind = re.sub("[0-9]+", "0", reason)
            newest = found.get(kind) or FailedRuns(reason, 0, run, task)
            found[kind] = FailedRuns(newest.reason, newest.runs + 1, newest.run, newest.task)
    return sorted(found.values(), key=lambda each: -each.runs)


def end_reason(outcome: str | None, code: str | None, error: str | None) -> str | None:
    """Return in a line what ended a run that didn't end by itself: the code of its error and the first line of the
    message, of a traceback of Python the last line, which names the error; None where nothing did.
    """
    lines = (error or "").strip(" \r\n\t").split("\n")
    words = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    reason = ": ".join(part for part in (code, words.strip(" \r\t")) if part)
    return reason or (UNKNOWN if outcome == "failed" else None)
