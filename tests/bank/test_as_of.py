"""The past: what a view as of a position shows, where it gets it from, and that looking leaves no trace."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from rbank_es.errors import BadPoint, ProjectionError
from rbank_es.events import Event, MemoriesForgotten, MemoriesRestored, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.projections.read_models import ReadModels, rebuild
from tests.fakes import FakeLog, shown
from tests.projections.test_search import born
from tests.strategies import stamped

OWL = Item.make("Ask the owl", "The owl knows many taxa.", id="owl")
FOX = Item.make("Ask the fox", "The fox knows one of the taxa.", id="fox")
HEN = Item.make("Ask the hen", "The hen knows no taxa at all, but it counts.", id="hen")

EVENTS: list[Event] = stamped(
    [
        *born([OWL, FOX], "e1"),  # 1, 2
        RunStarted(run="a", task="Who knows?"),
        MemoriesForgotten(ids=("fox",), policy="bounded-1"),  # 4
        *born([HEN], "e2"),  # 5, 6
        MemoriesRestored(ids=("fox",)),  # 7
        RunJudged(run="a", purpose="learning", verdict="success", judge="j", judge_version="1", kind="check"),  # 8
    ]
)
LOG = FakeLog(EVENTS)
QUERY = "who knows the taxa"


@pytest.fixture
def models(tmp_path: Path) -> ReadModels:
    """Read models of the whole log, in a folder of their own."""
    models = ReadModels.open(tmp_path / "bank" / "projections.sqlite")
    models.catch_up(LOG)
    return models


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Asserts that no file of the folder is written, made or removed."""
    before = files_of(folder)
    yield
    assert files_of(folder) == before


def expected(seq: int, tmp_path: Path) -> tuple[dict[str, list[str]], object]:
    """What a file shows and finds that was replayed to the position."""
    path = tmp_path / f"{seq}.sqlite"
    rebuild(path, LOG, upto=seq)
    with ReadModels.open(path).live() as view:
        return shown(view), view.search(QUERY, 5)


@pytest.mark.slow
@pytest.mark.parametrize("only", [None, ["leakage", "memory_index"]])
def test_a_file_that_is_behind_is_caught_up_in_a_copy(tmp_path: Path, only: list[str] | None) -> None:
    """Also where its projections are at different positions. Positions that it holds are read in place."""
    models = ReadModels.open(tmp_path / "bank" / "p.sqlite")
    models.catch_up(LOG, upto=3)
    models.catch_up(LOG, upto=5, only=only)
    for seq in (2, 6, 8):
        with untouched(models.path.parent), models.as_of(seq, LOG) as view:
            assert (shown(view), view.search(QUERY, 5)) == expected(seq, tmp_path)


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut", "schema", "off the log"])
def test_a_file_that_cannot_be_trusted_is_not_read(models: ReadModels, tmp_path: Path, damage: str) -> None:
    """The answer is made from the log; the file is left as it is, for a writer to replace."""
    ruin(models.path, damage)
    log = FakeLog(stamped([*EVENTS[:6], *EVENTS[7:], EVENTS[6]])) if damage == "off the log" else LOG
    with untouched(models.path.parent), models.as_of(5, log) as view:
        assert (shown(view), view.search(QUERY, 5)) == expected(5, tmp_path)


def ruin(path: Path, damage: str) -> None:
    if damage == "garbage":
        path.write_bytes(b"this is no database" * 1_000)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5_000])
    elif damage == "schema":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE item_states")


def test_without_a_log_a_view_is_what_the_file_holds(models: ReadModels, tmp_path: Path) -> None:
    """Up to its position; beyond, and without a file, the error says what to run."""
    with models.live() as view:
        assert view.position == 8
    for missing, seq in ((models, 9), (ReadModels.open(tmp_path / "none.sqlite"), 0)):
        with pytest.raises(ProjectionError, match="run: rbank-es project BANK"):
            missing.as_of(seq)
    for nonsense in (-1, 9):
        with pytest.raises(BadPoint):
            models.as_of(nonsense, LOG)
