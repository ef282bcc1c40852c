"""What a query gives back, whichever engine ran it, and its form in the store: SPARQL 1.1 Query Results JSON."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Form = Literal["select", "ask", "construct", "describe"]
TRIPLE = ("subject", "predicate", "object")
"""The variables of an answer whose rows are triples (construct, describe)."""


class Cell(NamedTuple):
    """One value. `lang` and `datatype` (an IRI; empty for plain strings) are for literals only."""

    kind: Literal["iri", "bnode", "literal"]
    value: str
    lang: str = ""
    datatype: str = ""


Row = tuple[Cell | None, ...]
"""A value per variable, None where it is unbound."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of variables (select), triples as rows of `TRIPLE` (construct, describe), or yes and no (ask)."""

    form: Form
    variables: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    boolean: bool | None = None
    truncated: Literal["", "rows", "bytes"] = ""
    """What the answer was cut for, where there is more than it holds."""
    clipped: int = 0
    """Values of which only the first `RESULT_CELL_CHARS` characters were kept."""
    duration_s: float = 0.0
