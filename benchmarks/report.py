"""The report: rows printed as they are measured, and `results.md` with the machine and the method."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import SEED
from benchmarks.measure import NONE, NOT_RUN, Row
from benchmarks.sizes import Sizes
from rbank_es import __version__

HEADINGS = ("subject", "what", "ours", "peer", "floor", "goal", "measured", "met")

HOW = """\
- Contestants take turns, round by round; a first round is thrown away, so the page cache is warm for all. Times are
  medians of the rounds, ratios the medians of each round's ratio. Garbage is collected before each turn, and the
  collector stays on in all of them.
- The text is synthetic: words drawn independently from the docstrings of Python's standard library (seed {seed}).
  The mix of events and their sizes follow recorded runs: half are tool calls of about 400 bytes, a sixth calls of
  models of about 6 kB.
- **parts**: processor time of the named functions, without that of others among them. [floors.md](floors.md) says what
  stands between a goal that is missed and its floor.
- **append, writers**: all write the same bytes, and sync each append. Ours also checks, encodes, locks and sums; the
  floor, the SQLite table and the eventsourcing recorder are given the finished lines. The eventsourcing Application
  encodes too, with an aggregate of its own in each round. Every round has new texts: the log stores one only once.
- **reading**: SQLite's rows and our lines are decoded by the same decoder; eventsourcing decodes them with its own
  mapper and JSON transcoder, a thousand notifications at a time. Texts over 2 KiB are lines of their own in the log,
  which a replay passes by. *Inline in the peers*: the peers hold the same information in about as many bytes, each
  event whole, as who has no handles would do; they decode the texts, too. *Apart in all*: the peers hold the very same
  lines, and texts in a table that they need not read, whereas ours reads through their bytes. Ours checks the
  checksum, the order and the groups of all that it returns. pysimdjson parses every line of the log, texts included;
  the floor looks at how a line begins.
- **rebuild**: ours has every projection, its rows, indexes and checkpoints, and is synced. The floor is the decoding
  of the types that projections read, and FTS5 over the texts of the active items, each without the rest.
- **retrieval**: processor time, each question asked once, of a bank that holds nothing but items, whose words are drawn
  independently. Searches are in a process of their own, which has numpy loaded, as one has after a dozen searches. A
  fresh process has not: it runs `Bank.open`, `as_of` and one search. The peers have other analysers and no past. An
  append is measured in turn with a bank whose postings stand still. Shares are of labelled questions, with Wilson
  intervals; *unseen* and *never chosen by* are those by which no setting of the ranking was chosen (docs/retrieval.md).
- **search**: the same FTS5 index, the same expression, the same LIMIT. Ours also filters by source, breaks ties by id,
  and returns titles and descriptions.
- **review order**: simulated banks with planted errors, in which a person who is never wrong checks a tenth of the
  verdicts. Counted are the items that leave because of it. *Random* is the mean of many draws among all verdicts; who
  knows the model has the probability of each error, who knows the errors checks those on which most items rest. The
  banks of each model are resampled. No model of error is taken from a real judge.
- **start-up**: whole processes of the same interpreter, started in turn, with byte code cached as after an
  installation.
- **rerun**: in process, with dspy loaded and the query engine running; then with the ontology opened anew; then the
  command from the start of its process to its end, beside one that only imports dspy. The run has six steps, five of
  them with calls of tools.
- **recording**: the executor `rlm`, its run recorded and synced event by event, beside dspy.RLM as it is. Both have the
  same scripted model, the same tool, and the same sandbox, in which the code really runs and which is never restarted
  meanwhile; each run has prompts of its own. Told are the median of each pair's difference, between what it lies in
  95 % of resamplings of the pairs, and the difference of the fastest runs.
- **wrapped calls**: an OpenAI client that `run.wrap` returned, beside the same client, in turn. The server is in this
  process and answers at once; each call is recorded and synced before its answer is there.
- **MCP**: the protocol's own client and its two servers, of the bank and of a tool that echoes, over standard input and
  output, question by question in turn. A recall searches, begins a run and syncs twice. A start is a whole process.
- **rollouts**: the loop with several rollouts, in threads, beside the loop with one, without judging. *In sandboxes
  that run*: they are kept between the runs. *From a pool*: each rollout takes a sandbox that is ready, and the pool at
  once starts another, which takes a processor a second or more.
