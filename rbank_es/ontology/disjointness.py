"""Which classes may share an instance, and which classes a property starts from and leads to, as far as a schema tells.

The world is open: a thing of one class may be of any other, unless the two are declared disjoint. Two classes *fit* if
a class is known to be a subclass of both; each counts as one of its own. That they don't fit is a suspicion only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal, NamedTuple

from rbank_es.ontology.schema_model import PropertyInfo, Schema
from rbank_es.ontology.statements import closure

End = Literal["domain", "range"]


class EndClasses(NamedTuple):
    """The classes of which one holds what stands at an end of a property."""

    property: str
    end: End
    classes: frozenset[str]
    inherited: str = ""
    """The superproperty that states them, if the property itself doesn't."""


class ClassFit:
    """The classes of a schema with what holds between them. Closures are computed once for each class."""

    def __init__(self, schema: Schema) -> None:
        """Read hierarchy, disjointness, and the domains and ranges that are stated; hints of restrictions are none."""
        self._classes = {info.iri for info in schema.classes}
        self._below: defaultdict[str, set[str]] = defaultdict(set)
        self._above: defaultdict[str, set[str]] = defaultdict(set)
        for info in schema.classes:
            for wider in (*info.parents, *info.wider):
                self._below[wider].add(info.iri)
                self._above[info.iri].add(wider)
        self._disjoint: defaultdict[str, set[str]] = defaultdict(set)
        for one, other in schema.disjoint:
            self._disjoint[one].add(other)
            self._disjoint[other].add(one)
        self._properties = {info.iri: info for info in schema.properties}
        self._starts = {(use.property, use.cls) for use in schema.typed_uses}
        self._leads = {(link.property, link.object) for link in schema.links}
        self._closures: dict[str, frozenset[str]] = {}
        self._over: dict[str, frozenset[str]] = {}

    def knows(self, cls: str) -> bool:
        """Return whether the schema has a class: of another nobody can tell what it fits."""
        return cls in self._classes

    def below(self, cls: str) -> frozenset[str]:
        """Return a class with its subclasses at any depth."""
        if cls not in self._closures:
            self._closures[cls] = frozenset(closure([cls], lambda each: self._below.get(each, ())))
        return self._closures[cls]

    def fits(self, one: str, other: str) -> bool:
        """Return whether a class is known to be a subclass of both."""
        return not self.below(one).isdisjoint(self.below(other))

    def excludes(self, one: str, other: str) -> bool:
        """Return whether two classes are declared to share no instance, or classes above them are."""
        over = self.above(other)
        return any(not self._disjoint[cls].isdisjoint(over) for cls in self.above(one) if cls in self._disjoint)

    def above(self, cls: str) -> frozenset[str]:
        """Return a class with its superclasses at any depth."""
        if cls not in self._over:
            self._over[cls] = frozenset(closure([cls], lambda each: self._above.get(each, ())))
        return self._over[cls]

    def ends(self, name: str, end: End) -> list[EndClasses]:
        """Return the classes at an end of a property: those that it states, and those of its superproperties."""
        found = []
        for each in sorted(closure([name], self._parents), key=lambda each: (each != name, each)):
            info = self._properties.get(each)
            if info is not None and (info.domain_stated if end == "domain" else info.range_stated):
                bounds = info.domains if end == "domain" else info.ranges
                classes = frozenset(bound.iri for bound in bounds)
                found.append(EndClasses(name, end, classes, each if each != name else ""))
        return found

    def occurs(self, cls: str, end: EndClasses) -> bool:
        """Return whether the data have an instance of a class at this end of the property."""
        known = self._starts if end.end == "domain" else self._leads
        return any((end.property, each) in known for each in self.below(cls))

    def info(self, name: str) -> PropertyInfo | None:
        """Return what is known of a property."""
        return self._properties.get(name)

    def _parents(self, name: str) -> tuple[str, ...]:
        info = self._properties.get(name)
        return info.parents if info is not None else ()
