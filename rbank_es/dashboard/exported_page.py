"""The exported page: one HTML file with the app, the rows of the bank and the events of its newest runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from rbank_es import __version__
from rbank_es.bank import Bank
from rbank_es.bank.health_report import MEASURES, SAMPLED
from rbank_es.dashboard import page_limits
from rbank_es.dashboard.answers.bank_answer import FLAGS, bank_facts, time_marks
from rbank_es.dashboard.answers.doubts_answer import doubts_of
from rbank_es.dashboard.app_script import app_page
from rbank_es.dashboard.exported_rows import EventFacts, exported_tables
from rbank_es.dashboard.exported_runs import run_blocks
from rbank_es.dashboard.packed_data import compact_json, gzipped
from rbank_es.dashboard.page_text import Html, element, minute, plural, shorten
from rbank_es.errors import CannotWrite
from rbank_es.projections.view import View
from rbank_es.system.files import write_replacing


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into an exported page: `runs` are ids of runs that go in whole beside the newest ones.

    `argument` is the bank as the page's commands name it; empty: by its name.
    """

    runs: tuple[str, ...] = ()
    prompts: bool = True
    argument: str = ""


class WrittenPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page on disk: its absolute path, its size in bytes, its runs, and those of them that are in it whole."""

    path: str
    size_bytes: int
    runs: int
    whole_runs: int


def write_page(
    bank: Bank, view: View, path: str | os.PathLike[str], options: ExportOptions | None = None
) -> WrittenPage:
    """Write the page of a bank as of a view to `path`, whole or not at all; a file that is there is replaced.

    Raises `CannotWrite` where the system refuses or `path` is no file.
    """
    data = page_data(bank, view, options or ExportOptions())
    content = exported_page(data, newest_runs(view))
    try:
        goal, size_bytes = write_replacing(path, [content], follow=True)
    except OSError as refused:
        raise CannotWrite(str(path), refused) from refused
    counts = data["in_file"]
    return WrittenPage(
        path=str(goal.absolute()), size_bytes=size_bytes, runs=counts["runs"], whole_runs=counts["whole"]
    )


def exported_page(data: dict[str, Any], newest: Sequence[dict[str, Any]]) -> bytes:
    """Return the page of the data as one HTML document, with the newest runs as a table for where no script runs."""
    # Blocks stay packed until one is opened, so they stand beside what is unpacked at once.
    at_once = data | {"blocks": [block["runs"] for block in data["blocks"]]}
    packed = {"packed": gzipped(at_once), "blocks": [block["packed"] for block in data["blocks"]]}
    page = app_page(data["bank"]["name"], _summary(data, newest), data=compact_json(packed))
    return page.encode("ascii", "xmlcharrefreplace")


def page_data(bank: Bank, view: View, options: ExportOptions) -> dict[str, Any]:
    """Return all that the page holds about a bank as of a view."""
    position, argument = view.position, options.argument or bank.name
    facts = EventFacts(bank, position)
    started = view.spans("run_starts", ("run", "task"))
    whole = whole_runs([str(run) for run, *_ in started], _failed(view), options.runs)
    worded = frozenset([*whole, *(str(run) for run, *_ in started[-page_limits.PAGE_LISTED_RUNS :])])
    tables = exported_tables(view, facts, worded)
    return {
        "v": 1,
        "release": __version__,
        "bank": bank_facts(bank, position, argument),
        "marks": time_marks(bank, view),
        "flags": FLAGS,
        "measures": [(name, words, name in SAMPLED) for name, words in MEASURES.items()],
        "in_file": {"runs": len(started), "worded": len(worded), "whole": len(whole), "prompts": options.prompts},
        **facts.by_position(),
        "tables": tables,
        "doubts": doubts_of(bank, view, argument),
        "blocks": list(run_blocks(bank, position, whole, prompts=options.prompts)),
    }


def whole_runs(runs: Sequence[str], failed: frozenset[str], named: Sequence[str]) -> list[str]:
    """Return the runs that go into the file with all their events, newest first: those named, then the newest, with
    half of the places kept for failures.
    """
    chosen = [run for run in dict.fromkeys(named) if run in set(runs)]
    newest = [run for run in reversed(runs) if run not in set(chosen)]
    half = page_limits.PAGE_WHOLE_RUNS // 2
    first = newest[:half]
    failures = [run for run in newest[half:] if run in failed][: page_limits.PAGE_WHOLE_RUNS - len(first)]
    kept = {*first, *failures}
    rest = [run for run in newest if run not in kept][: page_limits.PAGE_WHOLE_RUNS - len(kept)]
    wanted = {*chosen, *kept, *rest}
    return [run for run in reversed(runs) if run in wanted]


def _failed(view: View) -> frozenset[str]:
    rows = view.spans("verdicts", ("run", "purpose", "verdict"))
    return frozenset(
        str(run)
        for run, purpose, verdict, _, ended in rows
        if (purpose, verdict, ended) == ("learning", "failure", None)
    )


def newest_runs(view: View) -> list[dict[str, Any]]:
    """Return the newest runs as the page shows them where no script runs."""
    rows = sorted(view.rows("runs"), key=lambda row: -row["started_seq"])[: page_limits.PAGE_SUMMARY_RUNS]
    return [
        {name: row[name] for name in ("run", "task", "started_at", "imported_at", "verdict", "score")} for row in rows
    ]


def _summary(data: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Html:
    """Return what the page says before, or without, its script."""
    bank = data["bank"]
    runs = data["in_file"]["runs"]
    forked = f" Forked from {bank['forked_from']}." if bank["forked_from"] else ""
    said = f"As of position {data['marks']['head']:,}: {plural(runs, 'run')}.{forked}"
    without = "Without JavaScript this page shows the newest runs and no more."
    return element(
        "main",
        element("h1", shorten(bank["name"])),
        element("p", shorten(bank["purpose"] or "", page_limits.DASHBOARD_PURPOSE_CHARS)),
        element("p", said),
        element("noscript", element("p", without, class_="note")),
        _runs_table(rows) if rows else element("p", "This bank holds no runs yet."),
    )


def _runs_table(rows: Sequence[dict[str, Any]]) -> Html:
    head = element("tr", *(element("th", name, scope="col") for name in ("Task", "Judged", "Score", "Began (UTC)")))
    cells = (
        (shorten(row["task"] or row["run"]), row["verdict"] or "–", row["score"] or "–", _began(row)) for row in rows
    )
    body = (element("tr", *(element("td", cell) for cell in row)) for row in cells)
    caption = element("caption", f"The newest {plural(len(rows), 'run')}")
    return element("div", element("table", caption, element("thead", head), element("tbody", *body)), class_="scroll")


def _began(row: dict[str, Any]) -> str:
    imported = f", imported on {row['imported_at'][:10]}" if row["imported_at"] else ""
    return minute(row["started_at"]) + imported
