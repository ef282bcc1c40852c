"""The evidence of a source about a submission: which terms of query and answer exist, and what the query finds.

The source isn't asked for what the run's own events tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryFailed, QueryRefused
from rbank_es.judging.query_comparison import fingerprint
from rbank_es.judging.run_outcome import QueryRun, RunOutcome
from rbank_es.judging.verdict import Finding, Grounding
from rbank_es.ontology.defined_namespaces import is_settled
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.ontology.rdf_names import CLOSED
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.ontology.written_terms import written_terms
from rbank_es.sparql.data_source import Source, is_valid_iri, open_source, terms_in_data
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset
from rbank_es.sparql.parser.parsed_query import ParsedQuery, parse_query
from rbank_es.sparql.parser.tree import uses
from rbank_es.sparql.results import Answer, Form

_COMMON = ("rdf", "rdfs", "owl", "xsd", "skos")
"""Prefixes that an answer may use without declaring them; others must be those of the source or of its query."""

_QUERY_AT_FAULT = frozenset({"bad_query", "timeout", "out_of_memory"})
"""Codes of `QueryFailed` that are the query's own fault; the others are the endpoint's, or this machine's."""


def ground(query: ParsedQuery | None, answer: str, source: Source) -> Grounding:
    """Return which terms of a query, and which IRIs and prefixed names of an answer, exist in a source.

    Terms that the schema doesn't have are looked up in the data, by one query for at most `JUDGE_TERMS` terms. Those
    that are missing there exist nowhere only where `exists_nowhere` says so. Without a query, or with one that can't be
    read (None), only the answer is searched. Never raises, whatever a run submitted.
    """
    in_query = terms_of(query) if query is not None else {}
    roles = {use.iri for use in uses(query.tree, whole=True)} if query is not None else set[str]()
    declared = query.tree.prefixes if query is not None else {}
    common = {prefix: WELL_KNOWN[prefix] for prefix in _COMMON}
    in_answer = written_terms(answer, {**common, **source.surroundings.prefixes, **declared})
    terms = {**in_answer, **in_query}
    missing, unchecked = _missing([*in_query, *in_answer], source)
    unknown = {iri for iri in missing if exists_nowhere(iri, source, is_term=iri in roles)}
    absent = missing - unknown
    if is_bare(source):
        # A schema alone has no individual of anybody's, so that one is missing is no news.
        absent, unchecked = absent & roles, unchecked | (absent - roles)
    return Grounding(
        terms=len(terms),
        unknown_in_query=tuple(written for iri, written in in_query.items() if iri in unknown),
        unknown_in_answer=tuple(written for iri, written in in_answer.items() if iri in unknown),
        named_in_answer=len(in_answer),
        absent=tuple(terms[iri] for iri in terms if iri in absent),
        unchecked=tuple(terms[iri] for iri in terms if iri in unchecked),
    )


def exists_nowhere(iri: str, source: Source, *, is_term: bool) -> bool:
    """Return whether a term that a source lacks surely exists nowhere: the one rule of all checks and of the gate.

    A text that is no valid IRI names nothing. In a source that was declared whole, nothing that is missing exists. Any
    other source tells only of classes and properties (`is_term`: the query uses it as one): they exist nowhere if their
    namespace is one that the source defines, or that of a vocabulary whose terms are fixed. A missing individual may be
    in the data that this schema, or this extract, is about; so may a term of an answer, whose kind nobody knows.
    """
    if source.is_whole or not is_valid_iri(iri):
        return True
    if not is_term:
        return False
    return iri.startswith(CLOSED) or (source.schema is not None and is_settled(iri, source.schema))


def is_bare(source: Source) -> bool:
    """Return whether a source is known to have no instances: an empty result proves nothing there."""
    return source.schema is not None and source.schema.individuals == 0 and not source.schema.concepts


def terms_of(query: ParsedQuery) -> dict[str, str]:
    """Return the IRIs that a query names as things, anywhere in it, each with its first spelling; in order.

    Left out are those of its prologue, datatypes, functions, and the graphs that it asks.
    """
    found: dict[str, str] = {}
    for token in query.words:
        iri = query.notes.iris.get(token.offset)
        if iri is not None and query.notes.roles.get(token.offset) not in ("datatype", "function", "graph"):
            found.setdefault(iri, token.text)
    return found


# ---------------------------------------------------------------- look-up


