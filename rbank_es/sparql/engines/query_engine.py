"""The protocol of query engines, the caps on their answers, and the rows that fit into these caps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from rbank_es import limits
from rbank_es.sparql.results import Answer, Cell, Form, Row, size_of, to_json


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a query may cost. `rows` is what the answer may hold: an engine asks for one more, and drops it."""

    rows: int = limits.QUERY_ROWS_DEFAULT
    size_bytes: int = limits.RESULT_BYTES
    cell_chars: int = limits.RESULT_CELL_CHARS
    timeout_s: float = limits.QUERY_TIME_S
    spent_s: float = 0.0
    """Seconds of `timeout_s` that the guard took before the engine got the query."""


class Dataset(NamedTuple):
    """The graphs that a query names: those after FROM, merged, are its default graph; others come after FROM NAMED."""

    merged: tuple[str, ...] = ()
    named: tuple[str, ...] = ()


ALL_GRAPHS = Dataset()
"""The dataset of a query that names no graph."""


class QueryEngine(Protocol):
    """A place where queries run; safe for several threads. It never guards: whatever reaches it is run."""

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        """Return the answer within the caps. Raises `QueryFailed`, and is ready for the next query then.

        `dataset` repeats what the query says with FROM, for engines that would have to parse it for that.
        """
        ...

    def close(self) -> None:
        """Close processes and connections. A closed engine opens again by itself when used."""
        ...


class CappedRows:
    """The rows of an answer that fit under its caps, in the order in which they come.

    `add` takes one row more than fits, and drops it: it proves that the answer is truncated. Bytes are those of
    `to_json`, so an answer of `RESULT_BYTES` fits into a text line of the log, whatever characters it is made of.
    """

    def __init__(self, variables: Sequence[str], caps: Caps) -> None:
        self.variables = tuple(variables)
        self.rows: list[Row] = []
        self.truncated: Literal["", "rows", "bytes"] = ""
        self.clipped = 0
        self._caps = caps
        self._left_bytes = caps.size_bytes - len(to_json(Answer(form="construct", variables=self.variables)).encode())

    def add(self, row: Row) -> bool:
        """Keep a row if it fits. Return whether more may be added: after one that didn't fit, none may."""
        if len(self.rows) >= self._caps.rows:
            self.truncated = "rows"
            return False
        kept = tuple(map(self._clip, row))
        self._left_bytes -= size_of(self.variables, kept)
        if self._left_bytes < 0:
            self.truncated = "bytes"
            return False
        # Count here: a value truncated in a row that is dropped is not in the answer.
        self.clipped += sum(cell is not given for cell, given in zip(kept, row, strict=True))
        self.rows.append(kept)
        return True

    def answer(self, form: Form) -> Answer:
        """Return the rows that were kept, as an answer."""
        return Answer(
            form=form, variables=self.variables, rows=tuple(self.rows), truncated=self.truncated, clipped=self.clipped
        )

    def _clip(self, cell: Cell | None) -> Cell | None:
        if cell is None or len(cell.value) <= self._caps.cell_chars:
            return cell
        return cell._replace(value=cell.value[: self._caps.cell_chars])
