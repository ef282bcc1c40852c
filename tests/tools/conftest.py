"""What tests of tools share: a bank of their own, and a small ontology that is opened once a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.sparql.data_source import Source
from tests.tools.library import LibraryTools, open_library
from tests.tools.tool_sessions import bank_at


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """A new bank."""
    with bank_at(tmp_path / "bank") as made:
        yield made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The small library."""
    opened = open_library(tmp_path_factory.mktemp("library"))
    yield opened
    opened.close()


@pytest.fixture
def tools(bank: Bank, source: Source) -> LibraryTools:
    """Toolboxes over the bank and the library."""
    return LibraryTools(bank, source)
