"""What a query says, as a tree: only what is asked of it later, with the place of every name.

Offsets count characters of the query's text from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from rbank_es.sparql.parser.keywords import AGGREGATES
from rbank_es.sparql.parser.tokens import Token
from rbank_es.sparql.results import Form


class Variable(NamedTuple):
    """A variable, its name without the mark."""

    name: str
    offset: int


class Iri(NamedTuple):
    """An IRI, resolved: no prefix, nothing relative."""

    iri: str
    offset: int


class Blank(NamedTuple):
    """A blank node; one without a label of its own has its offset as label."""

    label: str
    offset: int


class Value(NamedTuple):
    """A literal as it was written, its language or datatype left out."""

    text: str
    offset: int


Node = Variable | Iri | Blank | Value


class Step(NamedTuple):
    """One predicate of a property path; a plain predicate is a path of one step."""

    iri: Iri


class Inverse(NamedTuple):
    """A path walked backwards."""

    path: Path


class Sequence(NamedTuple):
    """Paths walked one after the other."""

    parts: tuple[Path, ...]


class Alternative(NamedTuple):
    """Paths of which any is walked."""

    parts: tuple[Path, ...]


class Repeat(NamedTuple):
    """A path walked several times: `sign` is `*`, `+` or `?`."""

    path: Path
    sign: str


class Negation(NamedTuple):
    """Every predicate but these."""

    parts: tuple[Path, ...]


Path = Step | Inverse | Sequence | Alternative | Repeat | Negation


class Triple(NamedTuple):
    """A triple pattern."""

    subject: Node
    predicate: Variable | Path
    object: Node


class Call(NamedTuple):
    """A function or an operator with its arguments. `name` is in capitals, or the IRI of a function.

    Operators of one rank in a row (`1 + 2 - 3`) are one call, by the name of the first: long chains stay flat.
    """

    name: str
    arguments: tuple[Expression, ...]
    offset: int


class Exists(NamedTuple):
    """A test whether a pattern has a solution, or (`negated`) has none."""

    group: Group
    negated: bool


Expression = Node | Call | Exists


class Filter(NamedTuple):
    """A condition on the solutions of its group."""

    expression: Expression


class Bind(NamedTuple):
    """A value under a name."""

    expression: Expression
    variable: Variable


class Values(NamedTuple):
    """Solutions that are listed."""

    variables: tuple[Variable, ...]


class Nested(NamedTuple):
    """Groups within a group: `group` has one, `union` several, the others one."""

    kind: Literal["group", "union", "optional", "minus", "graph"]
    groups: tuple[Group, ...]
    offset: int
    graph: Variable | Iri | None = None


class Group(msgspec.Struct, frozen=True):
    """What stands between two braces."""

    elements: tuple[Element, ...] = ()
    offset: int = 0


class Column(NamedTuple):
    """What a SELECT gives under a name: a variable of the pattern, or an expression."""

    variable: Variable
    expression: Expression | None = None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A SELECT within a group, or the body of a whole query, whatever its form."""

    offset: int
    star: bool = False
    """Whether it asks for everything: `SELECT *`, `DESCRIBE *`."""
    columns: tuple[Column, ...] = ()
    where: Group | None = None
    grouping: tuple[Expression, ...] = ()
    """What follows GROUP BY; an expression AS a variable is a call of `AS`."""
    conditions: tuple[Expression, ...] = ()
    """What follows HAVING and ORDER BY."""
    ordered: bool = False
    limit: Token | None = None
    """The number after LIMIT."""
    values: Values | None = None
    """The VALUES at its end."""

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions in it, but those of its pattern."""
        made = tuple(column.expression for column in self.columns if column.expression is not None)
        return (*made, *self.grouping, *self.conditions)


Element = Triple | Filter | Bind | Values | Nested | Selection


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A whole query."""

    form: Form
    body: Selection
    sources: tuple[Iri, ...] = ()
    """The graphs after FROM and FROM NAMED."""
    prefixes: dict[str, str] = {}
    """Those that it declares."""
    added_prefixes: tuple[str, ...] = ()
    """Those that it uses without declaring them, known to whoever reads it; sorted."""
    values_offset: int | None = None
    """Where the trailing VALUES begins: a LIMIT must stand before it."""


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
