"""The judge `gold`, which compares a run with the right query or answer: for scoring, or for learning if supervised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, JudgeFailed, QueryFailed, QueryRefused
from rbank_es.judging.checks import check
from rbank_es.judging.query_comparison import differences_of_queries
from rbank_es.judging.result_comparison import XSD_BOOLEAN, Comparison, compare_results, value_of
from rbank_es.judging.run_outcome import RunOutcome, plain
from rbank_es.judging.source_evidence import ask
from rbank_es.judging.verdict import Finding, Verdict
from rbank_es.ontology.rdf_names import XSD
from rbank_es.policies import CheckJudging
from rbank_es.sparql.parser.query import ParsedQuery, parse_query
from rbank_es.sparql.parser.tree import Variable, projected
from rbank_es.sparql.results import Answer, Cell

if TYPE_CHECKING:
    from rbank_es.events.run_events import Purpose, VerdictValue
    from rbank_es.judging.judges import JudgeInputs
    from rbank_es.sparql.source import Source

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


class Gold(msgspec.Struct, frozen=True, kw_only=True):
    """The right answer: rows, else the rows that a query finds, else words that the answer must contain.

    `ordered` tells whether the order of the rows matters; None: as the query sorts them.
    """

    sparql: str = ""
    answer: Answer | None = None
    words: str = ""
    ordered: bool | None = None

    def order(self, expected: Answer) -> tuple[bool, tuple[int, ...]]:
        """Return whether the order of rows counts, and by which columns the right query sorts them.

        There are no columns if it sorts by anything else as well, or not at all.
        """
        if self.ordered is False:
            return False, ()
        try:
            query = parse_query(self.sparql) if self.sparql else None
        except QueryRefused:
            query = None
        if query is None or not query.tree.body.ordered:
            return bool(self.ordered), ()
        return True, self._sorted_by(query, expected)

    def _sorted_by(self, query: ParsedQuery, expected: Answer) -> tuple[int, ...]:
        # ORDER BY is the last clause with conditions: those before its offset are HAVING and GROUP BY.
        order = max(token.offset for token in query.tokens if token.keyword == "ORDER")
        found = [each for each in query.tree.body.conditions if getattr(each, "offset", order) >= order]
        names = [each.name for each in found if isinstance(each, Variable)]
        columns = expected.variables if self.answer is None else projected(query.tree.body)
        if len(names) < len(found) or len(columns) != len(expected.variables) or not set(names) <= set(columns):
            return ()
        return tuple(map(columns.index, names))


def gold_of(sparql: str | None, answer: str | Sequence[Any] | None, ordered: bool | None = None) -> Gold | None:
    """Return the right answer of a task; None if the task has none.

    `answer` is a text, or a list of rows. A row is a list of values: a number, a text (an IRI if it begins like one),
    true, false, null, or `["iri", text]`, `["num", number]`, `["lit", text, language, datatype]` (the last two are
    optional; a datatype is an IRI, or a name such as `xsd:date`), `["bnode"]`. Raises `BadInput` for other rows.
    """
    words = answer.strip() if isinstance(answer, str) else ""
    rows = None if answer is None or isinstance(answer, str) else _stored(answer)
    if not (sparql or words) and rows is None:
        return None
    return Gold(sparql=sparql or "", answer=rows, words=words, ordered=ordered)


def _stored(rows: Sequence[Any]) -> Answer:
    try:
        cells = tuple(tuple(map(_cell, row)) for row in rows)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        example = '[["iri", "http://…"], 2, ["lit", "words", "en"]]'
        raise BadInput(f"a row of the answer is not a list of values: write {example}") from None
    widths = {len(row) for row in cells}
    if len(widths) > 1:
        raise BadInput("the rows of the answer have different numbers of values; write null for an unbound one")
    width = widths.pop() if widths else 0
    return Answer(form="select", variables=tuple(f"column{at + 1}" for at in range(width)), rows=cells)


def _cell(value: Any) -> Cell | None:
    match value:
        case None:
            return None
        # Before int, because True and False are ints too.
        case bool():
            return Cell("literal", str(value).lower(), "", XSD_BOOLEAN)
        case int() | float():
            return Cell("literal", str(value), "", XSD + "double")
        case str():
            return Cell("iri" if value.startswith(("http://", "https://")) else "literal", value)
        case ["iri", str(text)]:
            return Cell("iri", text)
        case ["num", int() | float() as number]:
            return Cell("literal", str(number), "", XSD + "double")
        case ["lit", str(text)]:
            return Cell("literal", text)
        case ["lit", str(text), str(language)]:
            return Cell("literal", text, language)
        case ["lit", str(text), "" as language, str(datatype)]:
            return Cell("literal", text, language, datatype.replace("xsd:", XSD, 1))
        case ["bnode", *_]:
            return Cell("bnode", "b")
    raise ValueError("no value")


def stored_rows(answer: Answer) -> list[list[Any]]:
    """Return the rows of an answer in the form that `gold_of` takes; yes or no is one row of one value."""
    if answer.form == "ask":
        return [[answer.boolean]]
    return [[_stored_cell(cell) for cell in row] for row in answer.rows]


def _stored_cell(cell: Cell | None) -> Any:
    if cell is None:
        return None
    if cell.kind != "literal":
        return [cell.kind, cell.value] if cell.kind == "iri" else [cell.kind]
    if not cell.datatype:
        return ["lit", cell.value, cell.lang]
    value = value_of(cell)
    if value is not None and value[0] == "number" and _SMALL.fullmatch(str(value[1])):
        return ["num", int(str(value[1]))]
    return ["lit", cell.value, "", cell.datatype.replace(XSD, "xsd:", 1)]


# Whole numbers that every reader of JSON keeps exact.
_SMALL = re.compile(r"-?[0-9]{1,15}")


# ---------------------------------------------------------------- comparison


def judge_by_gold(
    outcome: RunOutcome, gold: Gold, source: Source | None = None, *, purpose: Purpose = "scoring"
) -> Verdict:
    """Return the verdict of comparing the submitted query's result with the right one.

    Both queries are run on the source. If that can't tell them apart (no source, no rows, or too many), the queries
    themselves are compared: they may be recognised as equal, but a difference may be one of wording only, and leaves
    the run undecided. An answer with extra columns is right if the others are.

    Raises:
        JudgeFailed: the right answer is unknown, because its query can't be read or the source doesn't answer.
    """
    findings = [each for each in check(outcome, grounding=False).findings if each.code in _HOPELESS]
    if not findings and not outcome.sparql.strip() and not outcome.saw_data:
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
