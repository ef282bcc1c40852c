"""The counts of an ontology's instances and triples, by class, by property, and by step from class to class.

`count_queries` has the SPARQL that each number equals.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from rbank_es import limits
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import namespace_of
from rbank_es.ontology.schema_level import Levels, Types
from rbank_es.ontology.schema_model import Link, TypedUse
from rbank_es.ontology.statements import Statements, is_iri


class ClassUses(NamedTuple):
    """The uses of properties, by class: their triples on instances, and their steps from class to class."""

    typed: tuple[TypedUse, ...]
    links: tuple[Link, ...]
    untyped: frozenset[str]
    """Properties with a triple of something that is no instance of any of the classes."""
    unlinked: frozenset[str]
    """Properties with a triple that is no step from one of the classes to another."""


class InstanceCounts:
    """The numbers of instances and triples. All are of distinct things or triples, in all graphs together."""

    def __init__(self, statements: Statements, levels: Levels) -> None:
        self._statements = statements
        self._levels = levels
        self.instances = levels.count()
        """Things typed with each class itself."""
        self.listed = levels.count(levels.vocabulary)
        """Of these, those that belong to the vocabulary."""
        self.individuals = levels.individuals()
        """Things with a type that no part of an ontology has."""
        self._under = _Superclasses(statements, levels.groups)

    def below(self, cls: str) -> int | None:
        """Return the things typed with a subclass and not with the class itself; None if that is too much to count."""
        return self._under.instances[cls] if self._under.known else None

    def subclasses(self, cls: str) -> int | None:
        """Return the subclasses with a name, at any depth; None if that is too much to count."""
        return self._under.subclasses[cls] if self._under.known else None

    def modelling(self) -> dict[str, int]:
        """Return the types of the parts of an ontology with their number of things, most first, then by IRI."""
        used = ((type_, self.instances[type_]) for type_ in rdf_names.MODELLING if self.instances[type_])
        return dict(sorted(used, key=lambda pair: (-pair[1], pair[0])))

    def listed_triples(self, property_: str) -> int:
        """Return the triples with a property whose subject belongs to the vocabulary."""
        vocabulary = self._levels.vocabulary
        return sum(subject in vocabulary for subject, _ in self._statements.pairs(property_))

    def steps(self, property_: str, subjects: Collection[str]) -> int:
        """Return the triples with a property from something with a name to one of these subjects that has a name."""
        return sum(value in subjects for _, value in self._statements.named_links(property_))

    def echoing(self, classes: Iterable[str], properties: Iterable[str]) -> set[str]:
        """Return those classes of a foreign taxonomy that only repeat what the graph's own classes say.

        A class is one if no property shares its namespace, while each of its instances also has a class whose namespace
        has properties.
        """
        spaces = {namespace_of(name) for name in properties if not name.startswith(rdf_names.FORMAL)}
        own = {cls for cls in classes if namespace_of(cls) in spaces}
        echoed: Counter[str] = Counter()
        for types, nodes in self._levels.groups.items():
            if not own.isdisjoint(types):
                echoed.update(dict.fromkeys(types - own, len(nodes)))
        return {cls for cls in set(classes) - own if echoed[cls] and echoed[cls] == self.instances[cls]}

    def classed(self, classes: Collection[str]) -> int:
        """Return the number of things that are instances of any of these classes."""
        return sum(len(nodes) for types, nodes in self._levels.groups.items() if not types.isdisjoint(classes))

    def uses_by_class(self, classes: Collection[str]) -> ClassUses:
        """Return the properties of each class's instances, and the links between classes, without rdf:type."""
        known = frozenset(classes)
        classes_of = {
            node: tuple(shown)
            for types, nodes in self._levels.groups.items()
            if (shown := types & known)
            for node in nodes
        }
        uses: Counter[tuple[str, str]] = Counter()
        links: Counter[tuple[str, str, str]] = Counter()
        untyped, unlinked = set[str](), set[str]()
        for name, pairs in self._statements.by_predicate.items():
            # rdf:type would link every instance to every class, and is no step of a path in the data.
            for subject, value in pairs if name != rdf_names.TYPE else ():
                starts = classes_of.get(subject, ())
                ends = classes_of.get(value, ()) if type(value) is str else ()
                if not starts:
                    untyped.add(name)
                if not starts or not ends:
                    unlinked.add(name)
                for cls in starts:
                    uses[cls, name] += 1
                    for other in ends:
                        links[cls, name, other] += 1
        kept = slice(limits.TYPED_USES)
        most_used, most_linked = sorted(uses.items(), key=_most)[kept], sorted(links.items(), key=_most)[kept]
        return ClassUses(
            tuple(TypedUse(cls=cls, property=name, uses=count) for (cls, name), count in most_used),
            tuple(Link(subject=cls, property=name, object=to, uses=count) for (cls, name, to), count in most_linked),
            frozenset(untyped),
            frozenset(unlinked),
        )


class _Superclasses:
    """The counts of what lies below each class. They are unknown if that takes more steps than the limit."""

    def __init__(self, statements: Statements, groups: Mapping[Types, set[str]]) -> None:
        self._parents: dict[str, list[str]] = defaultdict(list)
        for child, parent in statements.links(rdf_names.SUBCLASS):
            self._parents[child].append(parent)
        self._steps_left = limits.ONTOLOGY_SUPERCLASS_STEPS
        self.instances: Counter[str] = Counter()
        """Things typed with a subclass and not with the class itself."""
        self.subclasses: Counter[str] = Counter()
        """Subclasses with a name."""
        for types, nodes in groups.items():
            self.instances.update(dict.fromkeys(self._above(types) - types, len(nodes)))
        for child in filter(is_iri, list(self._parents)):
            self.subclasses.update(self._above([child]) - {child})

    @property
    def known(self) -> bool:
        """Whether everything could be counted."""
        return self._steps_left > 0

    def _above(self, classes: Iterable[str]) -> set[str]:
        """Return the superclasses that one step or more lead to, as far as the limit allows."""
        above: set[str] = set()
        waiting = list(classes)
        while waiting and self.known:
            for parent in self._parents.get(waiting.pop(), ()):
                self._steps_left -= 1
                if parent not in above:
                    above.add(parent)
                    waiting.append(parent)
        return above


def _most(counted: tuple[tuple[str, ...], int]) -> tuple[int, tuple[str, ...]]:
    """Return the sort key that puts the largest count first, then sorts by IRI."""
    return -counted[1], counted[0]
