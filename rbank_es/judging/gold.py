"""The gold check: a run's query against the right one, or against the right answer. It scores; it teaches only where
a policy says `supervised`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, JudgeFailed, QueryFailed, QueryRefused
from rbank_es.judging.checks import check
from rbank_es.judging.comparing import XSD_BOOLEAN, Comparison, compare_results
from rbank_es.judging.evidence import ask
from rbank_es.judging.outcome import RunOutcome
from rbank_es.judging.queries import read_query
from rbank_es.judging.structure import differences_of_queries
from rbank_es.judging.verdict import Finding, Verdict
from rbank_es.ontology.names import XSD
from rbank_es.sparql.answers import Answer, Cell

if TYPE_CHECKING:
    from rbank_es.events.judgment import Purpose
    from rbank_es.sparql.source import Source

JUDGE, VERSION = "gold", "1"


class Gold(msgspec.Struct, frozen=True, kw_only=True):
    """What is right: a query, an answer, or both, of which the answer counts."""

    sparql: str = ""
    answer: Answer | None = None

    @property
    def ordered(self) -> bool:
        """Whether the order of rows counts: the right query sorts them."""
        try:
            return bool(self.sparql) and read_query(self.sparql).tree.body.ordered
        except QueryRefused:
            return False


def gold_of(task: Mapping[str, Any]) -> Gold | None:
    """What a task says to be right: `gold_sparql`, and `answer` as rows of `["iri", text]`, `["num", number]`,
    `["lit", text, language]`, `["bnode"]` or null; None where it says neither. Raises `BadInput` for other forms.
    """
    sparql, rows = task.get("gold_sparql") or "", task.get("answer")
    if not isinstance(sparql, str) or not (rows is None or isinstance(rows, str | Sequence)):
        raise BadInput("gold_sparql must be a text, and answer a list of rows")
    answer = _stored(rows) if rows is not None and not isinstance(rows, str) else None
    return Gold(sparql=sparql, answer=answer) if sparql or answer is not None else None


def _stored(rows: Sequence[Any]) -> Answer:
    width = max((len(row) for row in rows if isinstance(row, Sequence)), default=0)
    try:
        cells = tuple(tuple(map(_cell, row)) for row in rows)
    except (IndexError, KeyError, TypeError, ValueError):
        raise BadInput(
            'a row of the answer is none: write [["iri", "http://…"], ["num", 2], ["lit", "words", "en"]]'
        ) from None
    if any(len(row) != width for row in cells):
        raise BadInput("rows of the answer have different numbers of values")
    return Answer(form="select", variables=tuple(f"column{at + 1}" for at in range(width)), rows=cells)


def _cell(value: Any) -> Cell | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return Cell("literal", str(value).lower(), "", XSD_BOOLEAN)
    kind, *rest = value
    if kind == "num":
        return Cell(
            "literal", repr(float(rest[0])) if isinstance(rest[0], float) else str(int(rest[0])), "", XSD + "double"
        )
    if kind == "lit":
        return Cell("literal", str(rest[0]), str(rest[1]) if len(rest) > 1 else "")
    return {"iri": lambda: Cell("iri", str(rest[0])), "bnode": lambda: Cell("bnode", "b")}[kind]()


# ---------------------------------------------------------------- judging by it


def judge_by_gold(
    outcome: RunOutcome, gold: Gold, source: Source | None = None, *, purpose: Purpose = "scoring"
) -> Verdict:
    """The verdict of comparing what the submitted query finds with what is right.

    Both are asked of the source; where it can't tell them apart (there is none, or it has nothing of it, or too much),
    the queries themselves are compared. An answer with more columns than asked is right if the others are.

    Raises:
        JudgeFailed: what is right can't be found out: its query can't be read, or the source doesn't answer.
    """
    findings = [each for each in check(outcome, grounding=False)[0] if each.code in _HOPELESS and each.fails]
    if findings:
        return _verdict(False, findings[0].message, purpose, findings=tuple(findings))
    if source is None or not outcome.sparql.strip():
        return _by_structure(outcome, gold, purpose)
    expected = _expected(gold, source)
    given, problem = ask(outcome.sparql, source)
    if problem is not None:
        return _verdict(False, problem.message, purpose, findings=(problem,))
    if given is None:
        raise JudgeFailed(JUDGE, f"{source.id} does not answer")
    if expected is None or expected.truncated or _says_nothing(expected, given):
        return _by_structure(outcome, gold, purpose)
    return _by_results(compare_results(given, expected, ordered=gold.ordered), expected, purpose)


_HOPELESS = frozenset({"not_converged", "no_answer", "no_query", "unreadable_query"})
"""Findings after which there is nothing to compare."""


def _verdict(success: bool, reason: str, purpose: Purpose, **details: Any) -> Verdict:
    return Verdict(
        success=success,
        reason=reason,
        kind="check",
        judge=JUDGE,
        judge_version=VERSION,
        purpose=purpose,
        **details,
    )


def _expected(gold: Gold, source: Source) -> Answer | None:
    """The right answer; None where only the queries can be compared: this source can't run the right one."""
    if gold.answer is not None:
        return gold.answer
    try:
        return source.query(gold.sparql, rows=limits.QUERY_ROWS)[1]
    except QueryRefused:
        return None
    except QueryFailed as failed:
        raise JudgeFailed(JUDGE, f"the right query has no answer: {failed.message}") from failed


def _says_nothing(expected: Answer, given: Answer) -> bool:
    """Whether both find nothing: so would most queries."""
    return expected.form != "ask" and not expected.rows and given.form != "ask" and not given.rows


def _by_results(comparison: Comparison, expected: Answer, purpose: Purpose) -> Verdict:
    found = f"{len(expected.rows):,} rows" if expected.form != "ask" else f"{expected.boolean}".lower()
    if comparison.outcome == "wrong":
        told = "; ".join(map(str, comparison.differences))
        return _verdict(False, f"its result is not the right one: {told}", purpose, differences=comparison.differences)
    beside = ", in more columns" if comparison.differences else ""
    reason = f"its result is the right one: {found}{beside}"
    return _verdict(True, reason, purpose, differences=comparison.differences)


def _by_structure(outcome: RunOutcome, gold: Gold, purpose: Purpose) -> Verdict:
    if not gold.sparql:
        raise JudgeFailed(JUDGE, "there is a right answer and no source to ask, or the run submitted no query")
    if not outcome.sparql.strip():
        finding = Finding(code="no_query", message="no query was submitted that could be compared")
        return _verdict(False, finding.message, purpose, findings=(finding,))
    try:
        expected = read_query(gold.sparql)
    except QueryRefused as refused:
        raise JudgeFailed(JUDGE, f"the right query can't be read: {refused.message}") from refused
    told = differences_of_queries(read_query(outcome.sparql, expected.prefixes), expected)
    if not told:
        return _verdict(True, "its query is the right one, in other words at most", purpose)
    return _verdict(False, f"its query is not the right one: {'; '.join(told)}", purpose)
