"""Start-up: the whole processes of `rbank-es append` of one event, of `rbank-es hook` at a prompt, and of a search."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.corpus import Corpus, groups, make_item_bank
from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.peers import Table
from benchmarks.sizes import Sizes
from rbank_es import Bank

HOME = Path(__file__).parent.parent
HOOK_ITEMS = 10_000

_TABLE = """
import json, sqlite3, sys, uuid
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA synchronous = FULL")
body = json.dumps(json.load(open(sys.argv[2])))
connection.execute("INSERT INTO events (id, type, body) VALUES (?, ?, ?)", (str(uuid.uuid4()), "tool_called", body))
"""
# The command itself, with time enough on a busy machine: a hook that is late does less.
_HOOK = """
import sys
from rbank_es.cli.shared import main
from rbank_es.agents import hook_process
hook_process.main(["--bank", sys.argv[1]], time_s=60)
"""
# A search, then the seconds of the processor that it took, and those of them in which it imported modules.
_SEARCH = """
import sys, time
from importlib import _bootstrap
load, inside, spent = _bootstrap._find_and_load, False, 0.0
def measured(*given):
    global inside, spent
    if inside:
        return load(*given)
    inside, begin = True, time.process_time()
    try:
        return load(*given)
    finally:
        inside, spent = False, spent + time.process_time() - begin
_bootstrap._find_and_load = measured
begin = time.process_time()
from rbank_es.cli.shared import main
main.main(["search", *sys.argv[1:]])
print(time.process_time() - begin, spent)
"""
_LIBRARY = """
import json, sys
from pathlib import Path
from benchmarks.peers import LibraryApplication
application = LibraryApplication(Path(sys.argv[1]))
application.append([json.load(open(sys.argv[2]))])
"""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the commands beside the bare interpreter, and a search beside what it imports."""
    yield _appended(place, sizes)
    yield _hooked(place, sizes)
    yield from _searched(place, sizes)


def _appended(place: Path, sizes: Sizes) -> Row:
    Bank.create(place / "bank").close()
    Table(place / "table.sqlite").close()
    event = place / "event.json"
    given = next(e for group in groups(1) for e in group if e.__struct_config__.tag == "tool_called")
    event.write_bytes(msgspec.json.encode(given))
    python = [sys.executable]
    commands = {
        "ours": [*_command(), "append", str(place / "bank"), str(event)],
        "bare": [*python, "-I", "-c", "pass"],
        "table": [*python, "-I", "-c", _TABLE, str(place / "table.sqlite"), str(event)],
        "library": [*python, "-c", _LIBRARY, str(place / "library.sqlite"), str(event)],
    }
    contestants = {name: timed(partial(_run, command)) for name, command in commands.items()}
    samples = interleave(contestants, sizes.start_rounds)
    took = {name: duration(samples.median(name)) for name in commands}
    return Row(
        "start-up",
        "rbank-es append of one event, whole process",
        took["ours"],
        f"standard library and an SQLite row {took['table']}; eventsourcing Application {took['library']}",
        f"python -I -c pass {took['bare']}",
        Goal("≤", 6, "x floor"),
        samples.ratio("ours", "bare"),
    )


def _hooked(place: Path, sizes: Sizes) -> Row:
    """Return the processor time of a hook that answers a prompt, which a person waits for, beside the interpreter's."""
    made = make_item_bank(place / "items", HOOK_ITEMS)
    made.project()
    made.close()
    prompt = Corpus().queries(1)[0]
    around = {"XDG_DATA_HOME": str(place / "data"), "XDG_CONFIG_HOME": str(place / "config")}
    hook, bare = [sys.executable, "-c", _HOOK, str(place / "items")], [sys.executable, "-c", "pass"]
    took: dict[str, list[float]] = {"hook": [], "bare": []}
    for number in range(sizes.start_rounds):
        # Each of a session of its own, because the same prompt twice is answered once.
        event = {"hook_event_name": "UserPromptSubmit", "session_id": str(number), "cwd": "/", "prompt": prompt}
        took["hook"].append(_processor_s(hook, msgspec.json.encode(event), around))
        took["bare"].append(_processor_s(bare, b"", around))
    ours, floor = median(took["hook"]), median(took["bare"])
    return Row(
        "start-up",
        f"rbank-es hook at a prompt, {HOOK_ITEMS:,} items, processor time of the whole process",
        duration(ours),
        floor=f"python -c pass {duration(floor)}",
        goal=Goal("≤", 100, "ms over floor"),
        value=1_000 * (ours - floor),
    )


def _searched(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the processor time of a search in a process of its own, by size of the bank, and that of its imports."""
    query, counts = Corpus().queries(1)[0], [sizes.items // share for share in (100, 10, 1)]
    over, imports = list[float](), list[float]()
    for count in counts:
        bank = place / f"searched-{count}"
        made = make_item_bank(bank, count)
        made.project()
        made.close()
        took = [_search_s(bank, query) for _ in range(sizes.start_rounds)]
        over.append(median(whole - imported for whole, imported in took))
        imports += [imported for _, imported in took]
    floor, bare = (
        median(_processor_s([sys.executable, "-c", code], b"", {}) for _ in range(sizes.start_rounds))
        for code in ("import msgspec, sqlite3, click", "pass")
    )
    yield Row(
        "start-up",
        f"rbank-es search over its imports, banks of {' / '.join(f'{count:,}' for count in counts)} items",
        " / ".join(map(duration, over)),
        floor=f"its imports {duration(median(imports))}",
        goal=Goal("≤", 60, "ms"),
        value=1_000 * over[-1],
    )
    yield Row(
        "start-up",
        "the imports of a search",
        duration(median(imports)),
        floor=f"msgspec, sqlite3 and click {duration(floor - bare)}",
        goal=Goal("≤", 1.5, "x floor"),
        value=median(imports) / (floor - bare),
    )


def _search_s(bank: Path, query: str) -> tuple[float, float]:
    """Return the processor time of a search in a process of its own, and the part of it in which it imports."""
    shown = subprocess.run(
        [sys.executable, "-c", _SEARCH, str(bank), query],
        check=True, stdout=subprocess.PIPE, cwd=HOME, text=True, env=_environment(),
    )  # fmt: skip
    whole, imported = map(float, shown.stdout.splitlines()[-1].split())
    return whole, imported


def _processor_s(command: Sequence[str], given: bytes, around: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    around = _environment() | {**around}
    subprocess.run(command, check=True, input=given, stdout=subprocess.DEVNULL, cwd=HOME, env=around)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _command() -> list[str]:
    installed = Path(sys.executable).with_name("rbank-es")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "rbank_es"]


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=HOME, env=_environment())


def _environment() -> dict[str, str]:
    # Write byte code as an installation does, because this shell may forbid it.
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
