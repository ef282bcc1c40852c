"""The errors that ended runs, as commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbank_es import limits
from rbank_es.cli.shared.output import Cell, echo, echo_section
from rbank_es.events.readable_text import count

if TYPE_CHECKING:
    from rbank_es.bank.failed_runs import FailedRuns


def print_failed_runs(failed: Sequence[FailedRuns]) -> None:
    """Print the errors that ended runs, each with its newest run; nothing where there are none."""
    rows: list[list[Cell]] = [[each.runs, each.reason, each.run] for each in failed[: limits.IDS_NAMED]]
    title = f"runs that ended in an error: {sum(each.runs for each in failed):,}"
    echo_section(title, ["runs", "error", "newest"], rows, flexible=["error", "newest"])
    if len(failed) > limits.IDS_NAMED:
        echo(f"and {count(len(failed) - limits.IDS_NAMED, 'other error')}; all: rbank-es runs BANK --outcome failed")
