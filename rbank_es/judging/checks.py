"""The judge `checks`: flaws of a run that show without a model and without the right answer.

A check never says success. A finding that is sure makes the run a failure, which only the right answer or a person
outweighs. Any other finding leaves the run undecided, and is evidence for the model that judges. A finding is sure if
no right answer could have it: the run was stopped; nothing was submitted; the query is no SPARQL, would change data or
is refused by the engine; or a triple that every solution needs names a term that exists nowhere
(`source_evidence.exists_nowhere`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rbank_es import limits
from rbank_es.errors import JudgeFailed, QueryRefused
from rbank_es.judging.run_outcome import RunOutcome, asks_for_all, asks_for_count, asks_for_names, plain
from rbank_es.judging.source_evidence import QueryEvidence, gather, ground, is_bare, refused_finding, terms_of
from rbank_es.judging.verdict import Finding, Grounding, Verdict
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import Prefixes, local_name
from rbank_es.ontology.schema_model import PropertyInfo, Schema
from rbank_es.policies import CheckJudging
from rbank_es.sparql.class_check import mismatches
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery, parse_query
from rbank_es.sparql.results import Answer, Cell, row_line

if TYPE_CHECKING:
    from rbank_es.events.run_events import Purpose
    from rbank_es.judging.judge_protocol import JudgeInputs
    from rbank_es.sparql.data_source import Source

# Rows of a result up to which an answer is expected to name one of its values.
_JUDGE_FEW_ROWS = 5

CODES: dict[str, str] = {
    "not_converged": "the run was stopped or failed before it submitted (sure)",
    "no_answer": "nothing was submitted: no answer, and no query (sure)",
    "no_query": "over a source, an answer in prose, with no query behind it",
    "unreadable_query": "the query is not SPARQL (sure, unless the run had an answer to it)",
    "refused_query": "the query is one that must not run (sure if it would change data)",
    "failed_query": "the query fails, or takes too long (sure if the engine finds a fault in its text)",
    "query_not_run": "the query is not one that the run had answered",
    "empty_result": "the query finds nothing",
    "cut_result": "the answer was cut, and the task asks for all of it, or for its size",
    "limit_below_all": "the query's own LIMIT cuts what the task asks for whole",
    "made_up_column": "a column holds only words that the query wrote",
    "name_for_thing": "a column holds what a thing is called instead of the thing",
    "untyped_variable": "things of several classes fit, and the query says not which",
    "class_mismatch": "a thing's class doesn't fit the domain or range of a property that the query asks of it",
    "answer_without_result": "the answer names nothing of the few values that the query found",
    "ungrounded_query": "the query names what exists nowhere (sure if every solution needs it)",
    "ungrounded_answer": "the answer names what exists nowhere; the run is not learned from",
    "absent_term": "the query or the answer names what the source lacks, which nobody declared whole",
}
"""Every code that a finding can have, with its meaning, and when the check is sure. Others are never sure."""

JUDGE, VERSION = "checks", "1"

_LABELS = frozenset(
    {
        rdf_names.RDFS + "label",
        rdf_names.SKOS + "prefLabel",
        rdf_names.SKOS + "altLabel",
        "http://xmlns.com/foaf/0.1/name",
        "http://schema.org/name",
        rdf_names.DCTERMS + "title",
        rdf_names.DC + "title",
    }
)
"""Properties whose values are names of a thing."""


class ChecksJudge:
    """The judge that leaves every run undecided in which the checks find no sure failure."""

    needs: frozenset[str] = frozenset()
    policy = CheckJudging()

    def judge(self, outcome: RunOutcome, inputs: JudgeInputs) -> Verdict:
        """Return the verdict that the checks gave already."""
        return inputs.checked


CHECKS = ChecksJudge()


class CheckedRun(NamedTuple):
    """The findings in order of `CODES`; which terms exist, if they were looked up; the query's answer, if known."""

    findings: list[Finding]
    terms: Grounding | None = None
    answer: Answer | None = None

    def verdict(self, purpose: Purpose = "learning") -> Verdict:
        """Return the verdict of the checks: a failure if a finding is sure, else undecided."""
        certain = [finding for finding in self.findings if finding.sure]
        said = "; ".join(f"{finding.message} ({finding.code})" for finding in certain or self.findings)
        return Verdict(
            verdict="failure" if certain else "undecided",
            reason=said if certain else f"no check decides it: {said or _nothing_found(self.terms)}",
            kind="check",
            judge=JUDGE,
            judge_version=VERSION,
            purpose=purpose,
            findings=tuple(self.findings),
            grounding=self.terms,
        )


