"""A plugin of pytest that writes down which functions each test enters, in its own process.

The file named by `REACH_FILE` gets a JSON line a test that passes: its id, its seconds, the functions as
`path:first line`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = tuple(f"{ROOT}/{name}/" for name in ("rbank_es", "lab", "tools", "projections"))
_seen: set[CodeType] = set()
"""What the test of this moment entered. One set for all: threads of a fixture serve many tests, and outlive some."""
_unproven = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch one test, its fixtures included."""
    _seen.clear()
    began = perf_counter()
    threading.setprofile(_enter)
    sys.setprofile(_enter)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        if not item.stash.get(_unproven, False):
            assert item.parent is not None
            # Not its own `nodeid`, to which pytest-xdist appends the test's group: pytest finds no such test.
            _write(f"{item.parent.nodeid}::{item.name}", perf_counter() - began)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Leave out a test that fails or is skipped without any change: it can notice none."""
    report = yield
    item.stash[_unproven] = item.stash.get(_unproven, False) or not report.passed
    return report


def _enter(frame: FrameType, event: str, _: object) -> None:
    if event == "call":
        _seen.add(frame.f_code)


def _write(test: str, took_s: float) -> None:
    seen = _seen.copy()  # at once: a thread of the test may still be entering functions
    entered = sorted({f"{path}:{code.co_firstlineno}" for code in seen if (path := path_of(code))})
    line = json.dumps({"test": test, "s": round(took_s, 3), "entered": entered}) + "\n"
    with Path(os.environ["REACH_FILE"]).open("a", encoding="utf-8") as file:
        file.write(line)  # one write a line: several workers append


def path_of(code: CodeType) -> str | None:
    path = os.path.realpath(code.co_filename)  # `rbank_es/tools` is a link to `tools`
    return path.removeprefix(f"{ROOT}/") if path.startswith(_PACKAGES) else None
