"""Judgments of runs as people see them: who judged, by which authority, and which one stands."""

from __future__ import annotations

from collections.abc import Sequence

from rbank_es.bank.event_texts import text_of
from rbank_es.bank.run_judgments import AUTHORITIES, RankedJudgment
from rbank_es.cli.shared.output import Cell, echo_heading, echo_table
from rbank_es.events import JudgmentOverruled


def print_judgments(judged: Sequence[RankedJudgment]) -> None:
    """Print all judgments of a run, in order, each with its authority and whether it stands."""
    echo_heading("verdicts")
    rows: list[list[Cell]] = []
    for event, rank, stands in judged:
        by, why = f"{event.judge}-{event.judge_version}", event.reason
        if isinstance(event, JudgmentOverruled):
            by, why = event.by, event.why or event.reason
        rows.append([event.seq, event.purpose, event.verdict, by, AUTHORITIES[rank], stands, text_of(why)])
    headers = ["seq", "purpose", "verdict", "judge", "authority", "stands", "reason"]
    echo_table(headers, rows, flexible=["reason", "judge"], none="not judged")
