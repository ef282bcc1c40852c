"""Domains, ranges and cardinalities of properties, from RDFS, OWL, schema.org and SHACL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import filterfalse

from rbank_es.ontology import rdf_names
from rbank_es.ontology.schema_model import Bound, Cardinality, ConstraintSource
from rbank_es.ontology.statements import Literal, Statements, closure, integer_of, is_iri


class Constraints:
    """Domains, ranges and cardinalities by property. A bound without meaning (owl:Thing) is dropped."""

    def __init__(self) -> None:
        self._domains: defaultdict[str, set[tuple[str, ConstraintSource]]] = defaultdict(set)
        self._ranges: defaultdict[str, set[tuple[str, ConstraintSource]]] = defaultdict(set)
        self._least: dict[tuple[str, str, ConstraintSource], int] = {}
        self._most: dict[tuple[str, str, ConstraintSource], int] = {}

    def add_domains(self, name: str, classes: Iterable[str], source: ConstraintSource) -> None:
        """Record the domain classes of a property."""
        self._domains[name].update((cls, source) for cls in classes if cls not in rdf_names.ANYTHING)

    def add_ranges(self, name: str, classes: Iterable[str], source: ConstraintSource) -> None:
        """Record the classes or datatypes that a property leads to."""
        self._ranges[name].update((cls, source) for cls in classes if cls not in rdf_names.ANYTHING)

    def add_counts(self, cls: str, name: str, least: int | None, most: int | None, source: ConstraintSource) -> None:
        """Record how many values instances of a class have; of two statements by one source, the stricter."""
        key = (cls, name, source)
        if least:
            # Both must hold, so the larger least and the smaller most are the stricter ones.
            self._least[key] = max(least, self._least.get(key, 0))
        if most is not None:
            self._most[key] = min(most, self._most.get(key, most))

    @property
    def properties(self) -> set[str]:
        """Properties with any constraint."""
        return {*self._domains, *self._ranges} | {name for _, name, _ in (*self._least, *self._most)}

    @property
    def classes(self) -> set[str]:
        """Classes and datatypes that constrain something."""
        bounds = (*self._domains.values(), *self._ranges.values())
        return {cls for bound in bounds for cls, _ in bound} | {cls for cls, _, _ in (*self._least, *self._most)}

    def domains(self, name: str) -> tuple[Bound, ...]:
        """Return the domains of a property, sorted by IRI."""
        return tuple(Bound(iri=cls, source=source) for cls, source in sorted(self._domains.get(name, ())))

    def ranges(self, name: str) -> tuple[Bound, ...]:
        """Return the ranges of a property, sorted by IRI."""
        return tuple(Bound(iri=cls, source=source) for cls, source in sorted(self._ranges.get(name, ())))

    def cardinalities(self) -> tuple[Cardinality, ...]:
        """Return all cardinalities, sorted by class, property and source."""
        return tuple(
            Cardinality(
                cls=key[0], property=key[1], source=key[2], least=self._least.get(key), most=self._most.get(key)
            )
            for key in sorted({*self._least, *self._most})
        )


def add_declared(statements: Statements, found: Constraints) -> None:
    """Add rdfs:domain and rdfs:range, unions in them (source `owl`), and domainIncludes and rangeIncludes."""
    for predicate, add in ((rdf_names.DOMAIN, found.add_domains), (rdf_names.RANGE, found.add_ranges)):
        for name, bound in statements.links(predicate):
            if is_iri(name):
                add(name, named_classes(statements, bound), "rdfs" if is_iri(bound) else "owl")
    for predicates, add in (
        (rdf_names.DOMAIN_INCLUDES, found.add_domains),
        (rdf_names.RANGE_INCLUDES, found.add_ranges),
    ):
        for name, bound in (pair for predicate in predicates for pair in statements.named_links(predicate)):
            add(name, [bound], "includes")


def classes_in_constraints(statements: Statements) -> set[str]:
    """Return whatever stands where a constraint or a class expression names a class, blank nodes among it."""
    found = {cls for predicate in rdf_names.OF_CLASSES for _, cls in statements.links(predicate)}
    lists = (expression for predicate in rdf_names.LISTS_OF_CLASSES for _, expression in statements.links(predicate))
    return found.union(*map(statements.members, lists))


def datatypes_in_constraints(statements: Statements) -> set[str]:
    """Return the names that constraints use for datatypes."""
    return {kind for predicate in rdf_names.OF_DATATYPES for _, kind in statements.links(predicate)}


def properties_in_constraints(statements: Statements) -> set[str]:
    """Return whatever stands where a hierarchy or a constraint names a property, blank nodes among it."""
    subjects = {subject for predicate in rdf_names.BY_PROPERTIES for subject, _ in statements.pairs(predicate)}
    return subjects | {name for predicate in rdf_names.OF_PROPERTIES for _, name in statements.links(predicate)}


def named_classes(statements: Statements, expression: str) -> set[str]:
    """Return the named classes of a class expression: its unions and intersections, or itself."""

    def steps(part: str) -> set[str]:
        if is_iri(part):
            return set()
        members = statements.listed(part, rdf_names.UNION) | statements.listed(part, rdf_names.INTERSECTION)
        return members.union(filter(is_iri, statements.nodes(part, rdf_names.OWL + "onDatatype")))

    return set(filter(is_iri, closure([expression], steps)))


def stated_bounds(statements: Statements, predicate: str) -> set[str]:
    """Return the properties to which rdfs:domain or rdfs:range gives named classes, and nothing that holds all."""
    found = set()
    for name, bound in statements.links(predicate):
        classes = named_classes(statements, bound)
        if classes and classes.isdisjoint(rdf_names.ANYTHING):
            found.add(name)
    return found


def wider_classes(statements: Statements) -> dict[str, set[str]]:
    """Return the named classes that may hold the instances of each class, beside its named superclasses.

    They are its equivalents; the parts of a union or an intersection that it equals or is a subclass of; and the unions
    that it is a part of.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for predicate in (rdf_names.SUBCLASS, rdf_names.EQUIVALENT_CLASS):
        for cls, expression in statements.links(predicate):
            if is_iri(cls) and (predicate == rdf_names.EQUIVALENT_CLASS or not is_iri(expression)):
                found[cls] |= named_classes(statements, expression)
            if predicate == rdf_names.EQUIVALENT_CLASS:
                # An equivalence holds in both directions, and each part of a union is in the whole.
                parts = [expression] if is_iri(expression) else statements.listed(expression, rdf_names.UNION)
                for part in filter(is_iri, parts):
                    found[part].add(cls)
    for predicate in (rdf_names.UNION, rdf_names.OWL + "disjointUnionOf"):
        for cls, members in statements.links(predicate):
            for part in filter(is_iri, statements.members(members) if is_iri(cls) else ()):
                found[part].add(cls)
    for cls, members in statements.links(rdf_names.INTERSECTION):
        if is_iri(cls):
            found[cls] |= set(filter(is_iri, statements.members(members)))
    return {cls: set(filter(is_iri, wider)) - rdf_names.ANYTHING for cls, wider in found.items()}


