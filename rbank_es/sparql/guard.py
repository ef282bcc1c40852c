"""The guard: the queries that may go to an engine, in the form in which they go there.

Pure: no network, no engine, the same for the same input. A query is parsed by our own grammar and changed at places
that this found; what came of it is parsed once more and must have the same form and the LIMIT that was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import NamedTuple, NoReturn

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.events.notebook_repr import Shown
from rbank_es.ontology.disjointness import ClassFit
from rbank_es.ontology.prefixes import Prefixes, is_refused, local_name
from rbank_es.ontology.schema_model import TermKind
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.class_check import mismatches
from rbank_es.sparql.endpoint_profiles import LOCAL, Profile
from rbank_es.sparql.lint import LintFinding, findings, refuse_scopes
from rbank_es.sparql.parser.parsed_query import ParsedQuery, form_and_limit, parse_query
from rbank_es.sparql.parser.tokens import (
    Edit,
    clipped,
    plain_edits,
    refuse_at,
    rewritten,
    shown,
)
from rbank_es.sparql.parser.tree import Use, projected, uses
from rbank_es.sparql.results import TRIPLE, Form

_LIKE_PREFIX = 0.75
"""The least ratio of difflib at which two prefixes are alike: at 0.5, `p:` and `up:` would be like `np:`."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The data that a query is checked against."""

    prefixes: Mapping[str, str]
    """Prefixes that are declared for a query that uses them undeclared; well-known ones need not be among them."""
    graphs: frozenset[str] = frozenset()
    """The named graphs of local data, which FROM may name."""
    remote: bool = False
    """Whether the query goes to an endpoint, where FROM may name anything."""
    engine_counts_triples: bool = False
    """Whether the engine itself stops at so many triples of a graph, which then needs no LIMIT."""
    vocabulary: Vocabulary | None = None
    """The terms that a query may name; None where nobody knows."""
    fit: ClassFit | None = None
    """The classes that fit each other and the ends of properties; None where nobody knows."""
    profile: Profile = LOCAL


