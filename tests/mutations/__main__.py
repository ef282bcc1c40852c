"""Change one thing in the core, run the tests that reach it, and see whether one fails.

    python -m tests.mutations --changes 160 --seed 1 --report mutations.md

Takes about half an hour on two processors, so it is no part of continuous integration. Changes are drawn evenly from
the rooms below, by the seed. A change that no test notices is printed whole: a person decides whether it matters.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests.mutations.changes import Change, changes_of, modules

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "log": ("rbank_es/log",),
    "state": ("rbank_es/state",),
    "policies": ("rbank_es/policies",),
    "projections": ("projections",),
    "consolidation": ("rbank_es/bank", "rbank_es/policies/consolidation.py"),
    "judging": ("rbank_es/judging",),
    "extraction": ("rbank_es/extraction",),
    "tools": ("tools",),
    "guard": ("rbank_es/sparql/guard", "rbank_es/sparql/parser"),
    "sandbox": ("rbank_es/sandbox",),
}
TESTS = tuple(f"tests/{room}" for room in (*ROOMS, "bank", "sparql", "laws", "faults", "attacks", "loop", "rerun"))
"""Where tests of the core are. Those of the command line would notice some more, each in seconds."""
MOST_TESTS = 160
"""Tests run for one change, the quickest first: those that enter the changed function."""
TIMEOUT_S = 300
"""A change that makes the tests hang counts as noticed after this long."""


def main() -> None:
    """Run the whole thing and print a table by room, then the changes that nothing noticed."""
    options = _options()
    drawn = draw(options.changes, options.seed)
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        copies = [_copy(Path(scratch) / str(number)) for number in range(options.jobs)]
        reach = Path(options.reach or Path(scratch) / "reach.jsonl")
        if not reach.exists():
            _observe(copies[0], reach, options.jobs)
        tests = _tests_by_function(reach)
        free: Queue[Path] = Queue()
        for copy in copies:
            free.put(copy)
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(lambda one: _try(one, free, tests), drawn))
    report = _report(options, drawn, outcomes)
    print(report)
    if options.report:
        Path(options.report).write_text(report + "\n", encoding="utf-8")


def draw(count: int, seed: int) -> list[tuple[str, Change]]:
    """Draw `count` changes, as many from each room as there are, and never two of one function."""
    chosen: list[tuple[str, Change]] = []
    random_ = random.Random(seed)
    by_room: dict[str, list[Change]] = {room: [] for room in ROOMS}
    for room, path in modules(ROOT, ROOMS):
        by_room[room] += changes_of(ROOT, path)
    for changes in by_room.values():
        random_.shuffle(changes)
    taken: set[tuple[str, str]] = set()
    while len(chosen) < count and any(by_room.values()):
        for room, changes in by_room.items():
            while changes and (key := (changes[-1].path, changes[-1].function)) in taken:
                changes.pop()
            if changes and len(chosen) < count:
                taken.add(key)
                chosen.append((room, changes.pop()))
    return chosen


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--changes", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--reach", help="keep the record of which test reaches what in this file, or use it")
    parser.add_argument("--report", help="write the report to this file too")
    return parser.parse_args()


def _copy(into: Path) -> Path:
    """Copy what the tests need, so that no change is ever made in the project itself."""
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "dist", "build", ".data"
    )
    shutil.copytree(ROOT, into, symlinks=True, ignore=ignored)
    return into


def _run(copy: Path, arguments: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S * 10)


def _observe(copy: Path, reach: Path, jobs: int) -> None:
    there = [tests for tests in TESTS if (copy / tests).is_dir()]
    arguments = ["-p", "tests.mutations.reach", "-n", str(jobs), "--dist", "loadgroup", *there]
    observed = _run(copy, arguments, REACH_FILE=str(reach))
    print(observed.stdout.strip().splitlines()[-1], file=sys.stderr)


def _tests_by_function(reach: Path) -> dict[str, list[str]]:
    """Return the tests that enter each function, the quickest first."""
    lines = [json.loads(line) for line in reach.read_text(encoding="utf-8").splitlines()]
    tests: dict[str, list[str]] = {}
    for line in sorted(lines, key=lambda line: line["s"]):
        for function in line["entered"]:
            tests.setdefault(function, []).append(line["test"])
    return tests


def _try(drawn: tuple[str, Change], free: Queue[Path], tests: dict[str, list[str]]) -> str:
    """Make a change in a copy, run its tests, undo it. Returns `noticed`, `hung`, `unreached` or `missed`."""
    _, change = drawn
    reaching = _spread(tests.get(_key(change), []))
    if not reaching:
        print(f"unreached {change}", file=sys.stderr)
        return "unreached"
    copy = free.get()
    path = copy / change.path
    source = path.read_text(encoding="utf-8")
    try:
        path.write_text(change.apply(source), encoding="utf-8")
        outcome = _outcome(copy, reaching)
    finally:
        path.write_text(source, encoding="utf-8")
        free.put(copy)
    print(f"{outcome} {change} ({len(reaching)} tests)", file=sys.stderr)
    return outcome


def _outcome(copy: Path, reaching: list[str]) -> str:
    arguments = ["-x", "--timeout", str(TIMEOUT_S // 5), "-m", "slow or not slow", *reaching]
    try:
        ended = _run(copy, arguments)
    except subprocess.TimeoutExpired:
        return "hung"
    return "missed" if ended.returncode == 0 else "noticed"


def _spread(tests: list[str]) -> list[str]:
    """Return at most `MOST_TESTS`: half of them the quickest, half from all the rest, evenly."""
    if len(tests) <= MOST_TESTS:
        return tests
    half = MOST_TESTS // 2
    rest = tests[half:]
    return tests[:half] + rest[:: -(-len(rest) // half)]


def _key(change: Change) -> str:
    """Return the function's file and first line, decorators included, as Python's code objects name it."""
    tree = ast.parse((ROOT / change.path).read_text(encoding="utf-8"))
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= change.line <= (node.end_lineno or 0)
    ]
    inner = max(around, key=lambda node: node.lineno)
    first = min([inner.lineno, *(decorator.lineno for decorator in inner.decorator_list)])
    return f"{change.path}:{first}"


def _report(options: argparse.Namespace, drawn: list[tuple[str, Change]], outcomes: list[str]) -> str:
    counts = Counter((room, outcome) for (room, _), outcome in zip(drawn, outcomes, strict=True))
    lines = [
        f"Mutation run: {len(drawn)} changes, seed {options.seed}.",
        "",
        "| room | changes | noticed | not noticed |",
        "|---|---:|---:|---:|",
    ]
    for room in ROOMS:
        seen = counts[room, "noticed"] + counts[room, "hung"]
        missed = counts[room, "missed"] + counts[room, "unreached"]
        lines.append(f"| {room} | {seen + missed} | {seen} | {missed} |")
    lines += ["", "Not noticed:", ""]
    lines += [
        f"- {outcome}: `{change}`"
        for (_, change), outcome in zip(drawn, outcomes, strict=True)
        if outcome in ("missed", "unreached")
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
