"""`python -m benchmarks`: runs the subjects, prints each row as it is measured, writes the results."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import traceback
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.sizes import FULL, SHORT, SMALL, Sizes

HERE = Path(__file__).parent
DATA = HERE / ".data"
RESULTS = HERE / "results.md"
SUBJECTS = (
    "append",
    "writers",
    "reading",
    "rebuild",
    "counters",
    "search",
    "retrieval",
    "forks",
    "served pages",
    "exported pages",
    "long banks",
    "waits",
    "corrections",
    "review order",
    "descendants",
    "start-up",
    "tools",
    "graphs",
    "leakage",
    "rerun",
    "bisection",
    "what-if",
    "absorption",
    "parts",
    "recording",
    "recorded runs",
    "wrapped calls",
    "MCP",
    "rollouts",
    "sandbox",
    "simulated runs",
    "skills",
    "transcripts",
    "traces",
    "reports",
    "harness",
)


def main() -> int:
    """Parse the command line, run, report. Return the exit code: 0 whether or not goals were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures rbank-es beside peers.")
    parser.add_argument("--small", action="store_true", help="a look at whether everything runs, in a few minutes")
    parser.add_argument("--full", action="store_true", help="a million events, a hundred thousand items")
    parser.add_argument("--only", help=f"subjects, separated by commas: {', '.join(SUBJECTS)}")
    parser.add_argument("--keep", action="store_true", help=f"keep the data in {DATA.name}")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="where results go")
    options = parser.parse_args()
    chosen: list[str] = options.only.split(",") if options.only else [*SUBJECTS]
    if unknown := set(chosen) - set(SUBJECTS):
        parser.error(f"unknown subject: {', '.join(sorted(unknown))}")
    missing = [name for name in ("dspy", "eventsourcing", "simdjson") if find_spec(name) is None]
    if missing:
        parser.error(f"not installed: {', '.join(missing)}; run: pip install -e '.[agent,bench]'")
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir()
    try:
        broken = _run(FULL if options.full else SMALL if options.small else SHORT, chosen, options.output)
    finally:
        if not options.keep:
            shutil.rmtree(DATA, ignore_errors=True)
    if broken:
        print(f"broke off: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


def _run(sizes: Sizes, chosen: list[str], output: Path) -> list[str]:
    """Measure the chosen subjects, write the results, and return the subjects that broke off."""
    from benchmarks import (
        absorptions,
        append,
        bisection,
        corrections,
        cost_parts,
        counters,
        descendants,
        experiment_reports,
        exported_pages,
        forks,
        graphs,
        harness,
        leakage,
        long_banks,
        mcp_calls,
        otlp_traces,
        reading,
        rebuild,
        recorded_runs,
        recording,
        report,
        rerun,
        review_order,
        rollouts,
        sandboxes,
        search,
        search_times,
        served_pages,
        simulated_runs,
        skill_files,
        startup,
        suppositions,
        tools,
        transcript_imports,
        waits,
        wrapped_calls,
        writers,
    )
    from benchmarks.corpus import make_bank
    from benchmarks.measure import Row

    machine, begin = report.Machine.of(DATA), time.monotonic()
    plain = {
        "append": append.measure,
        "writers": writers.measure,
        "retrieval": search_times.measure,
        "long banks": long_banks.measure,
        "waits": waits.measure,
        "corrections": corrections.measure,
        "review order": review_order.measure,
        "descendants": descendants.measure,
        "start-up": startup.measure,
        "tools": tools.measure,
        "graphs": graphs.measure,
        "leakage": leakage.measure,
        "rerun": rerun.measure,
        "bisection": bisection.measure,
        "what-if": suppositions.measure,
        "absorption": absorptions.measure,
        "parts": cost_parts.measure,
        "recording": recording.measure,
        "recorded runs": recorded_runs.measure,
        "wrapped calls": wrapped_calls.measure,
        "MCP": mcp_calls.measure,
        "rollouts": rollouts.measure,
        "sandbox": sandboxes.measure,
        "simulated runs": simulated_runs.measure,
        "skills": skill_files.measure,
        "transcripts": transcript_imports.measure,
        "traces": otlp_traces.measure,
        "reports": experiment_reports.measure,
        "harness": harness.measure,
    }
    of_bank = {
        "reading": reading.measure,
        "rebuild": rebuild.measure,
        "counters": counters.measure,
        "search": search.measure,
        "forks": forks.measure,
        "served pages": served_pages.measure,
        "exported pages": exported_pages.measure,
    }
    rows: list[Row] = []
    broken: list[str] = []
    # In new folders, because ids follow from the seed: the cache knows how far the banks of the last time reached.
    bank = cache(partial(make_bank, Path(mkdtemp(dir=DATA)) / "bank", sizes.events))
    for name in SUBJECTS:
        if name not in chosen:
            rows.append(Row(name, "everything"))
            continue
        place, begun, spent = Path(mkdtemp(prefix=f"{name}-", dir=DATA)), time.monotonic(), sum(os.times()[:4])
        try:
            measured = plain[name](place, sizes) if name in plain else of_bank[name](place, sizes, bank())
            for row in measured:
                rows.append(row)
                print(report.line_of(row), flush=True)
        except Exception as error:
            # Told and gone past: one subject that fails must not cost hours of others.
            traceback.print_exc()
            rows.append(Row(name, f"broke off: {type(error).__name__}"))
            broken.append(name)
        shutil.rmtree(place)
        used = sum(os.times()[:4]) - spent
        print(f"{name} took {time.monotonic() - begun:.0f} s, {used:.0f} s of processors", file=sys.stderr, flush=True)
        # After each subject, because one that fails must not lose the others' results.
        report.write(output, rows, machine, sizes, (time.monotonic() - begin) / 60)
    print(f"wrote {output} after {(time.monotonic() - begin) / 60:.1f} minutes")
    return broken


if __name__ == "__main__":
    sys.exit(main())
