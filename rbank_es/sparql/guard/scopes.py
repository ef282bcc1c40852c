"""What the grammar allows and no engine runs: names given twice, and values outside a group's own.

Found before running, for whoever asked learns here what to write instead; engines only say that they can't.
"""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.sparql.parser.keywords import AGGREGATES
from rbank_es.sparql.parser.tokens import Places, clipped, refuse_at
from rbank_es.sparql.parser.tree import (
    Bind,
    Blank,
    Call,
    Expression,
    Filter,
    Group,
    Query,
    Selection,
    Triple,
    Variable,
    bound_by,
    groups,
    is_grouped,
    selections,
    visible,
)


def refuse_scopes(query: Query, places: Places) -> None:
    """Raise `QueryRefused('syntax')` for a variable or a blank node that can't stand where it does.

    The rules are those of SPARQL 1.1, 18.2.1, 19.6 and 19.8: a name given by AS is new where it is given; what a
    grouped SELECT asks for is grouped or aggregated; a blank node's label belongs to one basic graph pattern.
    """
    for selection in selections(query):
        _refuse_names(selection, places)
        if is_grouped(selection):
            _refuse_ungrouped(selection, places)
    for group in groups(query):
        _refuse_binds(group, places)
    _refuse_labels(query, places)


def _refuse_names(selection: Selection, places: Places) -> None:
    """Raise for `(… AS ?x)` where ?x has a value already."""
    taken = visible(selection.where) if selection.where else set()
    for expression in selection.grouping:
        if isinstance(expression, Call) and expression.name == "AS":
            _take(expression.arguments[1], taken, places)
    for column in selection.columns:
        if column.expression is not None:
            _take(column.variable, taken, places)


def _refuse_binds(group: Group, places: Places) -> None:
    """Raise for BIND to a variable that what stands before it in the group binds."""
    before: set[str] = set()
    for element in group.elements:
        if isinstance(element, Bind):
            _take(element.variable, before, places)
        before |= bound_by(element)


def _take(variable: Expression, taken: set[str], places: Places) -> None:
    """Give a name that must be new."""
    if not isinstance(variable, Variable):
        return
    if variable.name in taken:
        name = clipped(variable.name)
        message = f"?{name} has a value already, so that AS can't give it another"
        refuse_at(places[variable.offset], "syntax", message, f"use a new name, for instance ?{name}2")
    taken.add(variable.name)


def _refuse_ungrouped(selection: Selection, places: Places) -> None:
    """Raise for what a grouped SELECT asks for and neither groups nor aggregates."""
    if selection.star:
        hint = "name what is grouped, and put the rest into COUNT, SAMPLE or GROUP_CONCAT"
        refuse_at(places[selection.offset], "syntax", "SELECT * can't be grouped", hint)
    grouped = set(_grouped(selection))
    for column in selection.columns:
        for variable in _loose(column.expression or column.variable):
            if variable.name not in grouped:
                name = clipped(variable.name)
                hint = f"add it to GROUP BY, or ask for (SAMPLE(?{name}) AS ?one)"
                refuse_at(places[variable.offset], "syntax", f"?{name} is neither grouped nor aggregated", hint)
        grouped.add(column.variable.name)


def _grouped(selection: Selection) -> Iterator[str]:
    """The names that have one value per group."""
    for expression in selection.grouping:
        named = expression.arguments[1] if isinstance(expression, Call) and expression.name == "AS" else expression
        if isinstance(named, Variable):
            yield named.name


def _loose(expression: Expression) -> Iterator[Variable]:
    """The variables in an expression that are not in an aggregate, nor in a pattern of EXISTS."""
    if isinstance(expression, Variable):
        yield expression
    elif isinstance(expression, Call) and expression.name not in AGGREGATES:
        for argument in expression.arguments:
            yield from _loose(argument)


def _refuse_labels(query: Query, places: Places) -> None:
    """Raise for a blank node's label that stands in two basic graph patterns."""
    homes: dict[str, tuple[int, int]] = {}
    for group in groups(query):
        part = 0
        for element in group.elements:
            part += not isinstance(element, Triple | Filter)
            for node in _labelled(element) if isinstance(element, Triple) else ():
                if homes.setdefault(node.label, (group.offset, part)) != (group.offset, part):
                    hint = "use a variable instead: a blank node's label holds within one group of triples"
                    refuse_at(places[node.offset], "syntax", f"{clipped(node.label)} stands in two groups", hint)


def _labelled(triple: Triple) -> Iterator[Blank]:
    """The blank nodes of a triple that have a label of their own."""
    yield from (node for node in triple if isinstance(node, Blank) and node.label.startswith("_:"))