def judge_by_checks(
    outcome: RunOutcome, source: Source | None = None, *, grounding: bool = True, purpose: Purpose = "learning"
) -> Verdict:
    """Return the verdict of the checks alone: a failure if a finding is sure, else undecided; never a success.

    Without a source, only the run's own events and the query's text are checked. `grounding` says whether terms are
    looked up in the source. Pure, given the source's answers. Raises `JudgeFailed` as `check` does.
    """
    return check(outcome, source, grounding=grounding).verdict(purpose)


def check(outcome: RunOutcome, source: Source | None = None, *, grounding: bool = True) -> CheckedRun:
    """Return the findings of the checks. A run that did not converge is not checked further.

    Raises `JudgeFailed` if a run converged but its submission is not in the bank.
    """
    if outcome.converged and not outcome.recorded:
        raise JudgeFailed(JUDGE, "what the run submitted was not recorded, or was erased")
    ended = _ended(outcome)
    if ended is not None:
        return CheckedRun([ended])
    query, unread = _read(outcome, source)
    terms = ground(query, outcome.answer, source) if source is not None and grounding else None
    if not outcome.sparql.strip():
        unasked = _no_query(outcome) if outcome.over_source(source) else ()
        return CheckedRun(_ordered([*unasked, *_ungrounded(terms)]), terms)
    if query is None:
        return CheckedRun(_ordered([*unread, *_ungrounded(terms)]), terms)
    evidence = gather(outcome, query, source)
    # Terms first: of two findings with one code the first is kept, and the guard's refusal is never sure.
    found = [*_ungrounded(terms, query, evidence), *([evidence.problem] if evidence.problem else [])]
    found += _of_answer(outcome, evidence, query, source)
    found += _of_query(outcome, evidence, query, source)
    return CheckedRun(_ordered(found), terms, evidence.answer)


def _read(outcome: RunOutcome, source: Source | None) -> tuple[ParsedQuery | None, list[Finding]]:
    """Return a submitted query as every check uses it, or why there is none to use."""
    try:
        return parse_query(outcome.sparql, source.surroundings.prefixes if source is not None else {}), []
    except QueryRefused as refused:
        # An engine that answered it knows more of SPARQL than this parser, or than its limits allow.
        answered = any(run.query == outcome.sparql and run.error_code is None for run in outcome.queries or ())
        if refused.code in ("syntax", "too_long"):
            message = f"the query can't be read: {refused.message}"
            return None, [
                Finding(code="unreadable_query", message=message, sure=refused.code == "syntax" and not answered)
            ]
        return None, [refused_finding(refused)]


def _ordered(findings: list[Finding]) -> list[Finding]:
    """Return the first finding of each code, in the order of `CODES`."""
    order = list(CODES)
    return sorted({each.code: each for each in reversed(findings)}.values(), key=lambda each: order.index(each.code))


def _ended(outcome: RunOutcome) -> Finding | None:
    """Return why nothing was submitted, if nothing was."""
    if outcome.converged:
        if outcome.answer.strip() or outcome.sparql.strip():
            return None
        what = "neither an answer nor a query" if outcome.over_source() else "no answer"
        return Finding(code="no_answer", message=f"{what} was submitted", sure=True)
    how = {"forced_at_limit": "it was stopped at a limit", "failed": "it failed"}[outcome.outcome]
    after = f" after {outcome.iterations:,} iterations" if outcome.iterations else ""
    why = f": {' '.join(outcome.error.split())[: limits.JUDGE_QUOTE_CHARS]}" if outcome.error else ""
    message = f"the run did not converge: {how}{after}{why}"
    return Finding(code="not_converged", message=message, sure=not outcome.by_provider)


def _no_query(outcome: RunOutcome) -> Iterator[Finding]:
    if outcome.saw_data:
        tools = ", ".join(outcome.looked) or "queries that it did not submit"
        yield Finding(code="no_query", message=f"no query was submitted; the run saw the data by {tools}")
    else:
        yield Finding(code="no_query", message="an answer in prose, with no query and no look at the data behind it")


def _ungrounded(
    terms: Grounding | None, query: ParsedQuery | None = None, evidence: QueryEvidence | None = None
) -> Iterator[Finding]:
    if terms is None:
        return
    if terms.unknown_in_query:
        named = ", ".join(terms.unknown_in_query)
        message = f"the query names what exists nowhere: {named}"
        # A query that found something does without the term: another graph has it, or another branch matched.
        barren = query is not None and (evidence is None or not evidence.rows) and _needs(query, terms.unknown_in_query)
        yield Finding(code="ungrounded_query", message=message, sure=barren)
    if terms.unknown_in_answer:
        named, share = ", ".join(terms.unknown_in_answer), terms.answer_share or 0
        message = f"the answer names what exists nowhere: {named} ({share:.0%} of its terms exist)"
        yield Finding(code="ungrounded_answer", message=message)
    if terms.absent:
        message = f"not in this source, which nobody declared whole: {', '.join(terms.absent)}; it may exist elsewhere"
        yield Finding(code="absent_term", message=message)


