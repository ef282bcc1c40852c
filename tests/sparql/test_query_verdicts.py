"""One table of queries and the verdict on each: what the guard refuses, with place and hint, accepts, or warns of.

`queries.jsonl` has a line a query: the code of its refusal or none, `in` what surroundings (local ones, unless told),
`at` line and column, words of its `hint` or of what it `says`; and of a query that is accepted its form, its variables,
what it `warns` of, and whether it `runs`. LONG stands for a text that no refusal may quote whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyoxigraph

from rbank_es.errors import QueryRefused
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.guard import Surroundings, check

ROWS = [json.loads(line) for line in (Path(__file__).parent / "queries.jsonl").read_text().splitlines()]
EX = "http://ex/"
TERMS = Vocabulary(
    (EX + name for name in ("Protein", "Gene", "ProteinFamily")),
    (EX + name for name in ("encodes", "encodedBy", "memberOf", "name")),
)
SURROUNDINGS = {
    "local": Surroundings(
        prefixes={"ex": EX}, graphs=frozenset({"http://ex/g", "http://ex/dir/h", "file:///data.ttl"})
    ),
    "remote": Surroundings(prefixes={"ex": EX}, remote=True),
    "terms": Surroundings(prefixes={"ex": EX}, vocabulary=TERMS),
}
QUOTED_CHARS = 600


def faults(row: dict[str, Any], surroundings: Surroundings) -> Iterator[str]:
    """Yield how the verdict on a query differs from its row."""
    expected = row.get("code", "")
    try:
        found = check(row["query"].replace("LONG", "x" * 5_000), surroundings, 10)
    except QueryRefused as error:
        if error.code not in expected.split(" or ") or not error.hint or len(str(error)) > QUOTED_CHARS:
            yield f"refused as {error.code}: {error}"
        if row.get("hint", "") not in error.hint or row.get("says", "") not in str(error):
            yield f"says: {error}"
        if [error.line, error.column] != row.get("at", [error.line, error.column]):
            yield f"at {error.line}, {error.column}"
        return
    if expected:
        yield "accepted"
    if (found.form, [*found.variables]) != (row.get("form", found.form), row.get("variables", [*found.variables])):
        yield f"{found.form} {found.variables}"
    if row.get("warns") not in (None, *(each.code for each in found.warnings)):
        yield f"warns of {found.warnings}"
    if row.get("runs"):
        # What it has no function for, it says when it runs: a RuntimeError. What it can't read is a SyntaxError.
        with suppress(RuntimeError):
            pyoxigraph.Store().query(found.query)


def test_each_query_has_its_verdict() -> None:
    wrong = [
        (row["query"], where, fault)
        for row in ROWS
        for where in row.get("in", ["local"])
        for fault in faults(row, SURROUNDINGS[where])
    ]
    assert not wrong
