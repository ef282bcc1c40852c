"""The tree of a query, with the offset of every name, and the functions that walk over it.

The tree leaves out parts that no check uses (DISTINCT, the rows of VALUES). Offsets count characters from 0. Walks
keep waiting parts on a list where they can, because brackets may nest `QUERY_NESTING` deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from rbank_es.ontology.rdf_names import RDF, RDFS
from rbank_es.ontology.schema_model import TermKind
from rbank_es.sparql.parser.tokens import Token
from rbank_es.sparql.results import Form

AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})

# More arguments than a query may have tokens.
_ANY = 1_000_000
_ARITIES = {
    (0, 0): "NOW RAND UUID STRUUID",
    (0, 1): "BNODE",
    (1, 1): "STR LANG DATATYPE BOUND IRI URI ABS CEIL FLOOR ROUND STRLEN UCASE LCASE ENCODE_FOR_URI YEAR MONTH DAY "
    "HOURS MINUTES SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC",
    (2, 2): "LANGMATCHES CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER STRLANG STRDT SAMETERM",
    (2, 3): "REGEX SUBSTR",
    (3, 3): "IF",
    (3, 4): "REPLACE",
    (0, _ANY): "COALESCE CONCAT",
}
FUNCTIONS = {name: arity for arity, names in _ARITIES.items() for name in names.split()}
"""Every built-in function in capitals, with the least and the largest number of its arguments."""

OPERAND_WORDS = frozenset(FUNCTIONS) | AGGREGATES | {"EXISTS", "NOT"}
"""Every word that an expression can begin with, apart from true and false."""


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


class SourceGraph(NamedTuple):
    """A graph after FROM, or (`named`) after FROM NAMED."""

    iri: str
    offset: int
    named: bool


class PathStep(NamedTuple):
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


Path = PathStep | Inverse | Sequence | Alternative | Repeat | Negation


class Triple(NamedTuple):
    """A triple pattern."""

    subject: Node
    predicate: Variable | Path
    object: Node


class FunctionCall(NamedTuple):
    """A function or an operator with its arguments. `name` is in capitals, or the IRI of a function.

    Operators of one rank in a row (`1 + 2 - 3`) are one call, by the name of the first: long chains stay flat.
    """

    name: str
    arguments: tuple[Expression, ...]
    offset: int


class Exists(NamedTuple):
    """A test whether a pattern has a solution, or (`negated`) has none."""

    group: GroupPattern
    negated: bool


Expression = Node | FunctionCall | Exists


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

    kind: Literal["group", "union", "optional", "minus", "graph", "service"]
    """`service` has no group; only a lenient parser lets it through."""
    groups: tuple[GroupPattern, ...]
    offset: int
    graph: Variable | Iri | None = None


class GroupPattern(msgspec.Struct, frozen=True):
    """The pattern between two braces."""

    elements: tuple[Element, ...] = ()
    offset: int = 0


class ProjectedColumn(NamedTuple):
    """A column of a SELECT: a variable of the pattern, or an expression."""

    variable: Variable
    expression: Expression | None = None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A SELECT within a group, or the body of a whole query, whatever its form."""

    offset: int
    star: bool = False
    """Whether it asks for everything: `SELECT *`, `DESCRIBE *`."""
    columns: tuple[ProjectedColumn, ...] = ()
    where: GroupPattern | None = None
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


