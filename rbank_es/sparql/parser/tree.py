"""What a query says, as a tree: only what is asked of it later, with the place of every name.

Offsets count characters of the query's text from 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from rbank_es.sparql.answers import Form
from rbank_es.sparql.parser.tokens import Token


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
