"""Reports: the files with the outcome of an experiment, each a pure function of its data.

    results/runs.jsonl, results/runs.csv    a row for each run
    results/conditions.json                 metrics, contrasts, curves; trials and runs left out
    report.html                             one page, for people; it links to the pages of trials (`trial_pages`)

No clock and no place is in them: the same banks, suite and definition give the same bytes, wherever they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.errors import CannotWrite
from rbank_es.exchange.csv_text import csv_of
from rbank_es.lab.experiment_folder import ExperimentData
from rbank_es.lab.experiment_results import Results, results_of, sorted_rows
from rbank_es.lab.report_page import page_of
from rbank_es.lab.run_rows import TrialRun
from rbank_es.lab.trial_place import made_directory
from rbank_es.system.files import write_replacing

FOLDER = "results"
ROWS, SHEET, CONDITIONS, PAGE = (
    f"{FOLDER}/runs.jsonl", f"{FOLDER}/runs.csv", f"{FOLDER}/conditions.json", "report.html",
)  # fmt: skip
"""The files of a report, by their places in the folder of the experiment."""


def report_files(data: ExperimentData) -> dict[str, bytes]:
    """Return the content of each file of a report by its place. Raises `MissingExtra` if scipy is not installed."""
    results, rows = results_of(data), sorted_rows(data)
    return {
        ROWS: b"".join(msgspec.json.encode(row) + b"\n" for row in rows),
        SHEET: csv_of(TrialRun.__struct_fields__, [_cells(row) for row in rows]).encode(),
        CONDITIONS: conditions_json(results),
        PAGE: page_of(results, rows).encode(),
    }


def conditions_json(results: Results) -> bytes:
    """Return results as JSON, to be read by programs and by `git diff`."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def _cells(row: TrialRun) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(row, builtin_types=())
    found = [f"{each.item} {each.kind} {each.run}".rstrip() for each in row.contamination]
    return {name: [*value] if isinstance(value, tuple) else value for name, value in facts.items()} | {
        "contamination": found
    }


def write_report(data: ExperimentData, folder: Path) -> Sequence[Path]:
    """Write the files of a report into the folder of its experiment, each whole, and return their places.

    Raises `BadInput` for a link in the place of the folder of results, `CannotWrite` where the system refuses.
    """
    files = report_files(data)
    try:
        made_directory(folder / FOLDER)
        for name, content in files.items():
            write_replacing(folder / name, [content])
    except OSError as refused:
        raise CannotWrite(str(folder), refused) from refused
    return [folder / name for name in files]
