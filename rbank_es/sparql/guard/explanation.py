"""What a query would do, told without running it."""

from __future__ import annotations

import msgspec

from rbank_es import limits
from rbank_es.sparql.answers import Form
from rbank_es.sparql.guard.guard import Surroundings, examine
from rbank_es.sparql.guard.lint import Finding


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
