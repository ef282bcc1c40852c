"""Deterministic checks: what shows without a model, and without the right answer, that a run did not succeed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rbank_es.errors import JudgeFailed
from rbank_es.judging import query_flaws
from rbank_es.judging.cell_values import shown
from rbank_es.judging.grounded_terms import Grounding, ground
from rbank_es.judging.query_evidence import Evidence, gather
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.judging.task_wording import asks_for_all, asks_for_count, plain
from rbank_es.judging.verdict import Finding, Verdict
from rbank_es.ontology.prefixes import local_name
from rbank_es.sparql.parser.tree import is_grouped
from rbank_es.sparql.results import Answer, Cell

if TYPE_CHECKING:
    from rbank_es.events.judgment import Purpose
    from rbank_es.sparql.source import Source

CODES: dict[str, str] = {
    "not_converged": "the run was stopped or failed before it submitted",
    "no_answer": "neither an answer nor a query was submitted",
    "no_query": "an answer in prose, with no query behind it",
    "unreadable_query": "the query is not SPARQL",
    "refused_query": "the query is one that must not run",
    "failed_query": "the query fails, or takes too long",
    "query_not_run": "the query is not one that the run had answered",
    "empty_result": "the query finds nothing",
    "cut_result": "the answer was cut, and the task asks for all of it, or for its size",
    "limit_below_all": "the query's own LIMIT cuts what the task asks for whole",
    "made_up_column": "a column holds only words that the query wrote",
    "name_for_thing": "a column holds what a thing is called instead of the thing",
    "untyped_variable": "things of several classes fit, and the query says not which",
    "answer_without_result": "the answer names nothing of the few values that the query found",
    "ungrounded_query": "the query names what exists nowhere",
    "ungrounded_answer": "the answer names what exists nowhere; the run is not learnt from",
}
"""Every code that a finding can have, and what it stands for."""

FEW_ROWS = 5
"""Rows of a result of which an answer is expected to name a value."""

JUDGE, VERSION = "checks", "1"


def judge_by_checks(
    outcome: RunOutcome, source: Source | None = None, *, grounding: bool = True, purpose: Purpose = "learning"
) -> Verdict:
    """The verdict of the checks alone: a success is a run against which nothing speaks.

    Without a source, only the run's own events and the query's text are looked at. `grounding` says whether terms are
    looked up; it needs a source. Pure, given what the source answers. Raises as `check` does.
    """
    findings, terms = check(outcome, source, grounding=grounding)
    failing = [finding for finding in findings if finding.fails]
    told = failing or findings
    reason = "; ".join(f"{finding.message} ({finding.code})" for finding in told)
    return Verdict(
        success=not failing,
        reason=reason or _praise(outcome, terms),
        kind="check",
        judge=JUDGE,
        judge_version=VERSION,
        purpose=purpose,
        findings=tuple(findings),
        grounding=terms,
    )


def check(
    outcome: RunOutcome, source: Source | None = None, *, grounding: bool = True
) -> tuple[list[Finding], Grounding | None]:
    """What the checks find, in order of `CODES`, and which terms exist, where they were looked up.

    A run that did not converge is not looked at further; nor is a query that has no answer. Raises `JudgeFailed` where
    a run converged, and what it submitted is not known.
    """
    if outcome.converged and not outcome.recorded:
        raise JudgeFailed(JUDGE, "what the run submitted was not recorded, or was erased")
    ended = _ended(outcome)
    if ended is not None:
        return [ended], None
    terms = ground(outcome.sparql, outcome.answer, source) if source is not None and grounding else None
    if not outcome.sparql.strip():
        return _ordered([*_no_query(outcome), *_ungrounded(terms)]), terms
    evidence = gather(outcome, source)
    found = [*([evidence.problem] if evidence.problem else []), *_ungrounded(terms)]
    if evidence.query is not None:
        found += _of_answer(outcome, evidence)
        found += _of_query(outcome, evidence, source)
    return _ordered(found), terms


def _ordered(findings: list[Finding]) -> list[Finding]:
    """Each code once, in the order in which they are listed."""
    order = list(CODES)
    return sorted({each.code: each for each in reversed(findings)}.values(), key=lambda each: order.index(each.code))


def _ended(outcome: RunOutcome) -> Finding | None:
    """Why nothing that was submitted counts."""
    if outcome.converged:
        if outcome.answer.strip() or outcome.sparql.strip():
            return None
        return Finding(code="no_answer", message="neither an answer nor a query was submitted")
    how = {"forced_at_limit": "it was stopped at its iteration limit", "failed": "it failed"}[outcome.outcome]
    after = f" after {outcome.iterations:,} iterations" if outcome.iterations else ""
    why = f": {' '.join(outcome.error.split())[:200]}" if outcome.error else ""
    return Finding(code="not_converged", message=f"the run did not converge: {how}{after}{why}")


def _no_query(outcome: RunOutcome) -> Iterator[Finding]:
    """An answer without a query counts where the run saw the data by other means."""
    answered = any(run.error_code is None for run in outcome.queries or ())
    if outcome.looked or answered:
        tools = ", ".join(outcome.looked) or "queries that it did not submit"
        yield Finding(code="no_query", message=f"no query was submitted; the run saw the data by {tools}", fails=False)
    else:
        yield Finding(code="no_query", message="an answer in prose, with no query and no look at the data behind it")


# ---------------------------------------------------------------- what the query found


def _of_answer(outcome: RunOutcome, evidence: Evidence) -> Iterator[Finding]:
    answer = evidence.answer
    if answer is None or answer.form == "ask":
        return
    if not answer.rows:
        yield Finding(code="empty_result", message="the query finds nothing, and that was submitted as an answer")
        return
    yield from _cut(outcome, evidence, answer)
    if len(answer.rows) <= FEW_ROWS and outcome.answer.strip() and not _names_a_value(outcome.answer, answer):
        values = "; ".join(shown(row) for row in answer.rows[:2])
        message = f"the query found {values}, and the answer names nothing of it"
        # What the source says now may not be what the run saw.
        yield Finding(code="answer_without_result", message=message, fails=evidence.recorded is not None)


def _cut(outcome: RunOutcome, evidence: Evidence, answer: Answer) -> Iterator[Finding]:
    """A whole query whose answer was too long to be seen whole is no failure, unless its rows were to be counted."""
    recorded = evidence.recorded
    if recorded is None or not recorded.truncated or evidence.query is None or is_grouped(evidence.query.tree.body):
        return
    counting = asks_for_count(outcome.task)
    if counting or asks_for_all(outcome.task):
        wanted = "their number" if counting else "all of them"
        message = f"the task asks for {wanted}, and the run saw only the first {len(answer.rows):,} rows"
        yield Finding(code="cut_result", message=message, fails=counting)


def _names_a_value(text: str, answer: Answer) -> bool:
    """Whether an answer has any value of a result in it, however it is written."""
    words = plain(text)
    return any(plain(name) in words for row in answer.rows for cell in row if cell for name in _names_of(cell))


def _names_of(cell: Cell) -> tuple[str, ...]:
    """How an answer may write a value."""
    if cell.kind == "iri":
        return (cell.value, local_name(cell.value))
    if cell.kind == "bnode":
        return ("",)
    whole = re.fullmatch(r"([+-]?\d+)\.0+|([+-]?\d+\.\d{2,}?)0*", cell.value)
    return (cell.value, *(part for part in (whole.groups() if whole else ()) if part), *_moderately(cell.value))


def _moderately(text: str) -> tuple[str, ...]:
    """A number with many digits as people round it."""
    try:
        number = float(text)
    except ValueError:
        return ()
    return (f"{number:.1f}", f"{number:.2f}", f"{number:g}", f"{number:.0f}")


# ---------------------------------------------------------------- what the query says


def _of_query(outcome: RunOutcome, evidence: Evidence, source: Source | None) -> Iterator[Finding]:
    query = evidence.query
    if query is None:
        return
    yield from query_flaws.limited(query, outcome.task, evidence.rows)
    yield from query_flaws.made_up(query)
    yield from query_flaws.named_only(query, outcome.task)
    if source is not None and source.schema is not None:
        yield from query_flaws.untyped(query, source.schema)


def _ungrounded(terms: Grounding | None) -> Iterator[Finding]:
    if terms is None:
        return
    if terms.unknown_in_query:
        named = ", ".join(terms.unknown_in_query)
        yield Finding(code="ungrounded_query", message=f"the query names what exists nowhere: {named}")
    if terms.unknown_in_answer:
        named, share = ", ".join(terms.unknown_in_answer), terms.answer_share or 0
        message = f"the answer names what exists nowhere: {named} ({share:.0%} of its terms exist)"
        yield Finding(code="ungrounded_answer", message=message, fails=False)


def _praise(outcome: RunOutcome, terms: Grounding | None) -> str:
    """What speaks for a run against which nothing was found."""
    checked = ""
    if terms and terms.terms and not terms.unchecked:
        checked = "; the one term that it names exists"
        if terms.terms > 1:
            checked = f"; all {terms.terms:,} terms that it names exist"
    return f"the run converged on a query, and no check speaks against it{checked}"