def _needs(query: ParsedQuery, written: Collection[str]) -> bool:
    """Return whether every solution of a query needs a term that it writes in one of these ways.

    Of ASK, and of a number over all solutions, nothing is said, because no solution is an answer there. Nor of a query
    that names its graphs: a term may be in those alone.
    """
    body = query.tree.body
    if query.tree.form == "ask" or query.tree.sources or tree.is_grouped(body):
        return False
    iris = {iri for iri, text in terms_of(query).items() if text in written}
    return bool(iris & set(tree.needed(body)))


def _nothing_found(terms: Grounding | None) -> str:
    """Return the reason for the verdict on a run without findings."""
    checked = ""
    if terms and terms.terms and not terms.unchecked:
        checked = "; the one term that it names exists"
        if terms.terms > 1:
            checked = f"; all {terms.terms:,} terms that it names exist"
    return f"the run submitted, and nothing speaks against it{checked}"


# ---------------------------------------------------------------- what query and answer show


def _of_answer(
    outcome: RunOutcome, evidence: QueryEvidence, query: ParsedQuery, source: Source | None
) -> Iterator[Finding]:
    answer = evidence.answer
    if answer is None or answer.form == "ask":
        return
    if not answer.rows:
        # Where there are no instances, a query about instances finds nothing however right it is.
        if source is None or not is_bare(source):
            yield Finding(code="empty_result", message="the query finds nothing, and that was submitted as an answer")
        return
    if evidence.recorded is not None and evidence.recorded.truncated and not tree.is_grouped(query.tree.body):
        yield from _truncated_answer(outcome.task, answer)
    if len(answer.rows) <= _JUDGE_FEW_ROWS and outcome.answer.strip() and not _names_a_value(outcome.answer, answer):
        values = "; ".join(row_line(row) for row in answer.rows[:2])  # two rows are enough to recognise a result
        message = f"the query found {values}, and the answer names nothing of it"
        yield Finding(code="answer_without_result", message=message)


def _truncated_answer(task: str, answer: Answer) -> Iterator[Finding]:
    counting = asks_for_count(task)
    if counting or asks_for_all(task):
        wanted = "their number" if counting else "all of them"
        message = f"the task asks for {wanted}, and the run saw only the first {len(answer.rows):,} rows"
        yield Finding(code="cut_result", message=message)


def _names_a_value(text: str, answer: Answer) -> bool:
    """Return whether a text names any value of a result, in any of its usual forms."""
    words = plain(text)
    return any(plain(name) in words for row in answer.rows for cell in row if cell for name in _names_of(cell))


def _names_of(cell: Cell) -> tuple[str, ...]:
    """Return the forms in which an answer may write a value."""
    if cell.kind == "iri":
        return (cell.value, local_name(cell.value))
    if cell.kind == "bnode":
        return ("",)  # nobody can name a blank node: any answer will do
    # An answer may write 45.0 as 45, and 45.250 as 45.25.
    whole = re.fullmatch(r"([+-]?\d+)\.0+|([+-]?\d+\.\d{2,}?)0*", cell.value)
    return (cell.value, *(part for part in (whole.groups() if whole else ()) if part), *_rounded(cell.value))


def _rounded(text: str) -> tuple[str, ...]:
    """Return a number as people round it; nothing for another text."""
    try:
        number = float(text)
    except ValueError:
        return ()
    return (f"{number:.1f}", f"{number:.2f}", f"{number:g}", f"{number:.0f}")


def _of_query(
    outcome: RunOutcome, evidence: QueryEvidence, query: ParsedQuery, source: Source | None
) -> Iterator[Finding]:
    yield from _limited(query, outcome.task, evidence.rows)
    yield from _made_up(query)
    yield from _named_only(query, outcome.task)
    if source is not None and source.schema is not None:
        yield from _untyped(query, source.schema)
    if source is not None and source.surroundings.fit is not None:
        found = mismatches(query.tree, source.surroundings.fit, Prefixes(dict(query.prefixes)).shorten)
        if found:
            yield Finding(code="class_mismatch", message="; ".join(found[: limits.CLASS_MISMATCHES]))


# ---------------------------------------------------------------- flaws of the query itself, whatever its result


