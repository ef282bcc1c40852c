"""The judge `gold`, which compares a run with the right query or answer: for scoring, or for learning if supervised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.errors import JudgeFailed, QueryFailed, QueryRefused
from rbank_es.judging.checks import check
from rbank_es.judging.gold_answers import Gold
from rbank_es.judging.query_comparison import differences_of_queries
from rbank_es.judging.result_comparison import Comparison, compare_results
from rbank_es.judging.run_outcome import RunOutcome, plain
from rbank_es.judging.source_evidence import ask
from rbank_es.judging.verdict import Finding, Verdict
from rbank_es.policies import CheckJudging
from rbank_es.sparql.parser.parsed_query import ParsedQuery, parse_query
from rbank_es.sparql.parser.tree import projected
from rbank_es.sparql.results import Answer

if TYPE_CHECKING:
    from rbank_es.events.run_events import Purpose, VerdictValue
    from rbank_es.judging.judge_protocol import JudgeInputs
    from rbank_es.sparql.data_source import Source

JUDGE, VERSION = "gold", "1"

_HOPELESS = frozenset({"not_converged", "no_answer", "unreadable_query", "refused_query"})
"""Findings after which there is nothing to compare; so is prose alone, where the run saw none of the data."""

_UNTOLD = frozenset({"failed_query"})
"""Findings that say nothing about the result, unless they are sure: the query took too long here."""


class GoldJudge:
    """The judge that compares with the right answer, which must be given."""

    needs = frozenset({"gold"})
    policy = CheckJudging()

    def judge(self, outcome: RunOutcome, inputs: JudgeInputs) -> Verdict:
        """Return the verdict of `judge_by_gold`. Raises `JudgeFailed` as it does, and without a right answer."""
        if inputs.gold is None:
            raise JudgeFailed(JUDGE, "no right query or answer is given")
        return judge_by_gold(outcome, inputs.gold, inputs.source, purpose=inputs.purpose)


GOLD = GoldJudge()


def judge_by_gold(
    outcome: RunOutcome, gold: Gold, source: Source | None = None, *, purpose: Purpose = "scoring"
) -> Verdict:
    """Return the verdict of comparing the submitted query's result with the right one.

    Both queries are run on the source. If that can't tell them apart (no source, no rows, or too many), the queries
    themselves are compared: they may be recognised as equal, but a difference may be one of wording only, and leaves
    the run undecided. An answer with extra columns is right if the others are. One that was forced at a limit is
    compared as a submitted one is: how a run ended is told by its outcome.

    Raises:
        JudgeFailed: the right answer is unknown, because its query can't be read or the source doesn't answer.
    """
    outcome = outcome.handed_in
    findings = [each for each in check(outcome, grounding=False).findings if each.code in _HOPELESS]
    blind = outcome.over_source(source) and not outcome.sparql.strip() and not outcome.saw_data
    if not findings and blind:
        findings = [Finding(code="no_query", message="an answer in prose, with no look at the data behind it")]
    if findings:
        return _verdict("failure", findings[0].message, purpose, findings=tuple(findings))
    if not gold.sparql and gold.answer is None:
        return _by_words(outcome, gold, purpose)
    if source is None or not outcome.sparql.strip():
        return _by_structure(outcome, gold, source, purpose)
    expected = _expected(gold, source)
    given, problem = ask(outcome.sparql, source)
    if problem is not None:
        told: VerdictValue = "failure" if problem.sure or problem.code not in _UNTOLD else "undecided"
        return _verdict(told, problem.message, purpose, findings=(problem,))
    if given is None:
        raise JudgeFailed(JUDGE, f"{source.id} does not answer")
    if expected is None or expected.truncated or _says_nothing(expected, given):
        return _by_structure(outcome, gold, source, purpose)
    ordered, columns = gold.order(expected)
    compared = compare_results(given, expected, ordered=ordered, sorted_by=columns)
    return _by_results(compared, expected, purpose)


def _verdict(verdict: VerdictValue, reason: str, purpose: Purpose, **details: Any) -> Verdict:
    who: dict[str, Any] = {"kind": "gold", "judge": JUDGE, "judge_version": VERSION}
    return Verdict(verdict=verdict, reason=reason, purpose=purpose, **who, **details)


def _expected(gold: Gold, source: Source) -> Answer | None:
    """Return the right answer; None if only the queries can be compared, because the source can't run the right one."""
    if gold.answer is not None:
        return gold.answer
    try:
        return source.query(gold.sparql, rows=limits.QUERY_ROWS)[1]
    except QueryRefused:
        return None
    except QueryFailed as failed:
        raise JudgeFailed(JUDGE, f"the right query has no answer: {failed.message}") from failed


def _says_nothing(expected: Answer, given: Answer) -> bool:
    # Two empty results prove nothing: most queries find nothing.
    return expected.form != "ask" and not expected.rows and given.form != "ask" and not given.rows


def _by_results(comparison: Comparison, expected: Answer, purpose: Purpose) -> Verdict:
    found = f"{len(expected.rows):,} rows" if expected.form != "ask" else f"{expected.boolean}".lower()
    if comparison.outcome == "wrong":
        reason = f"its result is not the right one: {'; '.join(map(str, comparison.differences))}"
        return _verdict("failure", reason, purpose, differences=comparison.differences)
    beside = ", in more columns" if comparison.differences else ""
    reason = f"its result is the right one: {found}{beside}"
    return _verdict("success", reason, purpose, differences=comparison.differences)


def _by_words(outcome: RunOutcome, gold: Gold, purpose: Purpose) -> Verdict:
    """Return a success if the answer contains the right words; case, white space and punctuation don't count."""
    if plain(gold.words) and plain(gold.words) in plain(outcome.answer):
        return _verdict("success", "its answer has the right words", purpose)
    return _verdict("failure", f"its answer has not the right words: {gold.words[: limits.JUDGE_QUOTE_CHARS]}", purpose)


def _by_structure(outcome: RunOutcome, gold: Gold, source: Source | None, purpose: Purpose) -> Verdict:
    if not gold.sparql:
        raise JudgeFailed(JUDGE, "there is a right answer and no source to ask, or the run submitted no query")
    if not outcome.sparql.strip():
        finding = Finding(code="no_query", message="no query was submitted that could be compared")
        return _verdict("failure", finding.message, purpose, findings=(finding,))
    try:
        expected = parse_query(gold.sparql, source.surroundings.prefixes if source is not None else None)
    except QueryRefused as refused:
        raise JudgeFailed(JUDGE, f"the right query can't be read: {refused.message}") from refused
    given = parse_query(outcome.sparql, expected.prefixes)
    found = differences_of_queries(given, expected)
    if not found:
        return _verdict("success", "its query is the right one, in other words at most", purpose)
    said = "; ".join(found)
    # Whatever the data are, a result of another form is another one, and one with fewer columns lacks one.
    if given.tree.form != expected.tree.form or _width(given) < _width(expected):
        return _verdict("failure", f"its query is not the right one: {said}", purpose)
    return _verdict("undecided", f"its query differs, and no data tell whether that matters: {said}", purpose)


def _width(query: ParsedQuery) -> int:
    return len(projected(query.tree.body))
