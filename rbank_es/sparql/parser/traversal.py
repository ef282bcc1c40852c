"""Going through a query's tree: its groups, its triples, its expressions, and the variables that each can see."""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.sparql.parser.keywords import AGGREGATES
from rbank_es.sparql.parser.tree import (
    Alternative,
    Bind,
    Blank,
    Call,
    Element,
    Exists,
    Expression,
    Filter,
    Group,
    Inverse,
    Iri,
    Negation,
    Nested,
    Node,
    Path,
    Query,
    Repeat,
    Selection,
    Sequence,
    Step,
    Triple,
    Value,
    Values,
    Variable,
)


def groups(query: Query) -> Iterator[Group]:
    """Every group of a query, the outer ones first: also those of EXISTS, MINUS and subselects."""
    yield from _groups_of_selection(query.body)


def _groups_of_selection(selection: Selection) -> Iterator[Group]:
    """The groups of a SELECT."""
    if selection.where is not None:
        yield from _groups_of(selection.where)
    for expression in selection.expressions:
        yield from _groups_of_expression(expression)


def _groups_of(group: Group) -> Iterator[Group]:
    """A group and all groups in it."""
    yield group
    for element in group.elements:
        match element:
            case Nested():
                for inner in element.groups:
                    yield from _groups_of(inner)
            case Selection():
                yield from _groups_of_selection(element)
            case Filter() | Bind():
                yield from _groups_of_expression(element.expression)


def _groups_of_expression(expression: Expression) -> Iterator[Group]:
    """The groups that an expression asks for with EXISTS."""
    if isinstance(expression, Exists):
        yield from _groups_of(expression.group)
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _groups_of_expression(argument)


def selections(query: Query) -> Iterator[Selection]:
    """The query's body and every subselect."""
    yield query.body
    for group in groups(query):
        yield from (element for element in group.elements if isinstance(element, Selection))


def triples(query: Query) -> Iterator[Triple]:
    """Every triple pattern of a query; a CONSTRUCT's template has none, its short form is a pattern."""
    for group in groups(query):
        yield from (element for element in group.elements if isinstance(element, Triple))


def calls(expression: Expression) -> Iterator[Call]:
    """Every function and operator in an expression, the outer ones first; not those in groups of EXISTS."""
    if isinstance(expression, Call):
        yield expression
        for argument in expression.arguments:
            yield from calls(argument)


def variables_of(expression: Expression) -> set[str]:
    """The names of the variables in an expression; of EXISTS, those that its group can see."""
    match expression:
        case Variable():
            return {expression.name}
        case Call():
            return set().union(*(variables_of(argument) for argument in expression.arguments))
        case Exists():
            return visible(expression.group)
    return set()


def steps(path: Path) -> Iterator[Iri]:
    """Every predicate in a path."""
    match path:
        case Step():
            yield path.iri
        case Inverse() | Repeat():
            yield from steps(path.path)
        case Sequence() | Alternative() | Negation():
            for part in path.parts:
                yield from steps(part)


def visible(group: Group) -> set[str]:
    """The names of the variables that a group gives to what is around it."""
    found: set[str] = set()
    for element in group.elements:
        found |= bound_by(element)
    return found


def bound_by(element: Element) -> set[str]:
    """The names of the variables that a part of a group may bind; a filter and a MINUS bind none."""
    match element:
        case Triple():
            return names(element)
        case Bind():
            return {element.variable.name}
        case Values():
            return {variable.name for variable in element.variables}
        case Selection():
            return set(projected(element))
        case Nested() if element.kind != "minus":
            graph = {element.graph.name} if isinstance(element.graph, Variable) else set()
            return graph.union(*(visible(inner) for inner in element.groups))
    return set()


def projected(selection: Selection) -> tuple[str, ...]:
    """The names of the variables that a SELECT gives, in their order; those of `*` by name."""
    if not selection.star:
        return tuple(dict.fromkeys(column.variable.name for column in selection.columns))
    found = visible(selection.where) if selection.where else set()
    return tuple(sorted(found | (bound_by(selection.values) if selection.values else set())))


def names(triple: Triple) -> set[str]:
    """The names of a triple pattern's variables."""
    return {node.name for node in triple if isinstance(node, Variable)}


def joints(triple: Triple) -> set[str]:
    """What joins a triple pattern to others: its variables, and its blank nodes."""
    return names(triple) | {f"_:{node.label}" for node in triple if isinstance(node, Blank)}


def aggregates(expression: Expression) -> bool:
    """Whether there is an aggregate in an expression."""
    return any(call.name in AGGREGATES for call in calls(expression))


def is_grouped(selection: Selection) -> bool:
    """Whether a SELECT gives a row per group: it has a GROUP BY, or an aggregate, which makes one group of all."""
    return bool(selection.grouping) or any(aggregates(expression) for expression in selection.expressions)


def is_bound(node: Node) -> bool:
    """Whether a node is an IRI or a value."""
    return isinstance(node, Iri | Value)
