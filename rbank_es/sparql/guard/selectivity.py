"""The variables of a query that something in it holds to few values: a list, a known subject, an exact value."""

from __future__ import annotations

from rbank_es.sparql.parser.cursor import RDF
from rbank_es.sparql.parser.traversal import groups, is_bound, is_grouped, projected, selections, variables_of
from rbank_es.sparql.parser.tree import Bind, Node, Query, Sequence, Step, Triple, Values, Variable


def narrowed(query: Query) -> frozenset[str]:
    """The names of those variables: a guess from the query alone, for warnings.

    A type holds nothing to few values, for classes are large; any other known object of a triple does, and so does a
    known subject. What is reached from there counts too.
    """
    known = _listed(query) | _counted(query)
    elements = [element for group in groups(query) for element in group.elements]
    while True:
        before = len(known)
        for element in elements:
            if isinstance(element, Triple):
                known |= _narrowed_by(element, known)
            elif isinstance(element, Bind) and variables_of(element.expression) <= known:
                known.add(element.variable.name)
        if len(known) == before:
            return frozenset(known)


def _listed(query: Query) -> set[str]:
    """The variables of VALUES."""
    lists = [selection.values for selection in selections(query) if selection.values]
    lists += [element for group in groups(query) for element in group.elements if isinstance(element, Values)]
    return {variable.name for values in lists for variable in values.variables}


def _counted(query: Query) -> set[str]:
    """What a SELECT gives that makes one row of everything."""
    single = [selection for selection in selections(query) if is_grouped(selection) and not selection.grouping]
    return set().union(*(projected(selection) for selection in single))


def _narrowed_by(triple: Triple, known: set[str]) -> set[str]:
    """The variables of a triple that are held to few values, once those in `known` are."""
    if _is_known(triple.subject, known):
        return {node.name for node in (triple.predicate, triple.object) if isinstance(node, Variable)}
    if _is_known(triple.object, known) and not _is_type(triple):
        return {node.name for node in (triple.subject, triple.predicate) if isinstance(node, Variable)}
    return set()


def _is_known(node: Node, known: set[str]) -> bool:
    """Whether a node is a term, or a variable that is held to few values."""
    return is_bound(node) or (isinstance(node, Variable) and node.name in known)


def _is_type(triple: Triple) -> bool:
    """Whether a triple says of which class something is, be it by a path over its subclasses."""
    path = triple.predicate
    first = path.parts[0] if isinstance(path, Sequence) else path
    return isinstance(first, Step) and first.iri.iri == RDF + "type"