def add_restrictions(statements: Statements, found: Constraints) -> None:
    """Add OWL restrictions that a class is a subclass of, equal to, or an intersection with."""
    for predicate in (rdf_names.SUBCLASS, rdf_names.EQUIVALENT_CLASS, rdf_names.INTERSECTION):
        for cls, expression in statements.links(predicate):
            if is_iri(cls):
                start = [expression] if predicate != rdf_names.INTERSECTION else statements.members(expression)
                for part in _conjuncts(statements, start):
                    _add_restriction(statements, cls, part, found)


def _conjuncts(statements: Statements, start: Iterable[str]) -> set[str]:
    """Return the blank nodes of expressions that all hold at once."""
    blank = filterfalse(is_iri, start)
    return closure(blank, lambda part: filterfalse(is_iri, statements.listed(part, rdf_names.INTERSECTION)))


def _add_restriction(statements: Statements, cls: str, node: str, found: Constraints) -> None:
    """Add one restriction on the instances of a class; with 0 values allowed, it is no domain."""
    for name in filter(is_iri, statements.nodes(node, rdf_names.OWL + "onProperty")):
        least, most = _counts(statements, node)
        found.add_counts(cls, name, least, most, "owl")
        if most != 0:
            found.add_domains(name, [cls], "owl")
        for predicate in ("someValuesFrom", "allValuesFrom", "onClass", "onDataRange"):
            for filler in statements.nodes(node, rdf_names.OWL + predicate):
                found.add_ranges(name, named_classes(statements, filler), "owl")


def _counts(statements: Statements, node: str) -> tuple[int | None, int | None]:
    """Return the least and most values that a restriction allows.

    A qualified one counts values of one class only: its least is a least of all values, its most is none.
    """

    def numbers(*predicates: str) -> list[int]:
        terms = [term for name in predicates for term in statements.values(node, rdf_names.OWL + name)]
        return [number for number in map(integer_of, terms) if number is not None]

    least = numbers("cardinality", "minCardinality", "qualifiedCardinality", "minQualifiedCardinality")
    return max(least, default=None), min(numbers("cardinality", "maxCardinality"), default=None)


