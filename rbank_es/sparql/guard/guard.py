"""The guard: what may go to an engine, in the form in which it goes there.

Pure: no network, no engine, the same for the same input. A query is read by our own grammar, changed at places that
this reading found, and what came out is read once more by another parser, which must find the same form and LIMIT.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple, NoReturn

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.guard.cross_check import edits_for_judge, judge
from rbank_es.sparql.guard.forbidden import refuse_by_token, refuse_sources
from rbank_es.sparql.guard.lint import Finding, findings
from rbank_es.sparql.guard.profiles import LOCAL, Profile
from rbank_es.sparql.guard.scopes import refuse_scopes
from rbank_es.sparql.guard.unknown_terms import refuse_unknown
from rbank_es.sparql.parser.grammar import read
from rbank_es.sparql.parser.tokens import (
    Edit,
    Lines,
    Token,
    clipped,
    original_offset,
    plain_edits,
    refuse_at,
    rewritten,
    tokenise,
)
from rbank_es.sparql.parser.tree import Query, projected
from rbank_es.sparql.results import TRIPLE, Form


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a query is checked against."""

    prefixes: Mapping[str, str]
    """Prefixes that are declared for a query that uses them undeclared; well-known ones need not be among them."""
    graphs: frozenset[str] = frozenset()
    """The named graphs of local data, which FROM may name."""
    remote: bool = False
    """Whether the query goes to an endpoint, where FROM may name anything."""
    vocabulary: Vocabulary | None = None
    """What a query may name; None where nobody knows."""
    profile: Profile = LOCAL


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A query that may run."""

    query: str
    """What goes to the engine."""
    form: Form
    variables: tuple[str, ...]
    """Names in their order; those of `SELECT *` sorted; subject, predicate, object of a graph; none of ASK."""
    rows: int
    """Rows that the answer may hold; the engine is asked for one more where there may be more."""
    their_limit: int | None
    """The LIMIT that the query came with."""
    limit_applied: int | None
    """The LIMIT that it has now; None for ASK."""
    added_prefixes: tuple[str, ...]
    warnings: tuple[Finding, ...]


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """A query that may run if its endpoint isn't too slow for it."""

    checked: Checked
    refused_by: tuple[Finding, ...]
    """Findings that the endpoint's profile refuses, with the alternative that it names."""


def check(query: str, surroundings: Surroundings, rows: int) -> Checked:
    """The query as it may run, for an answer of at most `rows` rows.

    Prefixes that it uses and doesn't declare are added; its outer LIMIT becomes `rows + 1` where it is absent or
    larger, so that whoever runs it can tell whether there are more. Raises `QueryRefused`, and nothing else.
    """
    examined = examine(query, surroundings, rows)
    if examined.refused_by:
        first = examined.refused_by[0]
        where = surroundings.profile.name
        raise QueryRefused("slow_here", f"too slow on {where}: {first.message}", first.alternative)
    return examined.checked


def examine(query: str, surroundings: Surroundings, rows: int) -> Examined:
    """The same, with what the endpoint's profile refuses told instead of raised. Raises `QueryRefused` for all else."""
    tokens = tokenise(query)
    refuse_by_token(tokens)
    known = _known_prefixes(surroundings)
    tree, unknown = read(tokens, known)
    if unknown:
        _refuse_prefixes(unknown, known)
    places = {token.offset: token for token in tokens}
    refuse_scopes(tree, places)
    if not surroundings.remote:
        refuse_sources(tree, surroundings.graphs, places)
    if surroundings.vocabulary is not None:
        refuse_unknown(tree, surroundings.vocabulary, known, places, whole=not surroundings.remote)
    change = limited(tree, query, rows)
    edits = [*_declarations(tree, known), *plain_edits(tokens), *([change.edit] if change.edit else [])]
    _confirm(query, [*edits, *edits_for_judge(tokens)], tree.form, change)
    text = rewritten(query, edits)
    graphs = None if surroundings.remote else surroundings.graphs
    found = (*findings(tree, graphs), *_about_limit(tree, change))
    refuses = surroundings.profile.refuses
    return Examined(
        checked=_checked(text, tree, change, rows, tuple(f for f in found if f.code not in refuses)),
        refused_by=tuple(
            msgspec.structs.replace(f, alternative=refuses[f.code] or f.alternative) for f in found if f.code in refuses
        ),
    )


