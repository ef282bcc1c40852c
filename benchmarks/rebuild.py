"""Rebuilding all read models from the log, with bitemporal rows: processor time and memory."""

from __future__ import annotations

import multiprocessing
import resource
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from benchmarks.corpus import make_bank
from benchmarks.measure import Goal, Row, Samples, duration, interleave, processor_timed
from benchmarks.reading import of_types
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.bank import READ_MODELS
from rbank_es.events.codec import decode_event
from rbank_es.law import RELEVANT, RESOLVED, fold
from rbank_es.projections import all_projections
from rbank_es.projections.builder import tune_for_building
from rbank_es.projections.read_models import rebuild
from rbank_es.projections.tokenizer import FTS_COLUMNS, fts_ddl

MIB = 1024 * 1024


SHARES = (100, 10, 1)
"""Sizes of the banks, as parts of the largest."""


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield rows for time and memory of a rebuild, the times over three sizes."""
    smaller = [make_bank(place / f"events-{share}", sizes.events // share) for share in SHARES if share > 1]
    found = [_rebuilt(place, each, sizes.rebuild_rounds) for each in (*smaller, bank)]
    ratios = [_over_floor(samples) for samples in found]
    decode, index, facts = (found[-1].median(name) for name in ("decode", "index", "fold"))
    yield Row(
        "rebuild",
        f"all read models of {' / '.join(f'{each.position:,}' for each in (*smaller, bank))} events, processor time",
        " / ".join(duration(samples.median("ours")) for samples in found),
        peer=f"{' / '.join(f'{ratio:.1f}' for ratio in ratios)} x floor",
        floor=f"decode {duration(decode)} + FTS5 alone {duration(index)}; the fold alone {duration(facts)}",
        goal=Goal("≤", 3, "x floor"),
        value=ratios[-1],
    )
    peak = _peak_of_rebuild(Path(bank.place), place / "child.sqlite") / MIB
    goal = Goal("≤", 1024, "MiB")
    yield Row("rebuild", "  peak memory of a process that rebuilds", f"{peak:,.0f} MiB", goal=goal, value=peak)


def _rebuilt(place: Path, bank: Bank, rounds: int) -> Samples:
    """Time a rebuild beside the decoding of its events, FTS5 over its texts, and the fold of its facts."""
    texts = place / "texts.sqlite"
    texts.unlink(missing_ok=True)
    _copy_texts(bank, texts)
    types = frozenset[str]().union(*(projection.reads for projection in all_projections()))
    facts = partial(bank.log.read, types=RELEVANT, resolve=RESOLVED)
    return interleave(
        {
            "ours": processor_timed(lambda: rebuild(place / "rebuilt.sqlite", bank.log)),
            "decode": processor_timed(lambda: deque(map(decode_event, of_types(bank, types)), maxlen=0)),
            "index": lambda: _index(place / "index.sqlite", texts),
            "fold": processor_timed(lambda: fold(facts())),
        },
        rounds,
    )


def _over_floor(samples: Samples) -> float:
    rounds = zip(*(samples.seconds[name] for name in ("ours", "decode", "index")), strict=True)
    return median(ours / (decode + index) for ours, decode, index in rounds)


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
        return processor_timed(lambda: _fill(connection))()


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