_SH = rdf_names.SH


class Shapes:
    """The SHACL shapes among statements, and the classes that each is about."""

    def __init__(self, statements: Statements, classes: set[str]) -> None:
        self._statements = statements
        self._classes = classes
        self.node_shapes = self._node_shapes()

    def _node_shapes(self) -> set[str]:
        """Return things typed as a node shape, with a property shape, or named as a shape by another one."""
        typed = {node for node, type_ in self._statements.links(rdf_names.TYPE) if type_ == _SH + "NodeShape"}
        having = {node for node, _ in self._statements.links(_SH + "property")}
        named = {node for _, node in self._statements.links(_SH + "node")}
        paths = self._statements.by_subject(_SH + "path")
        return {node for node in typed | having | named if node not in paths}

    def add_to(self, found: Constraints) -> None:
        """Add the constraints of property shapes: classes, values, and counts."""
        for shape in self.node_shapes:
            targets = self._targets(shape)
            if targets and not self._is_off(shape):
                for part in self._conjuncts(shape):
                    for property_shape in self._statements.nodes(part, _SH + "property"):
                        self._add_property(property_shape, targets, found)
        for shape in self._statements.by_subject(_SH + "path"):
            if targets := self._targets(shape):
                self._add_property(shape, targets, found)
        self._add_ends(found)

    def _targets(self, shape: str) -> set[str]:
        """Return the classes that a shape is about: its targets, and itself if it is a class."""
        targets = {cls for cls in self._statements.nodes(shape, _SH + "targetClass") if is_iri(cls)}
        return targets | ({shape} if shape in self._classes and is_iri(shape) else set())

    def _conjuncts(self, shape: str) -> set[str]:
        """Return a shape and those that hold with it, by sh:node and sh:and."""

        def steps(part: str) -> Iterable[str]:
            joined = (*self._statements.nodes(part, _SH + "node"), *self._statements.listed(part, _SH + "and"))
            return filterfalse(self._is_off, joined)

        return closure(filterfalse(self._is_off, [shape]), steps)

    def _is_off(self, shape: str) -> bool:
        values = self._statements.values(shape, _SH + "deactivated")
        return any(isinstance(value, Literal) and value.value in ("true", "1") for value in values)

    def _add_property(self, shape: str, targets: set[str], found: Constraints) -> None:
        """Add one property shape; only a path of a single named property constrains that property."""
        if self._is_off(shape):
            return
        for name in filter(is_iri, self._statements.nodes(shape, _SH + "path")):
            least = self._number(shape, "minCount", "qualifiedMinCount")
            # Not qualifiedMaxCount: it bounds the values of one class only.
            most = self._number(shape, "maxCount")
            for cls in targets:
                found.add_counts(cls, name, least, most, "shacl")
            if most != 0:
                found.add_domains(name, targets, "shacl")
                found.add_ranges(name, self._values(shape), "shacl")

    def _number(self, shape: str, *predicates: str) -> int | None:
        terms = [term for name in predicates for term in self._statements.values(shape, _SH + name)]
        numbers = [number for number in map(integer_of, terms) if number is not None]
        return max(numbers, default=None) if "minCount" in predicates else min(numbers, default=None)

    def _values(self, shape: str) -> set[str]:
        """Return the classes and datatypes that the values of a property shape may have."""
        found: set[str] = set()
        for part in self._alternatives(shape):
            found.update(cls for cls in self._statements.nodes(part, _SH + "class") if is_iri(cls))
            found.update(kind for kind in self._statements.nodes(part, _SH + "datatype") if is_iri(kind))
            for node in self._statements.nodes(part, _SH + "node"):
                found |= self._targets(node)
        return found

    def _alternatives(self, shape: str) -> set[str]:
        """Return a shape, those that it joins by and, or, xone, and those that some values must have."""

        def steps(part: str) -> set[str]:
            joined = (self._statements.listed(part, _SH + name) for name in ("and", "or", "xone"))
            return set().union(*joined, self._statements.nodes(part, _SH + "qualifiedValueShape"))

        return closure([shape], steps)

    def _add_ends(self, found: Constraints) -> None:
        """Add shapes of a property's subjects or objects: the class that they demand is its domain or range."""
        for end, add in (("targetSubjectsOf", found.add_domains), ("targetObjectsOf", found.add_ranges)):
            for shape, name in self._statements.links(_SH + end):
                if is_iri(name) and not self._is_off(shape):
                    add(name, self._values(shape), "shacl")
