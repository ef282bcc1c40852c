"""The database for people: whole, keyed, searchable, described; its numbers are those of the fold."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import MemoriesForgotten
from rbank_es.exchange.people_database import VIEWS, write_people_database
from tests.cli_runner import SAMPLE, run


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("people") / "sample.sqlite"
    with Bank.open(SAMPLE) as bank:
        assert write_people_database(bank, place) == bank.position
    return place


def rows(place: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(place)) as connection:
        return connection.execute(sql).fetchall()


def test_every_foreign_key_leads_to_a_row_and_every_table_of_things_has_a_key(written: Path) -> None:
    assert rows(written, "PRAGMA foreign_key_check") == []
    referring = rows(
        written,
        'SELECT DISTINCT m.name, f."table" FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f ORDER BY 1, 2',
    )
    assert {("uses", "items"), ("uses", "runs"), ("verdicts", "runs"), ("support", "candidates")} <= set(referring)
    assert rows(written, "SELECT count(*) FROM pragma_table_info('items') WHERE pk") == [(1,)]


def test_every_column_of_every_table_and_view_has_a_unit_and_a_meaning(written: Path) -> None:
    there = rows(
        written,
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "
        "WHERE m.type IN ('table', 'view') AND m.name NOT LIKE '%fts%' AND m.name <> 'columns'",
    )
    described = rows(written, "SELECT table_name, column_name FROM columns WHERE unit <> '' AND meaning <> ''")
    assert set(described) == set(there) and set(VIEWS) <= {table for table, _ in described}


def test_items_and_runs_are_found_by_word_forms(written: Path) -> None:
    found = rows(written, "SELECT count(*) FROM items_fts WHERE items_fts MATCH 'lighthouses'")
    assert found == rows(written, "SELECT count(*) FROM items_fts WHERE items_fts MATCH 'lighthouse'") != [(0,)]
    assert rows(written, "SELECT count(*) FROM runs_fts WHERE runs_fts MATCH 'taller'") != [(0,)]


@pytest.mark.slow
def test_only_such_a_file_is_replaced_unasked_and_it_is_current(tmp_path: Path) -> None:
    place = tmp_path / "b.sqlite"
    with Bank.create(tmp_path / "b") as bank:
        item = bank.remember("Sort by height", "By the tower.", src="success").item
        write_people_database(bank, place)
        bank.append(MemoriesForgotten(ids=(item,), policy="bounded-1"))
        write_people_database(bank, place)
        assert rows(place, "SELECT state FROM items") == [("forgotten",)]
        for other in ("mine", ""):
            place.write_text(other)
            with pytest.raises(BadInput, match="another kind"):
                write_people_database(bank, place)
            assert place.read_text() == other
        write_people_database(bank, place, force=True)
    assert rows(place, "SELECT count(*) FROM items") == [(1,)]


@pytest.mark.slow
def test_sqlite_utils_opens_and_searches_it(written: Path) -> None:
    tool = [sys.executable, "-m", "sqlite_utils"]
    found = subprocess.run([*tool, "search", written, "items", "focal"], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)[0]["id"]
    schema = subprocess.run([*tool, "schema", written, "uses"], capture_output=True, text=True, check=True).stdout
    assert 'REFERENCES "items"' in schema or "REFERENCES [items]" in schema


@pytest.mark.slow
def test_datasette_serves_it(written: Path) -> None:
    """In a process of its own, because it changes the warnings and the event loop of the one that imports it."""
    for path, shown in (
        ("/sample/items.json?_search=focal&_shape=objects", "A focal height"),
        ("/sample/uses?_facet=item", "/sample/runs/"),
        ("/sample/columns.json?_shape=objects&table_name=runs&column_name=cost_usd", "US dollars"),
        ("/sample/failed_runs.json?_shape=objects", "outcome"),
    ):
        tool = [sys.executable, "-m", "datasette", str(written), "--get", path]
        assert shown in subprocess.run(tool, capture_output=True, text=True, check=True).stdout, path


@pytest.mark.slow
def test_the_command_writes_it(tmp_path: Path) -> None:
    run("project", str(SAMPLE), "--into", "out.sqlite", cwd=tmp_path)
    assert rows(tmp_path / "out.sqlite", "SELECT bank FROM bank") == [("sample",)]
