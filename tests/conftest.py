"""What holds for all tests: how hard laws are tried. Machines are busy at times, so no example has its own deadline."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

from hypothesis import settings

from tests.effort import examples

settings.register_profile("rbank-es", max_examples=examples(100), deadline=None, print_blob=True)
settings.load_profile("rbank-es")

CACHE = Path(__file__).resolve().parents[1] / ".pytest_cache" / "rbank"
"""The cache of all tests: not that of whoever runs them. Parsed graphs stay from run to run."""
os.environ["RBANK_CACHE"] = str(CACHE)
if "PYTEST_XDIST_WORKER" not in os.environ:
    shutil.rmtree(CACHE / "banks", ignore_errors=True)

NEW_OBJECTS = 50_000
"""Objects after which garbage is looked for, where Python's own number is 700."""


def pytest_collection_finish() -> None:
    """What thousands of tests and the libraries under them keep is no garbage: looking through it takes long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)
