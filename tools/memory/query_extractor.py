"""Extractors: what makes a memory of a query that worked, or a warning of one that didn't.

An extractor only proposes. What it makes goes into the log as `memory_proposed`, and becomes a memory when the run was
judged and the policies decided so. The one here needs no model: it makes a pattern of the query, without its data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from rbank_es import limits
from rbank_es.events import MemoryProposed
from rbank_es.events.items import Item
from rbank_es.ontology.schema_model import Schema
from rbank_es.tools.runtime.encoder import text_of

if TYPE_CHECKING:
    from rbank_es.tools.runtime.tool_session import ToolSession


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What an extractor is told about one query.

    `reason` says why it was judged a success, or what went wrong; `error_code` is the code of the error, if a tool
    gave one. `rows` is how many rows it gave (triples, for a graph), None where that is not known. `domain` is the id
    of the ontology, `prefixes` and `schema` are what is known about it.
    """

    query: str
    task: str = ""
    reason: str = ""
    error_code: str = ""
    variables: tuple[str, ...] = ()
    rows: int | None = None
    domain: str | None = None
    prefixes: Mapping[str, str] = {}
    schema: Schema | None = None

    @classmethod
    def on(
        cls, session: ToolSession, query: str, *, task: str = "", variables: tuple[str, ...] = (), rows: int | None
    ) -> Evidence:
        """A query of this run, with what its source knows about the ontology."""
        source = session.source
        return cls(
            query=query,
            task=task,
            variables=variables,
            rows=rows,
            domain=session.domain,
            prefixes={} if source is None else source.surroundings.prefixes,
            schema=None if source is None else source.schema,
        )


class Extractor(Protocol):
    """Makes items of evidence. What it makes keeps the limits of items; None where there is nothing to learn."""

    @property
    def label(self) -> str:
        """Name and version, such as `query-pattern-1`."""
        ...

    def from_success(self, evidence: Evidence) -> Item | None:
        """A procedure from a query that answered its question."""
        ...

    def from_failure(self, evidence: Evidence) -> Item | None:
        """A pitfall from a query that failed, or that answered with nothing or with the wrong thing."""
        ...


class QueryPattern:
    """An extractor without a model: the query's pattern, with places to fill in where its data stood.

    Two queries that differ only in their literals, the instances they name, their variables, prefixes, comments and
    layout give the same item; so nothing of these is in it. What stays are the classes, the properties, and how they
    hang together. A query that names neither class nor property gives nothing.
    """

    label = "query-pattern-1"

    def from_success(self, evidence: Evidence) -> Item | None:
        """See `Extractor`. None also for a query that gave no rows: that is no procedure."""
        from rbank_es.tools.memory.pattern_items import procedure

        return None if evidence.rows == 0 else procedure(evidence)

    def from_failure(self, evidence: Evidence) -> Item | None:
        """See `Extractor`."""
        from rbank_es.tools.memory.pattern_items import pitfall

        return pitfall(evidence)


def proposal(session: ToolSession, item: Item, by: str, why: str = "") -> MemoryProposed | None:
    """The event that proposes an item, for the call that is being made; None if this tool has proposed it in this run.

    Another tool may propose the same item again: what a query found by itself and what an agent vouches for are
    different reasons for it.
    """
    if (item.id, by) in session.proposed:
        return None
    reason = text_of(why)[: limits.ERROR_CHARS]
    return MemoryProposed(run=session.run, by=by, call=session.call, head=item.head, candidate=item.text, why=reason)
