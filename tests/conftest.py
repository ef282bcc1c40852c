"""What holds for all tests: how hard laws are tried, the cache, descriptors that are left open."""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rbank_es.bank import Bank
from tests.effort import examples

# No example has its own deadline, and drawing it none either, because machines are busy at times.
settings.register_profile(
    "rbank-es", max_examples=examples(100), deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rbank-es")

TESTS = Path(__file__).resolve().parent
CACHE = Path(__file__).resolve().parents[1] / ".pytest_cache" / "rbank"
"""The cache of all tests: not that of whoever runs them. Parsed graphs stay from run to run."""
os.environ["RBANK_CACHE"] = str(CACHE)
os.environ["XDG_DATA_HOME"] = str(CACHE / "data")
if "PYTEST_XDIST_WORKER" not in os.environ:
    shutil.rmtree(CACHE / "banks", ignore_errors=True)

NEW_OBJECTS = 50_000
"""Objects after which garbage is looked for, where Python's own number is 700."""

DESCRIPTORS = 16
"""Descriptors that a module may leave open: those of processes and caches that later modules share."""

# To wait for the disk took 13 ms a test. A process that is killed leaves what it wrote, and power fails on simulated
# disks alone.
os.fsync = os.fdatasync = lambda descriptor: None

QUICK_CASES = 2
"""The cases of a table that the quick suite tries as a whole."""

ID_CHARS = 80
"""The longest text that is the name of a case. Names go from process to process several times a test."""


FOLDER_CHARS = 30
"""What the folder of a test keeps of its name."""
_FOLDERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for this test only. pytest's own looks through the folders of all tests before it to number the next."""
    name = re.sub(r"\W", "_", request.node.name)[:FOLDER_CHARS]
    return tmp_path_factory.mktemp(f"{name}{next(_FOLDERS)}", numbered=False)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case after the size of a long text: one of 17 MB costs seconds as a name, and nobody could select it."""
    return f"{argname} of {len(val):,}" if isinstance(val, str | bytes) and len(val) > ID_CHARS else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where all tests are collected, leave `QUICK_CASES` of each table quick, the first and one in the middle.

    Whoever names files or tests gets every case of them. What is tried of each file of the project is about that file.
    """
    if [Path(each).name for each in config.args] != config.getini("testpaths"):
        return
    tables: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if "[" in item.name and item.path.parent != TESTS and not item.get_closest_marker("every_case"):
            tables.setdefault((item.path, item.nodeid.partition("[")[0]), []).append(item)
    for cases in tables.values():
        quick = {index * len(cases) // QUICK_CASES for index in range(QUICK_CASES)}
        for index, item in enumerate(cases):
            if index not in quick:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What thousands of tests and the libraries under them keep is no garbage: looking through it takes long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """A new bank in the folder `bank` of the test. A test that needs another one has a fixture of this name, too."""
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as made:
        yield made


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for this test only: an erasure searches what all copies of a bank have in it, which other tests write."""
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "own-cache"))


@pytest.fixture(scope="module", autouse=True)
def _no_descriptors_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail where the tests of a module leave descriptors open: with a thousand of them, a later test fails."""
    before = set(_descriptors())
    yield
    if len(_descriptors().keys() - before) > DESCRIPTORS:
        gc.collect()  # only now, because it takes long: what a test forgot may be garbage
    # A bank in memory that has a name lives as long as the process, and so does the folder of its read models.
    found = ((number, name) for number, name in _descriptors().items() if "/rbank-es-memory-" not in name)
    left = [name for number, name in found if number not in before]
    assert len(left) <= DESCRIPTORS, f"{request.node.name} leaves {len(left)} descriptors open: {sorted(left)}"


def _descriptors() -> dict[str, str]:
    """The open descriptors of this process, and what each is of."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            found[entry.name] = str(entry.readlink())
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out because a server is not installed."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", ()))
    for reason in sorted({each[2] for each in skipped if isinstance(each, tuple) and "left out" in each[2]}):
        terminalreporter.write_line(reason.removeprefix("Skipped: "))
