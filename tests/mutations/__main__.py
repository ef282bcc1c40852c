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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest

from tests.mutations.changes import Change, changes_of, compiles, modules

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "log": ("rbank_es/log",),
    "law": ("rbank_es/law",),
    "policies": ("rbank_es/policies",),
    "projections": ("projections",),
    "bank": ("rbank_es/bank",),
    "judging": ("rbank_es/judging",),
    "extraction": ("rbank_es/extraction",),
    "tools": ("tools",),
    "guard": ("rbank_es/sparql/guard.py", "rbank_es/sparql/lint.py", "rbank_es/sparql/parser"),
    "sandbox": ("rbank_es/sandbox",),
}
TESTS = tuple(f"tests/{room}" for room in (*ROOMS, "sparql", "laws", "faults", "attacks", "loop", "rerun"))
"""Where tests of the core are."""
COMMANDS = "tests/cli"
"""Asked where all others have noticed nothing, because they take minutes."""
LIKELY_TESTS = 160
"""Tests asked first: of those that enter the changed function, the quickest and some of the others."""
TIMEOUT_S = 60
"""A change that makes one test hang counts as noticed after this long."""
WHOLE_S = 50 * TIMEOUT_S
"""The most for all tests of one call of pytest."""


def main() -> None:
    """Run the whole thing and print a table by room, then the changes that nothing noticed."""
    options = _options()
    drawn = draw(options.changes, options.seed)
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        copies = [_copy(Path(scratch) / str(number)) for number in range(options.jobs)]
        reach = Path(options.reach or Path(scratch) / "kept.jsonl")
        if not reach.exists():
            observe(copies[0], reach, options.jobs)
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
            while changes and (_function(changes[-1]) in taken or not compiles(ROOT, changes[-1])):
                changes.pop()
            if changes and len(chosen) < count:
                taken.add(_function(changes[-1]))
                chosen.append((room, changes.pop()))
    return chosen


def _function(change: Change) -> tuple[str, str]:
    return change.path, change.function


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


def run_tests(copy: Path, arguments: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=WHOLE_S)


def observe(copy: Path, reach: Path, jobs: int) -> None:
    """Run all tests once and keep which reach what, if they came to their end: half a record would be believed."""
    there = [tests for tests in TESTS if (copy / tests).is_dir()]
    made = copy / "reach.jsonl"
    arguments = ["-p", "tests.mutations.reach", "-n", str(jobs), "--dist", "loadgroup", *there]
    observed = run_tests(copy, arguments, REACH_FILE=str(made))
    if observed.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"The tests did not run to their end, so which of them reach what is not known:\n{observed.stdout}")
    print(observed.stdout.strip().splitlines()[-1], file=sys.stderr)
    shutil.move(made, reach)


def _tests_by_function(reach: Path) -> dict[str, list[str]]:
    """Return the tests that enter each function, the quickest first."""
    lines = [json.loads(line) for line in reach.read_text(encoding="utf-8").splitlines()]
    tests: dict[str, list[str]] = {}
    for line in sorted(lines, key=lambda line: line["s"]):
        for function in line["entered"]:
            tests.setdefault(function, []).append(line["test"])
    return tests


def _try(drawn: tuple[str, Change], free: Queue[Path], tests: dict[str, list[str]]) -> str:
    """Return `noticed`, `missed`, `unreached`, or `hung`: the tests came to no end in `WHOLE_S`."""
    _, change = drawn
    outcome, copy = "unreached", free.get()
    try:
        for asked in _asked(change, tests.get(_key(change), [])):
            outcome = _outcome(copy, change, asked) if asked else outcome
            if outcome == "noticed":
                break
    except subprocess.TimeoutExpired:
        outcome = "hung"
    finally:
        free.put(copy)
    print(f"{outcome} {change}", file=sys.stderr)
    return outcome


def _asked(change: Change, reaching: list[str]) -> Iterator[list[str]]:
    """Yield the tests to ask, the most likely first: most changes are noticed by the first of them."""
    likely = _spread(reaching)
    yield likely
    yield [test for test in reaching if test not in likely]
    # Nobody watches what runs in other processes.
    yield [COMMANDS] if reaching else _tests_that_name(change)


def _outcome(copy: Path, change: Change, tests: list[str]) -> str:
    """Return what the tests make of a change. One that fails without it too has noticed nothing: ask the others."""
    unsteady: list[str] = []
    while asked := [test for test in tests if test not in unsteady]:
        with _changed(copy, change):
            failing = _failing(copy, asked, unsteady)
        if not failing:
            return "missed"
        if not _failing(copy, failing):
            return "noticed"
        unsteady += failing
    return "unreached"


@contextmanager
def _changed(copy: Path, change: Change) -> Iterator[None]:
    path = copy / change.path
    source = path.read_text(encoding="utf-8")
    path.write_text(change.apply(source), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(source, encoding="utf-8")


def _failing(copy: Path, tests: list[str], without: Sequence[str] = ()) -> list[str]:
    """Run tests up to the first that fails, and return it. All of them, if they can't even be collected."""
    noted = copy / "failed"
    shutil.rmtree(noted, ignore_errors=True)
    arguments = ["-o", f"cache_dir={noted}", "-x", "--timeout", str(TIMEOUT_S), "-m", "slow or not slow"]
    left_out = [f"--deselect={test}" for test in without]
    if run_tests(copy, [*arguments, *left_out, *tests]).returncode in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        return []
    last_failed = noted / "v" / "cache" / "lastfailed"
    return list(json.loads(last_failed.read_bytes())) if last_failed.exists() else tests


def _tests_that_name(change: Change) -> list[str]:
    """Return the test files that name a change's module."""
    module = Path(change.path).stem
    paths = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if module in path.read_text(encoding="utf-8"))
    return [str(path.relative_to(ROOT)) for path in paths]


def _spread(tests: list[str]) -> list[str]:
    """Return at most `LIKELY_TESTS`: half of them the quickest, half from all the rest, evenly."""
    if len(tests) <= LIKELY_TESTS:
        return tests
    half = LIKELY_TESTS // 2
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
        seen = counts[room, "noticed"]
        missed = sum(counts[room, outcome] for outcome in ("missed", "unreached", "hung"))
        lines.append(f"| {room} | {seen + missed} | {seen} | {missed} |")
    lines += ["", "Not noticed:", ""]
    lines += [
        f"- {outcome}: `{change}`" for (_, change), outcome in zip(drawn, outcomes, strict=True) if outcome != "noticed"
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
