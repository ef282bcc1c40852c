"""Why the runs of a loop ended, as commands print it: by kind, with what to do about the commonest."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rbank_es.cli.shared.output import Cell, echo_paragraph, echo_section
from rbank_es.events import RunFinished

if TYPE_CHECKING:
    from rbank_es.answers.endings import EndingRow


def endings_of(ends: Iterable[RunFinished]) -> tuple[EndingRow, ...]:
    """Return the ways in which runs ended, the commonest first."""
    from rbank_es.answers.endings import RunEnding, ending_rows

    return ending_rows(RunEnding(end.run, end.outcome, end.error_code) for end in ends)


def print_endings(rows: Sequence[EndingRow], bank: str | None) -> None:
    """Print why runs ended, and what to do about the commonest kind; nothing where all submitted an answer.

    `bank` is how commands name the one bank of all these runs.
    """
    commonest = next((row for row in rows if row.advice is not None), None)
    if commonest is None:
        return
    advice = str(commonest.advice)
    if bank is not None:
        advice = advice.replace("BANK RUN", f"{shlex.quote(bank)} {commonest.newest}")
    cells: list[list[Cell]] = [[row.runs, row.outcome or "no end", row.error_code, row.newest] for row in rows]
    echo_section("why runs ended", ["runs", "end", "error", "newest"], cells, flexible=["newest"])
    echo_paragraph(advice)