def _limited(query: ParsedQuery, task: str, rows: int | None) -> Iterator[Finding]:
    """`limit_below_all`: the task asks for all, and the query's own LIMIT cuts the answer, or may cut it."""
    limit = query.limit
    if (
        limit is None
        or not asks_for_all(task)
        or tree.is_grouped(query.tree.body)
        or (rows is not None and rows < limit)
    ):
        return
    seen = "" if rows is None else f", and it gave {rows:,} rows"
    yield Finding(
        code="limit_below_all", message=f"the task asks for all, and the query stops at LIMIT {limit:,}{seen}"
    )


def _made_up(query: ParsedQuery) -> Iterator[Finding]:
    """`made_up_column`: a column holds only words that the query itself wrote, none that the data hold."""
    for name in sorted(set(tree.projected(query.tree.body))):
        written = list(_expressions_of(query, name))
        if written and all(isinstance(each, tree.Value) for each in written) and name not in _matched(query):
            words = ", ".join(dict.fromkeys(each.text for each in written if isinstance(each, tree.Value)))
            message = f"?{name} holds only what the query itself wrote ({words}): nothing of it comes from the data"
            yield Finding(code="made_up_column", message=message)


def _expressions_of(query: ParsedQuery, name: str) -> Iterator[tree.Expression]:
    """Yield the expressions that BIND and SELECT (… AS ?name) put under a name."""
    for element in tree.elements(query.tree):
        if isinstance(element, tree.Bind) and element.variable.name == name:
            yield element.expression
    columns = query.tree.body.columns
    yield from (column.expression for column in columns if column.variable.name == name and column.expression)


def _matched(query: ParsedQuery) -> set[str]:
    return {node.name for triple in tree.triples(query.tree) for node in triple if isinstance(node, tree.Variable)}


def _named_only(query: ParsedQuery, task: str) -> Iterator[Finding]:
    """`name_for_thing`: what is asked for are things, and a column has only what they are called.

    Different things may be called the same, and one thing by many names.
    """
    shown = set(tree.projected(query.tree.body))
    if asks_for_names(task) or tree.is_grouped(query.tree.body) or len(shown) < 2:
        return
    for triple in tree.triples(query.tree):
        thing, label = triple.subject, triple.object
        if not (isinstance(thing, tree.Variable) and isinstance(label, tree.Variable) and _is_label(triple)):
            continue
        if label.name in shown and thing.name not in shown:
            message = (
                f"?{label.name} is only what ?{thing.name} is called, and ?{thing.name} itself is not in the answer"
            )
            yield Finding(code="name_for_thing", message=message)


def _is_label(triple: tree.Triple) -> bool:
    predicate = triple.predicate
    return isinstance(predicate, tree.PathStep) and predicate.iri.iri in _LABELS


def _untyped(query: ParsedQuery, schema: Schema) -> Iterator[Finding]:
    """`untyped_variable`: things of several classes fit what is asked of a variable, and the query says not which.

    Told only where the schema settles it: every property that is asked of the variable starts from several classes,
    none of them a subclass of another, and nothing else in the pattern leads to it.
    """
    by_iri = {info.iri: info for info in schema.properties}
    for name in dict.fromkeys(tree.projected(query.tree.body)):
        asked = _asked_of(query, name)
        if not asked or rdf_names.TYPE in asked:
            continue
        shared = frozenset.intersection(*(_domains(by_iri.get(iri)) for iri in asked))
        classes = _topmost(shared, schema)
        if len(classes) > 1:
            named = ", ".join(sorted(map(local_name, classes)))
            message = f"?{name} has no type: by its properties it may be any of {named}"
            yield Finding(code="untyped_variable", message=message)


def _topmost(classes: frozenset[str], schema: Schema) -> frozenset[str]:
    """Return the classes that are no subclass of another one of them."""
    parents = {info.iri: info.parents for info in schema.classes}

    def above(iri: str) -> set[str]:
        found: set[str] = set()
        waiting = list(parents.get(iri, ()))
        while waiting:
            parent = waiting.pop()
            if parent not in found:
                found.add(parent)
                waiting += parents.get(parent, ())
        return found

    return frozenset(iri for iri in classes if not (above(iri) - {iri}) & classes)


def _asked_of(query: ParsedQuery, name: str) -> set[str] | None:
    """Return the properties of which a variable is the subject; None where the pattern says more of it."""
    found: set[str] = set()
    for triple in tree.triples(query.tree):
        if isinstance(triple.object, tree.Variable) and triple.object.name == name:
            return None
        if not (isinstance(triple.subject, tree.Variable) and triple.subject.name == name):
            continue
        if not isinstance(triple.predicate, tree.PathStep):
            return None
        found.add(triple.predicate.iri.iri)
    return found


def _domains(info: PropertyInfo | None) -> frozenset[str]:
    return frozenset(bound.iri for bound in info.domains) if info else frozenset()
