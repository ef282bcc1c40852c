"""What SHACL shapes say of classes and properties."""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.ontology import rdf_names
from rbank_es.ontology.property_bounds import Constraints
from rbank_es.ontology.rdf_terms import Literal, is_iri
from rbank_es.ontology.statements import Statements, integer_of

_SH = rdf_names.SH


class Shapes:
    """The shapes among statements, and the classes that each is about."""

    def __init__(self, statements: Statements, classes: set[str]) -> None:
        self._statements = statements
        self._classes = classes
        self.node_shapes = self._node_shapes()

    def _node_shapes(self) -> set[str]:
        """Things that are typed as a node shape, have a property shape, or are the shape that another one names."""
        typed = {node for node, type_ in self._statements.links(rdf_names.TYPE) if type_ == _SH + "NodeShape"}
        having = {node for node, _ in self._statements.links(_SH + "property")}
        named = {node for _, node in self._statements.links(_SH + "node")}
        paths = self._statements.by_subject(_SH + "path")
        return {node for node in typed | having | named if node not in paths}

    def target_classes(self) -> set[str]:
        """Classes that shapes are about or that they demand of values."""
        pairs = [pair for name in ("targetClass", "class") for pair in self._statements.links(_SH + name)]
        return {cls for _, cls in pairs if is_iri(cls)}

    def add_to(self, found: Constraints) -> None:
        """What property shapes say: their class of origin, what their values are, how many there are."""
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
        """Classes that a shape is about: its targets, and itself where it is a class."""
        targets = {cls for cls in self._statements.nodes(shape, _SH + "targetClass") if is_iri(cls)}
        return targets | ({shape} if shape in self._classes and is_iri(shape) else set())

    def _conjuncts(self, shape: str) -> set[str]:
        """A shape and those that hold with it, by sh:node and sh:and."""
        parts, waiting = set(), [shape]
        while waiting:
            part = waiting.pop()
            if part not in parts and not self._is_off(part):
                parts.add(part)
                waiting += self._statements.nodes(part, _SH + "node")
                waiting += self._statements.listed(part, _SH + "and")
        return parts

    def _is_off(self, shape: str) -> bool:
        values = self._statements.values(shape, _SH + "deactivated")
        return any(isinstance(value, Literal) and value.value in ("true", "1") for value in values)

    def _add_property(self, shape: str, targets: set[str], found: Constraints) -> None:
        """One property shape; only paths of a single named property say something of that property."""
        if self._is_off(shape):
            return
        for name in filter(is_iri, self._statements.nodes(shape, _SH + "path")):
            least = self._number(shape, "minCount", "qualifiedMinCount")
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
        """Classes and datatypes that the values of a property shape may have."""
        found: set[str] = set()
        for part in self._alternatives(shape):
            found.update(cls for cls in self._statements.nodes(part, _SH + "class") if is_iri(cls))
            found.update(kind for kind in self._statements.nodes(part, _SH + "datatype") if is_iri(kind))
            for node in self._statements.nodes(part, _SH + "node"):
                found |= self._targets(node)
        return found

    def _alternatives(self, shape: str) -> Iterator[str]:
        """A shape, those that it joins by and, or, xone, and the one that some values must have."""
        seen, waiting = set(), [shape]
        while waiting:
            part = waiting.pop()
            if part not in seen:
                seen.add(part)
                yield part
                for name in ("and", "or", "xone"):
                    waiting += self._statements.listed(part, _SH + name)
                waiting += self._statements.nodes(part, _SH + "qualifiedValueShape")

    def _add_ends(self, found: Constraints) -> None:
        """Shapes of whatever a property starts from or leads to: the class that they demand is domain or range."""
        for end, add in (("targetSubjectsOf", found.add_domains), ("targetObjectsOf", found.add_ranges)):
            for shape, name in self._statements.links(_SH + end):
                if is_iri(name) and not self._is_off(shape):
                    add(name, self._values(shape), "shacl")
