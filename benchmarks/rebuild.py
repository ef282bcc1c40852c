"""Rebuilding all read models from the log, with bitemporal rows: time and memory."""

from __future__ import annotations

import multiprocessing
import resource
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.measure import Goal, Row, duration, interleave, per_second, timed
from benchmarks.reading import of_types
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.bank import READ_MODELS
from rbank_es.events.codec import decode_event
from rbank_es.projections import all_projections
from rbank_es.projections.builder import tune_for_building
from rbank_es.projections.read_models import rebuild
from rbank_es.projections.tokenizer import FTS_COLUMNS, fts_ddl

MIB = 1024 * 1024


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield rows for time and memory of a rebuild."""
    texts = place / "texts.sqlite"
    _copy_texts(bank, texts)
    types = frozenset[str]().union(*(projection.reads for projection in all_projections()))
    samples = interleave(
        {
            "ours": timed(lambda: rebuild(place / "rebuilt.sqlite", bank.log)),
            "decode": timed(lambda: deque(map(decode_event, of_types(bank, types)), maxlen=0)),
            "index": lambda: _index(place / "index.sqlite", texts),
        },
        sizes.rebuild_rounds,
    )
    rounds = zip(samples.seconds["ours"], samples.seconds["decode"], samples.seconds["index"], strict=True)
    ratios = sorted(ours / (decode + index) for ours, decode, index in rounds)
    ours, decode, index = (samples.median(name) for name in ("ours", "decode", "index"))
    yield Row(
        "rebuild",
        f"all read models of {bank.position:,} events",
        f"{duration(ours)} ({per_second(bank.position, ours)})",
        floor=f"decode {duration(decode)} + FTS5 alone {duration(index)}",
        goal=Goal("≤", 4, "x floor"),
        value=ratios[len(ratios) // 2],
    )
    peak = _peak_of_rebuild(Path(bank.place), place / "child.sqlite") / MIB
    goal = Goal("≤", 1024, "MiB")
    yield Row("rebuild", "  peak memory of a process that rebuilds", f"{peak:,.0f} MiB", goal=goal, value=peak)


def _copy_texts(bank: Bank, path: Path) -> None:
    """Copy the texts of the active items to a file of their own."""
    bank.project()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS bank", (str(bank.log.derived_directory / READ_MODELS),))
        connection.execute("CREATE TABLE texts (text INTEGER PRIMARY KEY, title, desc, content, tags)")
        connection.execute(
            "INSERT INTO texts SELECT c.text, c.title, c.desc, c.content, c.tags FROM bank.candidates c "
            "JOIN bank.item_states s ON s.text = c.text WHERE s.state = 'active' AND s.to_seq IS NULL ORDER BY c.text"
        )


def _index(path: Path, texts: Path) -> float:
    """Return the seconds of FTS5 alone over the same texts with the same settings: the floor."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tune_for_building(connection)
        connection.execute("ATTACH ? AS given", (str(texts),))
        connection.execute(fts_ddl("texts_fts", "texts"))
        return timed(lambda: _fill(connection))()


def _fill(connection: sqlite3.Connection) -> None:
    columns = ", ".join(FTS_COLUMNS)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO texts_fts (texts_fts, rank) VALUES ('automerge', 0)")
    connection.execute(f"INSERT INTO texts_fts (rowid, {columns}) SELECT text, {columns} FROM given.texts")
    connection.execute("COMMIT")


def _peak_of_rebuild(bank: Path, into: Path) -> int:
    """Return the peak memory, in bytes, of a process that only rebuilds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_rebuild, args=(bank, into, there))
    child.start()
    peak: int = here.recv()
    child.join()
    return peak


def _rebuild(bank: Path, into: Path, answer: Connection) -> None:
    with Bank.open(bank) as opened:
        rebuild(into, opened.log)
    answer.send(peak_bytes())


def peak_bytes() -> int:
    """Return the peak memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss, because a new process inherits that of its parent.
        words = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()
        return int(words[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
