"""Running a query for an agent: arguments checked, a handle out, and a word on what an empty answer may mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es import limits
from rbank_es.events import MemoryProposed
from rbank_es.sparql.results import Answer
from rbank_es.tools.lookup.empty_results import hint_for
from rbank_es.tools.memory.query_extractor import QueryEvidence, proposal
from rbank_es.tools.runtime.answer_budget import UNBOUNDED, Room, within
from rbank_es.tools.runtime.reply import Reply, ToolError
from rbank_es.tools.runtime.row_pages import clip, shown_names, value_of
from rbank_es.tools.runtime.tool_session import Desk

if TYPE_CHECKING:
    from rbank_es.sparql.guard.guard import Checked
    from rbank_es.sparql.guard.lint import LintFinding
    from rbank_es.sparql.source import Source

VARIABLES_CHARS = 160
"""What the names of a result's variables may take; `sparql_slice` names all that it shows."""

FINDING_CHARS = 160
"""What is shown of a warning, and of its alternative."""


DOUBTFUL = frozenset(("cross_product", "unknown_graph", "unbound_variable"))
"""Warnings that speak of a mistake: what such a query found is no pattern to follow."""


class Asked(NamedTuple):
    """A query, with its bounds within the limits; `notes` say what was cut to them."""

    query: str
    rows: int
    timeout_s: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: str, limit: int, timeout_s: float = limits.QUERY_TIME_S) -> Asked:
        """The arguments of a call. Raises `ToolError` for those that can't be."""
        rows = within("limit", limit, limits.QUERY_ROWS)
        if math.isnan(timeout_s) or timeout_s <= 0:
            most = f"{limits.QUERY_TIME_MOST_S:g}"
            raise ToolError("bad_timeout", f"timeout_s is {timeout_s:g}", f"give seconds, above 0 and up to {most}")
        seconds = min(timeout_s, limits.QUERY_TIME_MOST_S)
        notes = [f"limit is at most {rows:,}"] if rows < limit else []
        notes += [f"timeout_s is at most {seconds:g}"] if seconds < timeout_s else []
        return cls(query, rows, seconds, tuple(notes))


class Querying:
    """Runs queries for the tools of a run."""

    def __init__(self, desk: Desk, source: Source) -> None:
        self._desk = desk
        self._source = source
        self._room = Room(desk)

    def run(self, asked: Asked, *, by: str, propose: bool) -> Reply:
        """The result behind a handle, what it holds in numbers, and what to do next."""
        checked, answer = self._source.query(asked.query, rows=asked.rows, timeout_s=asked.timeout_s)
        doubtful = any(each.code in DOUBTFUL for each in checked.warnings)
        events = self._proposed(checked, answer, by) if propose and not doubtful else ()
        body: dict[str, Any] = {"rows": len(answer.rows), "truncated": bool(answer.truncated), "limit": checked.rows}
        if answer.form == "ask":
            body = {"boolean": bool(answer.boolean)}
        if answer.clipped:
            body["clipped"] = answer.clipped
        if events:
            body["proposed"] = events[0].head.id
        self._tell(body, checked, answer, asked)
        from rbank_es.sparql.results import to_json

        dtype = "graph" if answer.form in ("construct", "describe") else "results"
        return Reply(body, to_json(answer), dtype, truncated=bool(answer.truncated or answer.clipped), beside=events)

    def explain(self, asked: Asked) -> Reply:
        """What would be run, and what speaks against it; nothing runs."""
        from rbank_es.sparql.guard.guard import explain

        told = explain(asked.query, self._source.surroundings, asked.rows)
        body: dict[str, Any] = {"form": told.form, "refused": bool(told.refused_by)}
        if told.limit is not None:
            body["limit"] = min(told.limit, asked.rows)  # one more is asked for, to know whether there are more
        self._variables(body, told.variables, handle=False)
        self._findings(body, "refused_by", told.refused_by, handle=False)
        self._findings(body, "warnings", told.warnings, handle=False)
        return Reply(body)

    # ---------------------------------------------------------------- what is said of a result

    def _tell(self, body: dict[str, Any], checked: Checked, answer: Answer, asked: Asked) -> None:
        """Add, as far as there is room: the next step, the hint, variables, notes, warnings."""
        if answer.form != "ask":
            body["next"] = "sparql_slice(handle, 0, 50)" if answer.rows else "change the query"
        if answer.truncated:
            body["next"] += _MORE[answer.truncated]
        if not found_something(answer):
            hint = hint_for(checked.parsed, self._source)
            self._room.say(body, "hint", hint, handle=True)
        if answer.form == "select":
            self._variables(body, shown_names(answer.variables), handle=True)
        notes = [*([_CUT_VALUES] if answer.clipped else []), *asked.notes]
        if notes:
            self._room.say(body, "note", "; ".join(notes), handle=True)
        self._findings(body, "warnings", checked.warnings, handle=True)

    def _variables(self, body: dict[str, Any], names: tuple[str, ...], *, handle: bool) -> None:
        left = self._room.left({**body, "variables": [], "variables_total": len(names)}, handle=handle)
        left = left if self._room.naive else min(left, VARIABLES_CHARS)
        kept: list[str] = []
        for name in names:
            left -= len(name) + 3
            if left < 0:
                body["variables_total"] = len(names)
                break
            kept.append(name)
        body["variables"] = kept

    def _findings(self, body: dict[str, Any], name: str, findings: tuple[LintFinding, ...], *, handle: bool) -> None:
        if not findings:
            return
        width = UNBOUNDED if self._room.naive else FINDING_CHARS
        rows = [
            {"code": each.code, "message": clip(each.message, width), "alternative": clip(each.alternative, width)}
            for each in findings
        ]
        self._room.put(body, name, rows, handle=handle)

    # ---------------------------------------------------------------- what may be learned from it

    def _proposed(self, checked: Checked, answer: Answer, by: str) -> tuple[MemoryProposed, ...]:
        if not found_something(answer):
            return ()
        rows = None if answer.form == "ask" else len(answer.rows)
        evidence = QueryEvidence.on(self._desk, checked.parsed, variables=answer.variables, rows=rows)
        item = self._desk.extractor.from_success(evidence)
        event = proposal(self._desk, item, by, "the query found something") if item is not None else None
        return (event,) if event is not None else ()


_CUT_VALUES = f"values over {limits.RESULT_CELL_CHARS:,} characters were cut"

_MORE = {
    "rows": "; there are more rows than limit",
    "bytes": "; the result was too large: select less",
}


def found_something(answer: Answer) -> bool:
    """Whether an answer holds something: a row that isn't a lone count of nothing, or a yes."""
    if answer.form == "ask":
        return bool(answer.boolean)
    if len(answer.rows) != 1:
        return bool(answer.rows)
    return any(cell is not None and value_of(cell) != 0 for cell in answer.rows[0])
