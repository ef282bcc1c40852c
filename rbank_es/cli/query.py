"""`query`: ask a bank in SQL over the lists of its answers, or in SPARQL over its provenance, as of any point."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rbank_es import limits
from rbank_es.cli.shared.answer_output import opened_reader
from rbank_es.cli.shared.arguments import NumberRange, open_at, outside, writable
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_json, echo_table, say, warn, write_bytes
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count
from rbank_es.limits import answer_limits
from rbank_es.system.extras import require
from rbank_es.system.input_file import read_given

if TYPE_CHECKING:
    from rbank_es.exchange.sql_query import SqlAnswer
    from rbank_es.sparql.data_source import Source
    from rbank_es.sparql.results import Answer, Cell

ADVICE = {
    "unbound_predicate": "name the predicate, or the subject",
    "string_filter_on_predicate": "name the predicate in the query",
}
"""Alternatives for people, by the code of a finding; that for an agent names a tool, which people don't have."""

PREDICATES = "SELECT ?p ?about { ?p a owl:ObjectProperty ; rdfs:comment ?about } lists the relations"

FILE = "@"
"""Beginning of an argument that names a file."""


@command(
    "query",
    "rbank-es query notes 'SELECT model, count(*) AS failed FROM runs WHERE verdict = \"failure\" GROUP BY model'",
    "rbank-es query notes@HEAD~50 @costs.sql --parquet costs.parquet",
    "rbank-es query notes --sparql 'SELECT ?title { ?i a rbank:Item ; prov:value ?title }' --limit 20",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("sql", metavar="[SQL|@FILE]", required=False)
@click.option("--sparql", metavar="TEXT|@FILE", help="Ask in SPARQL: SELECT, ASK, CONSTRUCT or DESCRIBE.")
@click.option(
    "--limit", type=click.IntRange(1, answer_limits.SQL_ROWS),
    help=f"Rows wanted. By default {limits.QUERY_ROWS_DEFAULT}; of SQL as a file, all.",
)  # fmt: skip
@click.option(
    "--timeout", metavar="S", type=NumberRange(0, limits.QUERY_TIME_MOST_S, min_open=True),
    default=limits.QUERY_TIME_S, show_default=True, help="Seconds that the query may take.",
)  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print the rows of SQL as CSV.")
@click.option("--parquet", metavar="FILE", type=click.Path(path_type=Path), help="Write the rows of SQL to a new file.")
def query(
    bank: str, sql: str | None, sparql: str | None, limit: int | None, timeout: float, as_csv: bool,
    parquet: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask a bank in SQL, one SELECT over its lists as of a point; without a query, show the views and their columns.

    A view has the name of a question (runs, items, events, leakage and more), a row for each row of its answer, and the
    columns of its JSON. Booleans are 1 and 0, times texts in UTC, lists their JSON: json_each(items.tags). A query only
    reads, in bounded time and memory, and without recursion.

    --sparql asks where items come from and what they led to: the bank's provenance in W3C PROV-O. The prefixes prov:
    and rbank: are known. Classes are rbank:Item, rbank:Run, rbank:Judgment, rbank:Extraction, rbank:Decision and more;
    rbank:judged_by, rbank:drawn_from, rbank:used_in and the other relations of the view lineage_edges lead from cause
    to effect; rbank:verdict, rbank:state and prov:value (a title, a task) say the rest. Queries pass the guard of every
    local graph: they only read, unknown terms are refused, and rows are limited.
    """
    if sum((as_json, as_csv, parquet is not None)) > 1:
        raise click.UsageError("--json, --csv and --parquet exclude each other.")
    if sparql is None:
        _ask_sql(bank, sql, limit, timeout, as_json, as_csv, parquet)
    elif sql is not None or as_csv or parquet is not None:
        raise click.UsageError("--sparql takes no SQL, and prints a table or --json.")
    else:
        _ask_sparql(bank, sparql, limit or limits.QUERY_ROWS_DEFAULT, timeout, as_json)


def _ask_sql(
    bank: str, sql: str | None, limit: int | None, timeout: float, as_json: bool, as_csv: bool, parquet: Path | None
) -> None:
    from rbank_es.exchange.sql_query import query_sql

    if sql is None:
        _print_views(as_json)
        return
    place = None
    if parquet is not None:
        require("pyarrow")
        place = writable(parquet)
    rows = limit or (answer_limits.SQL_ROWS if as_json or as_csv or parquet else limits.QUERY_ROWS_DEFAULT)
    with opened_reader(bank) as reader:
        if place is not None:
            outside(reader.bank, place)
        found = query_sql(reader.ask, _text(sql), rows=rows, timeout_s=timeout)
        named = {"bank": reader.name, "position": reader.position}
    if as_json:
        each = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        echo_json(named | {"columns": found.columns, "rows": each, "truncated": found.truncated})
    elif as_csv:
        from rbank_es.exchange.csv_text import csv_of

        write_bytes(csv_of(found.columns, [dict(zip(found.columns, row, strict=True)) for row in found.rows]).encode())
    elif place is not None:
        _write_parquet(found, place)
    else:
        echo_table(list(found.columns), found.rows, flexible=found.columns, none="nothing found")
    if found.truncated:
        say(f"there is more than {count(len(found.rows), 'row')}; ask for more with --limit, or use OFFSET")


def _print_views(as_json: bool) -> None:
    from rbank_es.exchange.sql_query import described_views

    columns = list(described_views())
    if as_json:
        echo_json([each._asdict() for each in columns])
    else:
        echo_table(list(columns[0]._fields), columns, flexible=["meaning"])


def _write_parquet(found: SqlAnswer, place: Path) -> None:
    """Write the file, whole. Raises `MissingExtra`."""
    from pyarrow import BufferOutputStream, parquet

    from rbank_es.answers.shared.frames import arrow_table
    from rbank_es.exchange.sql_query import answer_schema_of
    from rbank_es.system.files import write_replacing

    out = BufferOutputStream()
    parquet.write_table(arrow_table(*answer_schema_of(found)), out)
    write_replacing(place, [out.getvalue().to_pybytes()])
    say(f"wrote {count(len(found.rows), 'row')} to {place}")


def _ask_sparql(bank: str, sparql: str, limit: int, timeout: float, as_json: bool) -> None:
    from rbank_es.bank.memory_graph import MemoryGraph

    text = _text(sparql)
    opened, point = open_at(bank)
    with opened, MemoryGraph(opened, opened.resolve(point)) as graph:
        # The view is not used: opening it brings the read models up to the head, for the next command.
        opened.live(point).close()
        checked, answer = graph.source.query(text, rows=min(limit, limits.QUERY_ROWS), timeout_s=timeout)
        for finding in checked.warnings:
            advice = ADVICE.get(finding.code)
            warn(f"{finding.message}; {f'{advice}: {PREDICATES}' if advice else finding.alternative}")
        if as_json:
            echo_json({"bank": opened.name, "position": graph.position} | _facts(answer))
        else:
            _print(answer, graph.source)
        if answer.truncated:
            say(f"there is more than {count(len(answer.rows), 'row')}; ask for more with --limit, or use OFFSET")


def _text(given: str) -> str:
    """Return the query, read from a file where one is named. Raises `BadInput`."""
    if not given.startswith(FILE):
        return given
    path = Path(given.removeprefix(FILE))
    try:
        # A character takes at most 4 bytes; the guard counts them.
        return read_given(path, limits.QUERY_FILE_BYTES).decode()
    except OSError as error:
        raise BadInput(f"can't read the query in {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text (byte {error.start:,})") from None


def _facts(answer: Answer) -> dict[str, Any]:
    if answer.form == "ask":
        return {"boolean": answer.boolean}
    rows = [
        {name: _value(cell) for name, cell in zip(answer.variables, row, strict=True) if cell is not None}
        for row in answer.rows
    ]
    return {"variables": answer.variables, "rows": rows, "truncated": bool(answer.truncated)}


def _value(cell: Cell) -> dict[str, str]:
    facts = {"kind": cell.kind, "value": cell.value, "lang": cell.lang, "datatype": cell.datatype}
    return {name: fact for name, fact in facts.items() if fact}


def _print(answer: Answer, source: Source) -> None:
    if answer.form == "ask":
        echo("yes" if answer.boolean else "no")
        return
    prefixes = source.surroundings.prefixes
    rows = [[_shown(cell, prefixes) for cell in row] for row in answer.rows]
    echo_table(answer.variables, rows, flexible=answer.variables, none="nothing found")


def _shown(cell: Cell | None, prefixes: Any) -> str | None:
    if cell is None or cell.kind != "iri":
        return None if cell is None else cell.value
    for name, iri in prefixes.items():
        if name and cell.value.startswith(iri):
            return f"{name}:{cell.value.removeprefix(iri)}"
    return cell.value