def _checked(text: str, tree: Query, change: Limited, rows: int, warnings: tuple[Finding, ...]) -> Checked:
    """What was found, put together. A LIMIT of a graph's query counts solutions, so it says nothing of its triples."""
    solutions = tree.form == "select" and change.theirs is not None
    variables = {"select": projected(tree.body), "ask": ()}.get(tree.form, TRIPLE)
    return Checked(
        query=text,
        form=tree.form,
        variables=variables,
        rows=min(rows, change.theirs) if solutions and change.theirs is not None else rows,
        their_limit=change.theirs,
        limit_applied=change.applied,
        added_prefixes=tree.added_prefixes,
        warnings=warnings,
    )


def _known_prefixes(surroundings: Surroundings) -> dict[str, str]:
    """The prefixes that may be added, the most particular ones first to count."""
    return {**WELL_KNOWN, **surroundings.profile.prefixes, **surroundings.prefixes}


def _refuse_prefixes(unknown: dict[str, Token], known: Mapping[str, str]) -> NoReturn:
    """Raise for prefixes that nobody declares, with the nearest known ones."""
    named = ", ".join(f"{clipped(prefix)}:" for prefix in list(unknown)[:5])
    prefix, token = next((clipped(prefix), token) for prefix, token in unknown.items())
    near = get_close_matches(prefix.lower(), sorted(known), 3, 0.5)
    hint = f"declare it in front of the query: PREFIX {prefix}: <namespace IRI>"
    if near:
        hint += "; known here are " + ", ".join(f"{name}: <{known[name]}>" for name in near)
    refuse_at(token, "unknown_prefix", f"not declared and not known here: {named}", hint)


def _declarations(tree: Query, known: Mapping[str, str]) -> list[Edit]:
    """The prefixes to be added, as one change at the beginning."""
    lines = [f"PREFIX {prefix}: <{known[prefix]}>\n" for prefix in tree.added_prefixes]
    return [Edit(0, 0, "".join(lines))] if lines else []


def _confirm(query: str, edits: list[Edit], form: Form, change: Limited) -> None:
    """Raise unless the other parser reads the form and the outer LIMIT that are meant in a query with its edits."""
    judgement = judge(rewritten(query, edits))
    if not judgement.error and (judgement.form, judgement.limit) == (form, change.applied):
        return
    line, column = Lines(query).of(min(original_offset(edits, judgement.offset), len(query)))
    if judgement.error:
        message = f"a second parser can't read this: {judgement.error}"
        raise QueryRefused("syntax", message, judgement.hint, line=line, column=column)
    message = "two parsers read this differently"
    raise QueryRefused("syntax", message, "write LIMIT once, as a plain number at the very end")


def _about_limit(tree: Query, change: Limited) -> tuple[Finding, ...]:
    """A warning where a LIMIT that was put in bounds solutions, while the answer is counted in triples."""
    if tree.form not in ("construct", "describe") or change.edit is None:
        return ()
    return (
        Finding(
            code="limit_counts_solutions",
            message=f"LIMIT {change.applied} was put in; it counts solutions of the pattern, not triples",
            alternative="give a LIMIT of your own, or narrow the pattern, to be sure that the graph is whole",
        ),
    )


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A query that was read and not run."""

    query: str
    """What would go to the engine."""
    form: Form
    variables: tuple[str, ...]
    limit: int | None
    """The LIMIT that it would have; None for ASK."""
    added_prefixes: tuple[str, ...]
    warnings: tuple[Finding, ...]
    """What is slow, or probably not meant, and would run."""
    refused_by: tuple[Finding, ...]
    """What the endpoint's profile would refuse it for, each with the fast alternative; empty where it would run."""


def explain(query: str, surroundings: Surroundings, rows: int = limits.QUERY_ROWS_DEFAULT) -> Explained:
    """What would go to the engine for an answer of `rows` rows, and what there is to say about it.

    Raises `QueryRefused` for what `check` refuses too, but for what is only slow at this endpoint.
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


class Limited(NamedTuple):
    """What becomes of the LIMIT. `edit` is None where the text stays as it is."""

    theirs: int | None
    applied: int | None
    edit: Edit | None = None


def limited(query: Query, text: str, rows: int) -> Limited:
    """The LIMIT for at most `rows` rows and one more, which tells whether there are more.

    A smaller one, an OFFSET and everything within subselects stay as they are; ASK has none.
    """
    token, most = query.body.limit, rows + 1
    theirs = int(token.text) if token else None
    if query.form == "ask" or (theirs is not None and theirs <= most):
        return Limited(theirs, theirs)
    if token:
        return Limited(theirs, most, Edit(token.offset, token.end, str(most)))
    if query.values_offset is not None:
        return Limited(None, most, Edit(query.values_offset, query.values_offset, f"LIMIT {most}\n"))
    end = len(text.rstrip())
    # On a line of its own: the last one may be a comment.
    return Limited(None, most, Edit(end, end, f"\nLIMIT {most}"))
