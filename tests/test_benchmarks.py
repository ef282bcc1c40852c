"""The benchmarks: they are run by hand, so nothing else would tell that a name which they import is gone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

MODULES = sorted(path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("[a-z]*.py"))
PEERS = {"bm25s", "eventsourcing", "simdjson", "tantivy"}
"""Packages that only benchmarks need."""


@pytest.mark.parametrize("module", MODULES)
def test_a_benchmark_finds_all_that_it_imports(module: str) -> None:
    try:
        import_module(f"benchmarks.{module}")
    except ModuleNotFoundError as error:
        assert error.name in PEERS