def _missing(iris: Iterable[str], source: Source) -> tuple[frozenset[str], frozenset[str]]:
    """Return the IRIs that a source lacks, and those that could not be looked up."""
    vocabulary = source.surroundings.vocabulary
    left = [iri for iri in dict.fromkeys(iris) if not (vocabulary and _in_schema(iri, vocabulary))]
    # Left out of the query, because a single invalid IRI would make the look-up of all others fail.
    unreadable = {iri for iri in left if not is_valid_iri(iri)}
    asked = [iri for iri in left if iri not in unreadable][: limits.JUDGE_TERMS]
    present = terms_in_data(asked, source)
    if present is None:
        return frozenset(unreadable), frozenset(left) - unreadable
    unasked = frozenset(left) - frozenset(asked) - unreadable
    return (frozenset(asked) - present) | unreadable, unasked


def _in_schema(iri: str, vocabulary: Vocabulary) -> bool:
    return vocabulary.knows_class(iri) or vocabulary.knows_property(iri)


# ---------------------------------------------------------------- the answer of the submitted query


class QueryEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a submitted query, if known.

    `recorded` is the answer that the run got. `answer` is the same or, without it, the source's answer now. `problem`
    is the finding if the query has no answer by its own fault.
    """

    answer: Answer | None = None
    recorded: Answer | None = None
    problem: Finding | None = None

    @property
    def rows(self) -> int | None:
        """The number of rows of the answer; None if it is unknown, or a yes or no."""
        return len(self.answer.rows) if self.answer is not None and self.answer.form != "ask" else None


def gather(outcome: RunOutcome, query: ParsedQuery, source: Source | None) -> QueryEvidence:
    """Return the answer of a run's submitted query. Asks the source only if the run's events have none."""
    # The run's own answer is preferred to the source's: it is what the agent saw, and it costs no query.
    recorded = _recorded(query, outcome.queries or ())
    if recorded is not None and recorded.answer is not None:
        return QueryEvidence(answer=recorded.answer, recorded=recorded.answer)
    answer, problem = ask(outcome.sparql, source) if source is not None else (None, None)
    if problem is None and outcome.queries is not None and recorded is None:
        problem = _not_run(outcome.queries, answer)
    return QueryEvidence(answer=answer, problem=problem)


def _recorded(query: ParsedQuery, runs: tuple[QueryRun, ...]) -> QueryRun | None:
    """Return the last time that the run got an answer to the same query."""
    # From the end, because the last answer is the one that the agent submitted.
    return next((run for run in reversed(runs) if run.error_code is None and _is_same(run.query, query)), None)


def _is_same(text: str, query: ParsedQuery) -> bool:
    try:
        return text == query.text or fingerprint(parse_query(text, query.prefixes)) == fingerprint(query)
    except QueryRefused:
        return False


def ask(sparql: str, source: Source) -> tuple[Answer | None, Finding | None]:
    """Return a source's answer to a query, or the query's flaw; neither if the source is at fault."""
    try:
        return source.query(sparql, rows=limits.QUERY_ROWS)[1], None
    except QueryRefused as refused:
        return None, refused_finding(refused)
    except QueryFailed as failed:
        if failed.code not in _QUERY_AT_FAULT:
            return None, None
        # Another day, or another machine, may have time and memory enough for it.
        certain = failed.code == "bad_query"
        return None, Finding(code="failed_query", message=f"the query fails: {failed.message}", sure=certain)


def _not_run(runs: tuple[QueryRun, ...], answer: Answer | None) -> Finding | None:
    """Return the finding that the run never ran its query, unless another query of the run had the same answer."""
    from rbank_es.judging.result_comparison import compare_results

    seen = (run.answer for run in runs if run.answer is not None and run.error_code is None)
    if answer is not None and any(compare_results(answer, other).equal for other in seen):
        return None
    message = f"the submitted query is none of the {len(runs):,} that the run had answered"
    return Finding(code="query_not_run", message=message + (", nor has it their answer" if answer is not None else ""))


def refused_finding(refused: QueryRefused) -> Finding:
    """Return the finding about a query that the guard refused."""
    code = "ungrounded_query" if refused.code == "unknown_term" else "refused_query"
    # Only a query that changes data can't be right: an endpoint may take a SERVICE, or know a prefix of its own.
    return Finding(code=code, message=f"the query was refused: {refused.message}", sure=refused.code == "not_read_only")


# ---------------------------------------------------------------- a source that has only a description


class SilentEngine:
    """A query engine without data."""

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        """Raise `QueryFailed` with the code `unreachable`."""
        raise QueryFailed("unreachable", "there is only a description, and nothing to ask", "name an endpoint")

    def close(self) -> None:
        """Do nothing: no resource is held."""


def described(void: str | Path) -> Source:
    """Return a source with the schema of a VoID file, of which nothing can be queried. Raises `BadOntology`."""
    source = open_source(endpoint="http://described.invalid/sparql", void=void)
    return msgspec.structs.replace(source, id=Path(void).stem, engine=SilentEngine())
