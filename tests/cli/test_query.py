"""`query` in SQL: the views are the answers' lists, a query only reads them, and it ends, whatever it asks for."""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from rbank_es import Bank, limits
from rbank_es.answers import Moment
from rbank_es.answers.shared.frames import flat_rows, schema_of
from rbank_es.errors import BadInput, LimitExceeded, QueryFailed
from rbank_es.exchange.sql_query import query_sql, sql_views
from rbank_es.limits import answer_limits
from tests.cli_runner import SAMPLE, digest_of, run


@pytest.fixture(scope="module")
def moment() -> Iterator[Moment]:
    with Bank.open(SAMPLE) as bank, bank.at() as opened:
        yield opened


@pytest.mark.parametrize("name", sql_views())
@pytest.mark.parametrize("point", ["HEAD~0", "200", "0"])
def test_a_view_has_the_rows_of_its_answer(name: str, point: str) -> None:
    with Bank.open(SAMPLE) as bank, bank.at(point) as then:
        found = query_sql(then.ask, f"SELECT * FROM {name}")
        answer = then.ask(name)
        rows = getattr(answer.whole() if hasattr(answer, "whole") else answer, "rows", None)
        row = sql_views()[name]
        if rows is not None:
            assert found.rows == flat_rows(schema_of(row), rows)
        assert found.columns == row.__struct_fields__ and not found.truncated


@pytest.mark.slow
def test_numbers_are_those_of_the_answers(moment: Moment) -> None:
    runs, items = list(moment.runs()), list(moment.items())
    counted = Counter((run.model, run.verdict) for run in runs)
    found = query_sql(moment.ask, "SELECT model, verdict, count(*) AS n FROM runs GROUP BY 1, 2")
    assert {row[:2]: row[2] for row in found.rows} == counted and len(counted) > 1
    tags = Counter(tag for item in items for tag in item.tags)
    found = query_sql(moment.ask, "SELECT t.value, count(*) AS n FROM items, json_each(items.tags) t GROUP BY 1")
    assert dict(found.rows) == tags and tags
    taught = {(run, item.id) for item in items for run in item.runs}
    joined = "SELECT r.run, i.id FROM items i, json_each(i.runs) d JOIN runs r ON r.run = d.value"
    assert set(query_sql(moment.ask, joined).rows) == taught
    [(calls, sure)] = query_sql(moment.ask, "SELECT sum(tool_calls), sum(sure) FROM runs").rows
    assert calls == sum(run.tool_calls for run in runs) and sure == sum(bool(run.sure) for run in runs)