class Query(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A whole query."""

    form: Form
    body: Selection
    sources: tuple[SourceGraph, ...] = ()
    template: GroupPattern | None = None
    """Of CONSTRUCT, unless its pattern is its template."""
    prefixes: dict[str, str] = {}
    """Those that it declares."""
    added_prefixes: tuple[str, ...] = ()
    """Those that it uses without declaring them, known to whoever reads it; sorted."""
    values_offset: int | None = None
    """Where the trailing VALUES begins: a LIMIT must stand before it."""

    @cached_property
    def groups(self) -> tuple[GroupPattern, ...]:
        """Every group, outer before inner: those of EXISTS, MINUS and subselects too."""
        # Kept, because one check asks for them ten times.
        found: list[GroupPattern] = []
        waiting: list[GroupPattern | Selection | Expression] = [self.body]
        while waiting:
            part = waiting.pop()
            if isinstance(part, GroupPattern):
                found.append(part)
            waiting += reversed(_inner(part))
        return tuple(found)


# ---------------------------------------------------------------- walks


def _inner(part: GroupPattern | Selection | Expression) -> Seq[GroupPattern | Selection | Expression]:
    """Return the parts directly within a part that may hold groups, in their order."""
    match part:
        case GroupPattern():
            return [inner for element in part.elements for inner in _inner_of_element(element)]
        case Selection():
            return [*([part.where] if part.where else []), *part.expressions]
        case FunctionCall():
            return part.arguments
        case Exists():
            return [part.group]
    return ()


def _inner_of_element(element: Element) -> Seq[GroupPattern | Selection | Expression]:
    match element:
        case Nested():
            return element.groups
        case Selection():
            return (element,)
        case Filter() | Bind():
            return (element.expression,)
    return ()


def elements(query: Query) -> Iterator[Element]:
    """Yield every element of every group."""
    for group in query.groups:
        yield from group.elements


def selections(query: Query) -> Iterator[Selection]:
    """Yield the query's body and every subselect."""
    yield query.body
    yield from (element for element in elements(query) if isinstance(element, Selection))


def triples(query: Query) -> Iterator[Triple]:
    """Yield every triple pattern; a CONSTRUCT's template has none, unless it is the pattern too."""
    yield from (element for element in elements(query) if isinstance(element, Triple))


def needed(selection: Selection) -> Iterator[str]:
    """Yield the IRIs of the triples that every solution of a selection needs.

    Left out are optional parts, branches of UNION, MINUS and tests, and steps of a path that may be skipped.
    """
    waiting: list[GroupPattern | Selection | None] = [selection]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Selection):
            # The subselect of a number has a solution, whatever is counted.
            waiting.append(part.where if part is selection or not is_grouped(part) else None)
            continue
        for element in part.elements if part is not None else ():
            match element:
                case Triple(subject, predicate, value):
                    yield from (node.iri for node in (subject, value) if isinstance(node, Iri))
                    yield from _needed_steps(predicate) if not isinstance(predicate, Variable) else ()
                case Nested("group" | "graph"):
                    waiting += element.groups
                case Selection():
                    waiting.append(element)


def _needed_steps(path: Path) -> Iterator[str]:
    match path:
        case PathStep():
            yield path.iri.iri
        case Inverse():
            yield from _needed_steps(path.path)
        case Repeat() if path.sign == "+":
            yield from _needed_steps(path.path)
        case Sequence():
            for part in path.parts:
                yield from _needed_steps(part)


def calls(expression: Expression) -> Iterator[FunctionCall]:
    """Yield every function and operator of an expression, outer before inner, without those in groups of EXISTS."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, FunctionCall):
            yield part
            waiting += reversed(part.arguments)


def variables_of(expression: Expression) -> set[str]:
    """Return the names of an expression's variables; of EXISTS, those that its group can see."""
    found: set[str] = set()
    waiting = [expression]
    while waiting:
        match waiting.pop():
            case Variable(name, _):
                found.add(name)
            case FunctionCall() as call:
                waiting += call.arguments
            case Exists() as test:
                found |= visible(test.group)
    return found


def steps(path: Path) -> Iterator[Iri]:
    """Yield every predicate in a path."""
    match path:
        case PathStep():
            yield path.iri
        case Inverse() | Repeat():
            yield from steps(path.path)
        case Sequence() | Alternative() | Negation():
            for part in path.parts:
                yield from steps(part)


def visible(group: GroupPattern) -> set[str]:
    """Return the names of the variables that a group gives to the pattern around it."""
    found: set[str] = set()
    for element in group.elements:
        found |= bound_by(element)
    return found


