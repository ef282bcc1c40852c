"""The shape of a gold query, from which the level and the family of a task follow whose author named none."""

from __future__ import annotations

import re

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.loop.tasks import Task
from rbank_es.ontology.rdf_names import LABEL, TYPE
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery, parse_query

_COUNTING = frozenset({"GROUP", "HAVING", "ORDER", *tree.AGGREGATES})
_CONDITIONS = frozenset({"FILTER", "OPTIONAL", "MINUS", "UNION", "BIND", "EXISTS"})
_EVERYWHERE = (TYPE, LABEL)


def with_shape(task: Task) -> Task:
    """Return a task with the level and the family of its gold query, where it names none and the query can be read."""
    try:
        query = parse_query(task.gold_sparql or "")
    except QueryRefused:
        # The check of the suite reports the query; here it only leaves level and family open.
        return task
    level, family = task.level or level_of(query), task.family or family_of(query)
    return msgspec.structs.replace(task, level=level, family=family)


def level_of(query: ParsedQuery) -> int:
    """Return the level of a query by its hardest part.

    5: counting, grouping or sorting; 4: a condition, a choice or an optional part; 3: three or more relations, or a
    path; 2: two; 1: one.
    """
    words = {token.keyword for token in query.words}
    if words & _COUNTING:
        return 5
    if words & _CONDITIONS:
        return 4
    paths = [triple.predicate for triple in tree.triples(query.tree)]
    if len(paths) > 2 or any(not isinstance(path, tree.Variable | tree.PathStep) for path in paths):
        return 3
    return max(1, len(paths))


def family_of(query: ParsedQuery) -> str | None:
    """Return the local names of a query's properties, sorted: tasks that use the same ones can help each other.

    Classes and labels, which most queries name, count only if there is nothing else; None if no property is named.
    """
    used = {
        step.iri
        for triple in tree.triples(query.tree)
        if not isinstance(triple.predicate, tree.Variable)
        for step in tree.steps(triple.predicate)
    }
    named = used.difference(_EVERYWHERE) or used
    return "+".join(sorted(re.split(r"[#/:]", iri)[-1] for iri in named))[: limits.TASK_ID_CHARS] or None
