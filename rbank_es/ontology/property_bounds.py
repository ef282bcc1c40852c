"""Where properties start and lead to, and how many values they have: from all sources, gathered in one place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rbank_es.ontology import rdf_names
from rbank_es.ontology.rdf_terms import is_iri
from rbank_es.ontology.schema_model import Bound, Cardinality, ConstraintSource
from rbank_es.ontology.statements import Statements, integer_of


class Constraints:
    """Domains, ranges and cardinalities. Sources add to it; a bound that says nothing (owl:Thing) is no bound."""

    def __init__(self) -> None:
        self._domains: defaultdict[str, set[tuple[str, ConstraintSource]]] = defaultdict(set)
        self._ranges: defaultdict[str, set[tuple[str, ConstraintSource]]] = defaultdict(set)
        self._least: dict[tuple[str, str, ConstraintSource], int] = {}
        self._most: dict[tuple[str, str, ConstraintSource], int] = {}

    def add_domains(self, name: str, classes: Iterable[str], source: ConstraintSource) -> None:
        """A property starts from classes."""
        self._domains[name].update((cls, source) for cls in classes if cls not in rdf_names.ANYTHING)

    def add_ranges(self, name: str, classes: Iterable[str], source: ConstraintSource) -> None:
        """A property leads to classes or datatypes."""
        self._ranges[name].update((cls, source) for cls in classes if cls not in rdf_names.ANYTHING)

    def add_counts(self, cls: str, name: str, least: int | None, most: int | None, source: ConstraintSource) -> None:
        """Instances of a class have so many values; of two statements by one source, the stricter holds."""
        key = (cls, name, source)
        if least:
            self._least[key] = max(least, self._least.get(key, 0))
        if most is not None:
            self._most[key] = min(most, self._most.get(key, most))

    @property
    def properties(self) -> set[str]:
        """Properties of which anything was said."""
        return {*self._domains, *self._ranges} | {name for _, name, _ in (*self._least, *self._most)}

    @property
    def classes(self) -> set[str]:
        """Classes and datatypes that constrain something."""
        bounds = (*self._domains.values(), *self._ranges.values())
        return {cls for bound in bounds for cls, _ in bound} | {cls for cls, _, _ in (*self._least, *self._most)}

    def domains(self, name: str) -> tuple[Bound, ...]:
        """Where a property starts, by IRI."""
        return tuple(Bound(iri=cls, source=source) for cls, source in sorted(self._domains.get(name, ())))

    def ranges(self, name: str) -> tuple[Bound, ...]:
        """Where a property leads to, by IRI."""
        return tuple(Bound(iri=cls, source=source) for cls, source in sorted(self._ranges.get(name, ())))

    def cardinalities(self) -> tuple[Cardinality, ...]:
        """By class, then property, then source."""
        return tuple(
            Cardinality(
                cls=key[0], property=key[1], source=key[2], least=self._least.get(key), most=self._most.get(key)
            )
            for key in sorted({*self._least, *self._most})
        )


def add_declared(statements: Statements, found: Constraints) -> None:
    """rdfs:domain and rdfs:range, unions in them (source `owl`), and domainIncludes and rangeIncludes."""
    for predicate, add in ((rdf_names.DOMAIN, found.add_domains), (rdf_names.RANGE, found.add_ranges)):
        for name, bound in statements.links(predicate):
            if is_iri(name):
                add(name, named_classes(statements, bound), "rdfs" if is_iri(bound) else "owl")
    for namespace in (*rdf_names.SCHEMA, rdf_names.DCAM):
        for name, bound in statements.named_links(namespace + "domainIncludes"):
            found.add_domains(name, [bound], "includes")
        for name, bound in statements.named_links(namespace + "rangeIncludes"):
            found.add_ranges(name, [bound], "includes")


def named_classes(statements: Statements, expression: str) -> set[str]:
    """The classes that a class expression is made of by union or intersection, itself where it is named."""
    parts, waiting, seen = set(), [expression], set()
    while waiting:
        part = waiting.pop()
        if is_iri(part):
            parts.add(part)
        elif part not in seen:
            seen.add(part)
            waiting += statements.listed(part, rdf_names.UNION) | statements.listed(part, rdf_names.INTERSECTION)
            waiting += [
                datatype for datatype in statements.nodes(part, rdf_names.OWL + "onDatatype") if is_iri(datatype)
            ]
    return parts


def add_restrictions(statements: Statements, found: Constraints) -> None:
    """OWL restrictions that a class is a subclass of, equal to, or an intersection with."""
    for predicate in (rdf_names.SUBCLASS, rdf_names.EQUIVALENT_CLASS, rdf_names.INTERSECTION):
        for cls, expression in statements.links(predicate):
            if is_iri(cls):
                start = [expression] if predicate != rdf_names.INTERSECTION else statements.members(expression)
                for part in _conjuncts(statements, start):
                    _add_restriction(statements, cls, part, found)


def _conjuncts(statements: Statements, start: Iterable[str]) -> set[str]:
    """Blank nodes that expressions consist of, all of which hold at once."""
    parts: set[str] = set()
    waiting = [node for node in start if not is_iri(node)]
    while waiting:
        part = waiting.pop()
        if part not in parts:
            parts.add(part)
            waiting += [node for node in statements.listed(part, rdf_names.INTERSECTION) if not is_iri(node)]
    return parts


def _add_restriction(statements: Statements, cls: str, node: str, found: Constraints) -> None:
    """What one restriction says of the instances of a class; a property that they can't have doesn't start there."""
    for name in filter(is_iri, statements.nodes(node, rdf_names.OWL + "onProperty")):
        least, most = _counts(statements, node)
        found.add_counts(cls, name, least, most, "owl")
        if most != 0:
            found.add_domains(name, [cls], "owl")
        for predicate in ("someValuesFrom", "allValuesFrom", "onClass", "onDataRange"):
            for filler in statements.nodes(node, rdf_names.OWL + predicate):
                found.add_ranges(name, named_classes(statements, filler), "owl")


def _counts(statements: Statements, node: str) -> tuple[int | None, int | None]:
    """The least and most values that a restriction allows.

    A qualified one counts values of one class only: its least is a least of all values, its most is none.
    """

    def numbers(*predicates: str) -> list[int]:
        terms = [term for name in predicates for term in statements.values(node, rdf_names.OWL + name)]
        return [number for number in map(integer_of, terms) if number is not None]

    least = numbers("cardinality", "minCardinality", "qualifiedCardinality", "minQualifiedCardinality")
    return max(least, default=None), min(numbers("cardinality", "maxCardinality"), default=None)