def bound_by(element: Element) -> set[str]:
    """Return the names of the variables that an element may bind; a filter and a MINUS bind none."""
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
            found = {element.graph.name} if isinstance(element.graph, Variable) else set()
            for inner in element.groups:
                found |= visible(inner)
            return found
    return set()


def projected(selection: Selection) -> tuple[str, ...]:
    """Return the names of a SELECT's columns in their order; those of `*` sorted."""
    if not selection.star:
        return tuple(dict.fromkeys(column.variable.name for column in selection.columns))
    found = visible(selection.where) if selection.where else set()
    return tuple(sorted(found | (bound_by(selection.values) if selection.values else set())))


def names(triple: Triple) -> set[str]:
    """Return the names of a triple pattern's variables."""
    return {node.name for node in triple if isinstance(node, Variable)}


def joints(triple: Triple) -> set[str]:
    """Return the names that may join a triple pattern to others: its variables, and its blank nodes as `_:label`."""
    return names(triple) | {f"_:{node.label}" for node in triple if isinstance(node, Blank)}


def is_grouped(selection: Selection) -> bool:
    """Return whether a SELECT gives a row per group: by GROUP BY, or by an aggregate, which makes one group of all."""
    return bool(selection.grouping) or any(
        call.name in AGGREGATES for expression in selection.expressions for call in calls(expression)
    )


def is_bound(node: Node) -> bool:
    """Return whether a node is an IRI or a value."""
    return isinstance(node, Iri | Value)


# ---------------------------------------------------------------- terms

_OBJECTS: dict[str, TermKind] = {
    RDF + "type": "class",
    RDFS + "subClassOf": "class",
    RDFS + "domain": "class",
    RDFS + "range": "class",
    RDFS + "subPropertyOf": "property",
}
"""Predicates that lead to a class or a property."""


class Use(NamedTuple):
    """A term where a query needs a class, or a property."""

    kind: TermKind
    iri: str
    offset: int


def uses(query: Query, *, whole: bool) -> Iterator[Use]:
    """Yield the predicates, also within paths, and the classes and properties that these lead to.

    VALUES, BIND, filters and the template of a CONSTRUCT are left out. Unless the vocabulary is
    the `whole` of what there is, only rdf:type leads to a class: a description of an endpoint lists the classes that
    have instances, and knows nothing of their superclasses.
    """
    # A VoID description of an endpoint counts instances, so superclasses may be missing from it.
    leads: dict[str, TermKind] = _OBJECTS if whole else {RDF + "type": "class"}
    for triple in triples(query):
        if isinstance(triple.predicate, Variable):
            continue
        yield from (Use("property", step.iri, step.offset) for step in steps(triple.predicate))
        kinds: set[TermKind | None] = {leads.get(last) for last in _lasts(triple.predicate)}
        if isinstance(triple.object, Iri) and len(kinds) == 1 and (kind := kinds.pop()):
            yield Use(kind, triple.object.iri, triple.object.offset)


def _lasts(path: Path) -> set[str]:
    """Return the predicates that a path may end with; an empty name for an end that says nothing of the object."""
    match path:
        case PathStep():
            return {path.iri.iri}
        case Repeat():
            return _lasts(path.path)
        case Alternative():
            return set().union(*(_lasts(part) for part in path.parts))
        case Sequence():
            return _lasts_of_sequence(path)
        case Inverse(PathStep(Iri(iri))) if iri in (RDFS + "subClassOf", RDFS + "subPropertyOf"):
            return {iri}
        case Inverse(Repeat(inner)):
            return _lasts(Inverse(inner))
        case Inverse() | Negation():
            return {""}


def _lasts_of_sequence(path: Sequence) -> set[str]:
    """Return the predicates that a sequence may end with: an optional last part lets the one before it end."""
    found: set[str] = set()
    for part in reversed(path.parts):
        found |= _lasts(part)
        if not (isinstance(part, Repeat) and part.sign in "*?"):
            break
    return found
