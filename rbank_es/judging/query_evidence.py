"""What is known of a submitted query: whether the run had it answered, and what the answer was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryFailed, QueryRefused
from rbank_es.judging.query_comparison import fingerprint
from rbank_es.judging.result_comparison import compare_results
from rbank_es.judging.run_outcome import QueryRun, RunOutcome
from rbank_es.judging.verdict import Finding
from rbank_es.sparql.parser.query import ParsedQuery, parse_query
from rbank_es.sparql.results import Answer

if TYPE_CHECKING:
    from rbank_es.sparql.source import Source

_THEIR_FAULT = frozenset({"bad_query", "timeout", "out_of_memory"})
"""Codes of failed queries that tell of the query; the others tell of the endpoint, or of this machine."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted query, read, with its answer as far as it is known.

    `recorded` is the answer that the run got, `answer` that or, where there is none, what the source says now.
    `problem` is why the query has no answer, where that is its own fault.
    """

    query: ParsedQuery | None = None
    answer: Answer | None = None
    recorded: Answer | None = None
    problem: Finding | None = None

    @property
    def rows(self) -> int | None:
        """Rows of the answer; None where it isn't known, and for yes or no."""
        return len(self.answer.rows) if self.answer is not None and self.answer.form != "ask" else None


def gather(outcome: RunOutcome, source: Source | None) -> Evidence:
    """What is known of the query that a run submitted. Asks the source only where the run's own events don't tell."""
    prefixes = source.surroundings.prefixes if source is not None else {}
    try:
        query = parse_query(outcome.sparql, prefixes)
    except QueryRefused as refused:
        return Evidence(problem=_unread(refused))
    recorded = _recorded(query, outcome.queries or ())
    if recorded is not None and recorded.answer is not None:
        return Evidence(query=query, answer=recorded.answer, recorded=recorded.answer)
    answer, problem = ask(outcome.sparql, source) if source is not None else (None, None)
    if problem is None and outcome.queries is not None and recorded is None:
        problem = _not_run(outcome.queries, answer)
    return Evidence(query=query, answer=answer, problem=problem)


def _unread(refused: QueryRefused) -> Finding:
    if refused.code in ("syntax", "too_long"):
        return Finding(code="unreadable_query", message=f"the query can't be read: {refused.message}")
    return Finding(code="refused_query", message=f"the query was refused: {refused.message}")


def _recorded(query: ParsedQuery, runs: tuple[QueryRun, ...]) -> QueryRun | None:
    """The last time that the run had this very query answered."""
    wanted = fingerprint(query)
    for run in reversed(runs):
        try:
            if run.error_code is None and fingerprint(parse_query(run.query, query.prefixes)) == wanted:
                return run
        except QueryRefused:
            continue
    return None


def ask(sparql: str, source: Source) -> tuple[Answer | None, Finding | None]:
    """The answer of a source to a query, or what is wrong with the query; neither where the source doesn't answer."""
    try:
        return source.query(sparql, rows=limits.QUERY_ROWS)[1], None
    except QueryRefused as refused:
        code = "ungrounded_query" if refused.code == "unknown_term" else "refused_query"
        return None, Finding(code=code, message=f"the query was refused: {refused.message}")
    except QueryFailed as failed:
        if failed.code not in _THEIR_FAULT:
            return None, None
        return None, Finding(code="failed_query", message=f"the query fails: {failed.message}")


def _not_run(runs: tuple[QueryRun, ...], answer: Answer | None) -> Finding | None:
    """What to say where the run never ran its query: nothing, if another query of it had the same answer."""
    seen = (run.answer for run in runs if run.answer is not None and run.error_code is None)
    if answer is not None and any(compare_results(answer, other).equal for other in seen):
        return None
    message = f"the submitted query is none of the {len(runs):,} that the run had answered, nor has it their answer"
    if answer is None:
        message = f"the submitted query is none of the {len(runs):,} that the run had answered"
    return Finding(code="query_not_run", message=message)
