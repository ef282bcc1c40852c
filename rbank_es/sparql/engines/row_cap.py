"""Keeping rows of an answer within its caps, while they come in: whatever makes them is asked for no more than that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rbank_es.sparql.answers import Answer, Cell, Form, Row
from rbank_es.sparql.engines.query_engine import Caps
from rbank_es.sparql.results import size_of, to_json


class Keeper:
    """The rows that fit, in the order in which they come.

    `add` takes one row more than may be kept, and drops it: so `truncated` is true to fact. Bytes are those of
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
        """Keep a row if it fits; whether more may be added. Once something did not fit, nothing more may."""
        if len(self.rows) >= self._caps.rows:
            self.truncated = "rows"
            return False
        kept = tuple(map(self._clip, row))
        self._left_bytes -= size_of(self.variables, kept)
        if self._left_bytes < 0:
            self.truncated = "bytes"
            return False
        # Counted here, for what is cut in a row that is dropped says nothing about the answer.
        self.clipped += sum(cell is not given for cell, given in zip(kept, row, strict=True))
        self.rows.append(kept)
        return True

    def answer(self, form: Form) -> Answer:
        """What was kept."""
        return Answer(
            form=form,
            variables=self.variables,
            rows=tuple(self.rows),
            truncated=self.truncated,
            clipped=self.clipped,
        )

    def _clip(self, cell: Cell | None) -> Cell | None:
        if cell is None or len(cell.value) <= self._caps.cell_chars:
            return cell
        return cell._replace(value=cell.value[: self._caps.cell_chars])
