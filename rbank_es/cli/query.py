"""`query`: ask a bank's own provenance in SPARQL, as of any point in time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rbank_es import limits
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import NumberRange, open_at, view_at
from rbank_es.cli.shared.output import echo, echo_json, echo_table, say, warn
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count
from rbank_es.system.given_file import read_given

if TYPE_CHECKING:
    from rbank_es.sparql.results import Answer, Cell
    from rbank_es.sparql.source import Source

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
    "rbank-es query notes --sparql 'SELECT ?title { ?i a rbank:Item ; prov:value ?title }'",
    "rbank-es query notes@HEAD~50 --sparql @misled.rq --limit 20 --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--sparql", metavar="TEXT|@FILE", required=True, help="SELECT, ASK, CONSTRUCT or DESCRIBE.")
@click.option(
    "--limit", type=click.IntRange(1, limits.QUERY_ROWS), default=limits.QUERY_ROWS_DEFAULT, show_default=True,
    help="Rows wanted.",
)  # fmt: skip
@click.option(
    "--timeout", metavar="S", type=NumberRange(0, limits.QUERY_TIME_MOST_S, min_open=True),
    default=limits.QUERY_TIME_S, show_default=True, help="Seconds that the query may take.",
)  # fmt: skip
def query(bank: str, sparql: str, limit: int, timeout: float, as_json: bool) -> None:
    """Ask a bank where its items come from and what they led to: its provenance in W3C PROV-O, as of a point.

    The prefixes prov: and rbank: are known. Classes are rbank:Item, rbank:Run, rbank:Judgment, rbank:Extraction,
    rbank:Decision and more; rbank:judged_by, rbank:drawn_from, rbank:used_in and the other relations of the view
    lineage_edges lead from cause to effect; rbank:verdict, rbank:state and prov:value (a title, a task) say the rest.
    Queries pass the guard of every local graph: they only read, unknown terms are refused, and rows are limited.
    """
    from rbank_es.bank.memory_graph import MemoryGraph

    text = _text(sparql)
    opened, point = open_at(bank)
    with opened, MemoryGraph(opened, opened.resolve(point)) as graph:
        # The view is not used: opening it brings the read models up to the head, for the next command.
        view_at(opened, point).close()
        checked, answer = graph.source.query(text, rows=limit, timeout_s=timeout)
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