class Checked(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """A query that may run."""

    query: str
    """The text for the engine."""
    parsed: ParsedQuery
    """The query as it came."""
    form: Form
    variables: tuple[str, ...]
    """Names in their order; those of `SELECT *` sorted; subject, predicate, object of a graph; none of ASK."""
    rows: int
    """Rows that the answer may hold; the engine is asked for one more where there may be more."""
    limit_applied: int | None
    """The LIMIT that it has now; None for ASK, and for a graph whose triples the engine counts."""
    added_prefixes: tuple[str, ...]
    warnings: tuple[LintFinding, ...]


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """A query that may run unless its endpoint is too slow for it."""

    checked: Checked
    refused_by: tuple[LintFinding, ...]
    """Findings that the endpoint's profile refuses, with the alternative that it names."""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A query that was checked and not run."""

    query: str
    """The text that would go to the engine."""
    form: Form
    variables: tuple[str, ...]
    limit: int | None
    """The LIMIT that it would have; None where there would be none."""
    added_prefixes: tuple[str, ...]
    warnings: tuple[LintFinding, ...]
    """Findings that are slow, or probably not meant, and would run."""
    refused_by: tuple[LintFinding, ...]
    """Findings that the endpoint's profile would refuse, each with the fast alternative; empty where it would run."""


def check(query: str, surroundings: Surroundings, rows: int) -> Checked:
    """Return a query in the form in which it may run, for an answer of at most `rows` rows.

    Prefixes that it uses and doesn't declare are added; its outer LIMIT becomes `rows + 1` where it is absent or
    larger, because one row more tells whether there are more. Raises `QueryRefused`, and nothing else.
    """
    examined = examine(query, surroundings, rows)
    if examined.refused_by:
        first = examined.refused_by[0]
        where = surroundings.profile.name
        raise QueryRefused("slow_here", f"too slow on {where}: {first.message}", first.alternative)
    return examined.checked


def explain(query: str, surroundings: Surroundings, rows: int = limits.QUERY_ROWS_DEFAULT) -> Explained:
    """Return the query that would run for an answer of `rows` rows, with everything there is to say about it.

    Raises `QueryRefused` for what `check` refuses, apart from queries that are only slow at this endpoint.
    """
    examined = examine(query, surroundings, rows)
    checked = examined.checked
    return Explained(
        query=checked.query,
        form=checked.form,
        variables=checked.variables,
        limit=checked.limit_applied,
        added_prefixes=checked.added_prefixes,
        warnings=checked.warnings,
        refused_by=examined.refused_by,
    )


def examine(query: str, surroundings: Surroundings, rows: int) -> Examined:
    """Check a query as `check` does, but return what the endpoint's profile refuses instead of raising it."""
    parsed = parse_query(query, {**surroundings.profile.prefixes, **surroundings.prefixes})
    # Prefixes first: a name without a namespace is no term that could be looked up.
    if parsed.unknown:
        _refuse_prefixes(parsed, surroundings.vocabulary)
    refuse_scopes(parsed, local=not surroundings.remote)
    if not surroundings.remote:
        _refuse_sources(parsed, surroundings.graphs)
    if surroundings.vocabulary is not None:
        _refuse_unknown(parsed, surroundings.vocabulary, whole=not surroundings.remote)
    # One row more than asked for: only its arrival proves that the answer is truncated.
    limit = _limited(parsed, rows, bounds_graphs=not surroundings.engine_counts_triples)
    edits = [
        *_declarations(parsed),
        *plain_edits(parsed.tokens),
        *_expanded_names(parsed),
        *([limit.edit] if limit.edit else []),
    ]
    text = rewritten(query, edits)
    _confirm(parsed, text, limit)
    graphs = None if surroundings.remote else surroundings.graphs
    found = (
        *findings(parsed.tree, graphs),
        *_about_classes(parsed, surroundings.fit),
        *_about_limit(parsed, limit),
    )
    refuses = surroundings.profile.refuses
    warnings = tuple(finding for finding in found if finding.code not in refuses)
    return Examined(
        checked=_checked(parsed, text, limit, rows, warnings),
        refused_by=tuple(
            msgspec.structs.replace(f, alternative=refuses[f.code] or f.alternative) for f in found if f.code in refuses
        ),
    )


def _checked(parsed: ParsedQuery, text: str, limit: _Limited, rows: int, warnings: tuple[LintFinding, ...]) -> Checked:
    tree = parsed.tree
    # The LIMIT of a graph's query counts solutions, so it says nothing of how many triples there may be.
    most = limit.theirs if tree.form == "select" and limit.theirs is not None else rows
    return Checked(
        query=text,
        parsed=parsed,
        form=tree.form,
        variables={"select": projected(tree.body), "ask": ()}.get(tree.form, TRIPLE),
        rows=min(rows, most),
        limit_applied=limit.applied,
        added_prefixes=tree.added_prefixes,
        warnings=warnings,
    )


# ---------------------------------------------------------------- prefixes and sources


def _declarations(parsed: ParsedQuery) -> list[Edit]:
    """Return the prefixes to be added, as one insertion at the beginning."""
    lines = [f"PREFIX {prefix}: <{parsed.prefixes[prefix]}>\n" for prefix in parsed.tree.added_prefixes]
    return [Edit(0, 0, "".join(lines))] if lines else []


def _expanded_names(parsed: ParsedQuery) -> list[Edit]:
    """Return the edits that write those prefixed names as IRIs which pyoxigraph refuses, such as `ec:1.1.1.353`."""
    iris = parsed.notes.iris
    refused = (each for each in parsed.tokens if each.kind == "name" and each.offset in iris and is_refused(each.text))
    return [Edit(each.offset, each.end, f"<{iris[each.offset]}>") for each in refused]


def _refuse_prefixes(parsed: ParsedQuery, vocabulary: Vocabulary | None) -> NoReturn:
    """Raise for prefixes that nobody declares, with the known terms of the same local name, else the nearest prefixes.

    A prefix that is usual elsewhere (`np:`) seldom resembles the one that the data have for its namespace, while the
    local name is the same.
    """
    named = ", ".join(f"{clipped(prefix)}:" for prefix in list(parsed.unknown)[: limits.UNKNOWN_TERMS_NAMED])
    prefix, token = next(iter(parsed.unknown.items()))
    written = f"{prefix}:"
    named_so = [each for each in parsed.tokens if each.kind == "name" and each.text.startswith(written)]
    meant = {each.text: vocabulary.named(local_name(each.text)) for each in named_so} if vocabulary is not None else {}
    known = {name: space for name, space in parsed.prefixes.items() if name not in parsed.tree.prefixes}
    shorten = Prefixes(known).shorten
    found = [
        f"instead of {clipped(text)} try {' or '.join(map(shorten, iris[: limits.NEAREST_NAMES]))}"
        for text, iris in meant.items()
        if iris
    ]
    hints = found[: limits.NEAREST_NAMES] or [
        f"declare it in front of the query: PREFIX {clipped(prefix)}: <namespace IRI>"
    ]
    near = get_close_matches(prefix.lower(), sorted(known), limits.NEAREST_NAMES, _LIKE_PREFIX) if not found else []
    hints += [f"known here are {', '.join(f'{name}: <{known[name]}>' for name in near)}"] if near else []
    refuse_at(token, "unknown_prefix", f"not declared and not known here: {named}", "; ".join(hints))


def _refuse_sources(parsed: ParsedQuery, graphs: Collection[str]) -> None:
    """Raise `from_refused` for a FROM that names no graph of the data: engines may fetch or open it."""
    for source in parsed.tree.sources:
        # rdflib was seen to read a local file that FROM names, even where a graph has the file's name.
        if source.iri not in graphs or source.iri.lower().startswith("file:"):
            token = parsed.token_at(source.offset)
            hint = "leave out FROM: all data is in the default graph"
            if graphs:
                named = ", ".join(f"<{graph}>" for graph in sorted(graphs)[: limits.NAMES_LISTED])
                hint = f"leave out FROM, or name one of the {len(graphs)} graphs here: {named}"
            refuse_at(token, "from_refused", f"FROM {shown(token)} names no graph of this data", hint)


# ---------------------------------------------------------------- terms


def _refuse_unknown(parsed: ParsedQuery, vocabulary: Vocabulary, *, whole: bool) -> None:
    """Raise `QueryRefused('unknown_term')` that names the unknown terms of a query, each with the nearest known ones.

    For `whole` see `uses`.
    """
    # By kind too: the same IRI may be known as a class and unknown as a property.
    unknown: dict[tuple[TermKind, str], Use] = {}
    for use in uses(parsed.tree, whole=whole):
        if not _knows(vocabulary, use):
            unknown.setdefault((use.kind, use.iri), use)
    if not unknown:
        return
    shorten = Prefixes(dict(parsed.prefixes)).shorten
    shown = [
        (use, clipped(parsed.token_at(use.offset).text)) for use in list(unknown.values())[: limits.UNKNOWN_TERMS_NAMED]
    ]
    more = f" and {len(unknown) - limits.UNKNOWN_TERMS_NAMED} more" if len(unknown) > limits.UNKNOWN_TERMS_NAMED else ""
    refuse_at(
        parsed.token_at(shown[0][0].offset),
        "unknown_term",
        f"unknown: {', '.join(f'{written} (no {use.kind} here)' for use, written in shown)}{more}",
        "; ".join(_suggestion(use, written, vocabulary, shorten) for use, written in shown),
    )


def _knows(vocabulary: Vocabulary, use: Use) -> bool:
    return vocabulary.knows_class(use.iri) if use.kind == "class" else vocabulary.knows_property(use.iri)


def _suggestion(use: Use, written: str, vocabulary: Vocabulary, shorten: Callable[[str], str]) -> str:
    if use.kind == "property" and use.iri in vocabulary.classes:
        return f"{written} is a class: ?x a {written}"
    if use.kind == "class" and use.iri in vocabulary.properties:
        return f"{written} is a property: ?x {written} ?y"
    nearest = vocabulary.nearest(use.iri, use.kind, limits.NEAREST_NAMES)
    if nearest:
        return f"instead of {written} try {' or '.join(map(shorten, nearest))}"
    return f"nothing here has a name like {written}: look at the schema"


# ---------------------------------------------------------------- the outer LIMIT


class _Limited(NamedTuple):
    """The LIMIT of a query, and the one that it gets. `edit` is None where the text stays as it is."""

    theirs: int | None
    applied: int | None
    edit: Edit | None = None


def _limited(parsed: ParsedQuery, rows: int, *, bounds_graphs: bool) -> _Limited:
    """Return the LIMIT for at most `rows` rows and one more, which tells whether there are more.

    A smaller one, an OFFSET and everything within subselects stay as they are; ASK has none.
    """
    query, theirs, most = parsed.tree, parsed.limit, rows + 1
    # LIMIT counts solutions, of which any number may make one triple: with it, nobody could tell whether a graph is
    # whole. Without it, an endpoint might send all it has.
    is_free = query.form == "ask" or (query.form in ("construct", "describe") and not bounds_graphs)
    if is_free or (theirs is not None and theirs <= most):
        return _Limited(theirs, theirs)
    if token := query.body.limit:
        return _Limited(theirs, most, Edit(token.offset, token.end, str(most)))
    if query.values_offset is not None:
        return _Limited(None, most, Edit(query.values_offset, query.values_offset, f"LIMIT {most}\n"))
    end = len(parsed.text.rstrip())
    # On a line of its own: the last one may be a comment.
    return _Limited(None, most, Edit(end, end, f"\nLIMIT {most}"))


def _about_classes(parsed: ParsedQuery, fit: ClassFit | None) -> tuple[LintFinding, ...]:
    """Return a warning for each class that doesn't fit a property, up to `CLASS_MISMATCHES`."""
    if fit is None:
        return ()
    found = mismatches(parsed.tree, fit, Prefixes(dict(parsed.prefixes)).shorten)
    hint = "look at the schema: another class or another property may be meant, or the other direction"
    shown = found[: limits.CLASS_MISMATCHES]
    return tuple(LintFinding(code="class_mismatch", message=each, alternative=hint) for each in shown)


def _about_limit(parsed: ParsedQuery, limit: _Limited) -> tuple[LintFinding, ...]:
    """Return a warning where a LIMIT that was put in counts solutions, while the answer is counted in triples."""
    if parsed.tree.form not in ("construct", "describe") or limit.edit is None:
        return ()
    return (
        LintFinding(
            code="limit_counts_solutions",
            message=f"LIMIT {limit.applied} was put in; it counts solutions of the pattern, not triples",
            alternative="give a LIMIT of your own, or narrow the pattern, to be sure that the graph is whole",
        ),
    )


def _confirm(parsed: ParsedQuery, text: str, limit: _Limited) -> None:
    """Raise unless the text for the engine, read anew, has the query's form and the LIMIT that was meant.

    A mistake in the places of our edits would send a query without a limit.
    """
    if form_and_limit(text, parsed.prefixes) != (parsed.tree.form, limit.applied):
        hint = "write LIMIT once, as a plain number at the very end"
        raise QueryRefused("syntax", "the place of its LIMIT can't be told for certain", hint, line=1, column=1)