REFUSED = {
    "INSERT INTO runs (run) VALUES ('x')": "it writes",
    "UPDATE runs SET verdict = 'success'": "it writes",
    "DELETE FROM items": "it writes",
    "DROP TABLE runs": "it writes",
    "CREATE TEMP TABLE x AS SELECT * FROM runs": "it writes",
    "VACUUM INTO 'stolen.sqlite'": "it writes",
    "ATTACH 'stolen.sqlite' AS stolen": "attaches",
    "PRAGMA hard_heap_limit = 0": "PRAGMA",
    "SELECT * FROM pragma_database_list": "neither a view",
    "SELECT sql FROM sqlite_schema": "neither a view",
    "BEGIN": "transaction",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n": "recurses",
    "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n": "recurses",
    "SELECT load_extension('/tmp/evil.so')": "load_extension",
    "SELECT zeroblob(1000000000)": "zeroblob",
    "SELECT length(randomblob(1000000000))": "randomblob",
    "SELECT group_concat(a.run || printf('%100000s', 'x')) FROM runs a, runs b": "16 MiB",
    "SELECT replace(printf('%9000000s', 'x'), ' ', 'long')": "16 MiB",
    "SELECT readfile('/etc/passwd')": "no such function",
    "SELECT 1; DROP TABLE runs": "one statement",
    "SELECT run FROM rnus": "no such table",
    "SELECT a.run, b.run FROM runs a, runs b": "two columns are called 'run'",
    "": "incomplete input",
    "SELECT '\0'": "the number 0",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_more_than_reading_is_refused_by_name(sql: str, moment: Moment, tmp_path: Path) -> None:
    before = digest_of(SAMPLE)
    with pytest.raises(BadInput, match=REFUSED[sql]):
        query_sql(moment.ask, sql)
    assert digest_of(SAMPLE) == before and not Path("stolen.sqlite").exists()


def test_a_query_of_any_length_is_refused_before_it_is_read(moment: Moment) -> None:
    with pytest.raises(LimitExceeded, match="characters of a query"):
        query_sql(moment.ask, "SELECT 1".ljust(limits.QUERY_TEXT_CHARS + 1))


DOUBLED = ", ".join(f"d{n} AS (SELECT a.x FROM d{n - 1} a, d{n - 1} b)" for n in range(1, 60))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM events a, events b, events c, events d",
        "SELECT sum(instr(printf('%8000000s', 'x'), printf('%4000000s', 'y'))) FROM events",
        f"WITH d0 AS (SELECT 1 AS x), {DOUBLED} SELECT count(*) FROM d59",
    ],
    ids=["many rows", "one long step", "compiled for ever"],
)
def test_what_never_ends_is_ended(sql: str, moment: Moment) -> None:
    began = time.monotonic()
    with pytest.raises(QueryFailed, match="longer than 1 s") as failed:
        query_sql(moment.ask, sql, timeout_s=1)
    assert failed.value.code == "timeout" and time.monotonic() - began < 10


@pytest.mark.slow
def test_what_takes_too_much_memory_is_ended(moment: Moment) -> None:
    sql = "SELECT a.seq || printf('%8000000s', 'x') AS long FROM events a ORDER BY long"
    with pytest.raises(QueryFailed) as failed:
        query_sql(moment.ask, sql)
    assert failed.value.code == "out_of_memory"


@pytest.mark.slow
def test_rows_and_characters_are_bounded(moment: Moment) -> None:
    few = query_sql(moment.ask, "SELECT seq FROM events ORDER BY seq", rows=3)
    assert few.rows == [(1,), (2,), (3,)] and few.truncated
    assert not query_sql(moment.ask, "SELECT seq FROM events LIMIT 3", rows=3).truncated
    long = query_sql(moment.ask, "SELECT printf('%15000000s', 'x') AS x FROM events")
    assert len(long.rows) == answer_limits.SQL_RESULT_CHARS // 15_000_000 and long.truncated


SQL = "SELECT run, verdict, tokens, cost_usd, started_at, sure FROM runs ORDER BY run"


@pytest.mark.slow
def test_json_csv_and_parquet_have_the_same_rows(tmp_path: Path, moment: Moment) -> None:
    rows = [(r.run, r.verdict, r.tokens, r.cost_usd, r.started_at, r.sure) for r in moment.runs(sort="run")]
    shown = run("query", SAMPLE, SQL, "--json", cwd=tmp_path).json
    assert (shown["position"], shown["truncated"]) == (moment.position, False)
    assert [tuple(each.values()) for each in shown["rows"]] == rows and shown["columns"] == list(shown["rows"][0])
    head, *printed = csv.reader(io.StringIO(run("query", SAMPLE, SQL, "--csv", cwd=tmp_path).out))
    assert head == shown["columns"] and [each[:2] for each in printed] == [[row[0], row[1] or ""] for row in rows]
    (tmp_path / "runs.sql").write_text(SQL)
    run("query", SAMPLE, "@runs.sql", "--parquet", "runs.parquet", cwd=tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "runs.parquet")
    assert [tuple(each.values()) for each in table.to_pylist()] == rows
    assert str(table.schema.field("tokens").type) in ("int64", "string")  # none of them may have any