- **harness**: both have the same tasks, script, and code that runs in this process. Trials side by side are run by the
  command, from its start to its end, with a server in this process for a model and an executor without a sandbox.
- **sandbox**: a start is the process of Deno, Pyodide, and our prelude, from a filled cache and without a network.
"""


class Machine(NamedTuple):
    """Facts about the machine that runs the benchmarks."""

    facts: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, data: Path) -> Machine:
        """Return the facts of this machine and of the file system that holds `data`."""
        packages = (f"{name} {version(name)}" for name in ("msgspec", "dspy", "eventsourcing", "pysimdjson"))
        load = " ".join(f"{number:.2f}" for number in os.getloadavg())
        return cls(
            (
                ("date", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
                ("processor", f"{_processor()}, {os.cpu_count()} cores"),
                ("memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"),
                ("file system", _file_system(data)),
                ("system", f"{platform.system()} {platform.release()}, load at the start {load}"),
                (
                    "software",
                    f"rbank-es {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
                ),
                ("packages", ", ".join(packages)),
            )
        )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2] for line in info.read_text().splitlines() if line.startswith("model name")]
        return names[0].strip() if names else platform.machine()
    return platform.processor() or platform.machine()


def _file_system(path: Path) -> str:
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    rows = (line.split()[:3] for line in mounts.read_text().splitlines())
    over = [(place, kind) for _, place, kind in rows if path.resolve().is_relative_to(place)]
    return max(over, key=lambda mount: len(mount[0]))[1] if over else "unknown"


def line_of(row: Row) -> str:
    """Return a row as a line for the terminal."""
    measured = f"  [{_measured(row)}; goal {row.goal}: {row.verdict}]" if row.goal else ""
    return f"{row.subject:9} {row.what}: {row.ours} | {row.peer} | {row.floor}{measured}"


def write(path: Path, rows: Sequence[Row], machine: Machine, sizes: Sizes, minutes: float) -> None:
    """Write the results of a run."""
    path.write_text("\n".join(_lines(rows, machine, sizes, minutes)) + "\n")


def _lines(rows: Sequence[Row], machine: Machine, sizes: Sizes, minutes: float) -> Iterable[str]:
    yield f"# Benchmarks, {sizes.form} form\n"
    option = "" if sizes.form == "short" else f" --{sizes.form}"
    yield f"Written by `python -m benchmarks{option}` in {minutes:.1f} minutes."
    yield f"A log of {sizes.events:,} events; rounds and sizes: `{_sizes(sizes)}`.\n"
    if sizes.form != "full":
        yield "The goals are set for 1,000,000 events and 100,000 items, so verdicts on reading, rebuild, counters and"
        yield "search hold for this size only; `python -m benchmarks --full` measures the size that they are set for.\n"
    yield from (f"- {name}: {value}" for name, value in machine.facts)
    yield ""
    yield from _shortfalls(rows)
    yield "## Measured\n"
    yield f"| {' | '.join(HEADINGS)} |"
    yield f"|{'---|' * len(HEADINGS)}"
    yield from (f"| {' | '.join(_cells(row))} |" for row in rows)
    yield "\n## What is counted\n"
    yield HOW.format(seed=SEED)


def _sizes(sizes: Sizes) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes._asdict().items() if name != "form")


def _shortfalls(rows: Sequence[Row]) -> Iterable[str]:
    short = [row for row in rows if row.goal and row.value is not None and not row.goal.met(row.value)]
    left_out = [row for row in rows if row.ours == NOT_RUN]
    yield "## What falls short\n"
    yield from (f"- {row.subject}: {row.what.strip()}: {_measured(row)}, the goal is {row.goal}" for row in short)
    yield from (f"- {row.subject}: {row.what.strip()}: not run" for row in left_out)
    if not short and not left_out:
        yield "Nothing: every goal was met."
    yield ""


def _cells(row: Row) -> Sequence[str]:
    goal = str(row.goal) if row.goal else NONE
    return row.subject, row.what.strip(), row.ours, row.peer, row.floor, goal, _measured(row), row.verdict


def _measured(row: Row) -> str:
    if row.goal is None or row.value is None:
        return row.verdict
    digits = f"{row.value:.2f}" if row.value < 10 else f"{row.value:,.0f}"
    return f"{digits} {row.goal.unit}"
