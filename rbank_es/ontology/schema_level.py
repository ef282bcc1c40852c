"""The level of each thing in an ontology: schema, value of the vocabulary, or instance.

- *Schema* by type: a class, a property, a datatype, a shape, an ontology header, a restriction. So is any other thing
  with a type of RDF, RDFS, OWL or SHACL, except the few types that data carry too (`DATA_TYPES`). A class that is a
  shape as well, as in Brick, is schema like any other.
- *Schema* by use: a type, a predicate, an imported ontology. So is a thing in a hierarchy, a domain or a range, or one
  that is equal, inverse or disjoint to another, deprecated or versioned, unless its own type is a class of data.
  UniProt's taxa are instances of up:Taxon, though they are subclasses of one another.
- A blank node that only things of the schema lead to is schema, whatever its type.
- A *value* belongs to the vocabulary as well: an individual all of whose classes are classes of values. In such a
  class the ontology itself names at least half of the individuals: the schema refers to them, or they have an
  rdfs:isDefinedBy. Examples are Brick's tags, quantities and substances, UniProt's ranks and organelles, and the author
  in an ontology's header.
- Every other subject is an *instance*, typed or not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set

from rbank_es.ontology import rdf_names
from rbank_es.ontology.statements import BLANK, Statements, is_iri

_IS_DEFINED_BY = rdf_names.RDFS + "isDefinedBy"
_HEADERS = (_IS_DEFINED_BY, rdf_names.OWL + "imports")
"""Predicates that lead to an ontology."""

_OF_TERMS = rdf_names.within(rdf_names.OWL, "deprecated versionInfo")
_BETWEEN_TERMS = rdf_names.within(rdf_names.RDFS, "subClassOf subPropertyOf domain range") | rdf_names.within(
    rdf_names.OWL, "equivalentClass equivalentProperty disjointWith inverseOf"
)
"""Predicates whose ends are of the schema, unless they have a type of data."""


Types = frozenset[str]


class Levels:
    """The parts of a set of statements: schema, values of the vocabulary, instances."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._groups = _by_types(statements)
        self.types: dict[str, Types] = {node: types for types, nodes in self._groups.items() for node in nodes}
        """The named types of each subject that has one."""
        self.schema = self._schema()
        self.value_classes = self._value_classes()
        self.values = self._values()
        self.individuals = self.types.keys() - self.schema - self.values

    def is_instance(self, subject: str) -> bool:
        """Return whether a subject belongs to the data."""
        return subject not in self.schema and subject not in self.values

    def of_type(self, types: Iterable[str]) -> set[str]:
        """Return the IRIs that have one of these types."""
        wanted = set(types)
        return {node for found, nodes in self._groups.items() if wanted & found for node in nodes if is_iri(node)}

    def classes_of(self, individual: str) -> Types:
        """Return the types of an individual that are classes of data."""
        types = self.types.get(individual, Types())
        return types if types.isdisjoint(rdf_names.DATA_TYPES) else types - rdf_names.DATA_TYPES

    def count(self, individuals: Set[str]) -> Counter[str]:
        """Return how many of these individuals are of each class of data."""
        counts: Counter[str] = Counter()
        for types, nodes in self._groups.items():
            counts.update(dict.fromkeys(types - rdf_names.DATA_TYPES, len(nodes & individuals)))
        return counts

    def _schema(self) -> set[str]:
        """Return everything that belongs to the schema."""
        named = {
            node for types, nodes in self._groups.items() if any(map(rdf_names.is_formal, types)) for node in nodes
        }
        named.update(self._statements.by_predicate)
        named.update(type_ for types in self._groups for type_ in types)
        for predicate in _HEADERS:
            named.update(header for _, header in self._statements.links(predicate))
        named.update(
            node for node in self._used_formally() if rdf_names.DATA_TYPES.issuperset(self.types.get(node, ()))
        )
        return named | self._serving(named)

    def _used_formally(self) -> Iterator[str]:
        """Yield things that are of the schema unless their type is one of data."""
        for predicate in _OF_TERMS:
            yield from (subject for subject, _ in self._statements.pairs(predicate))
        for predicate in _BETWEEN_TERMS:
            yield from (node for pair in self._statements.links(predicate) for node in pair)

    def _serving(self, roots: set[str]) -> set[str]:
        """Return blank nodes that hang on the roots and on nothing else."""
        below: dict[str, list[str]] = defaultdict(list)
        for predicate, pairs in self._statements.by_predicate.items():
            if predicate != rdf_names.TYPE:
                for subject, value in pairs:
                    if type(value) is str and value.startswith(BLANK):
                        below[subject].append(value)
        led_to = {blank for blanks in below.values() for blank in blanks}
        others = (node for node in below if node not in roots and not (node.startswith(BLANK) and node in led_to))
        return _reached(roots, below) - _reached(others, below)

    def _value_classes(self) -> set[str]:
        """Return classes of which the ontology itself names at least half of the individuals."""
        named = {subject for subject, _ in self._statements.pairs(_IS_DEFINED_BY)}
        for predicate, pairs in self._statements.by_predicate.items():
            if predicate != rdf_names.TYPE:
                named.update(value for subject, value in pairs if type(value) is str and subject in self.schema)
        individuals = self.types.keys() - self.schema
        all_of, named_of = self.count(individuals), self.count(individuals & named)
        # In integers, so that rounding can't decide at exactly half.
        return {cls for cls, count in named_of.items() if count and 2 * count >= all_of[cls]}

    def _values(self) -> set[str]:
        """Return individuals all of whose classes are classes of values."""
        found: set[str] = set()
        for types, nodes in self._groups.items():
            if self.value_classes.issuperset(types - rdf_names.DATA_TYPES) and not rdf_names.DATA_TYPES.issuperset(
                types
            ):
                found |= nodes
        return found - self.schema


def _by_types(statements: Statements) -> dict[Types, set[str]]:
    """Return subjects by their named types."""
    types: dict[str, list[str]] = defaultdict(list)
    for subject, type_ in statements.links(rdf_names.TYPE):
        if is_iri(type_):
            types[subject].append(type_)
    groups: dict[Types, set[str]] = defaultdict(set)
    for subject, found in types.items():
        groups[frozenset(found)].add(subject)
    return groups


def _reached(roots: Iterable[str], below: dict[str, list[str]]) -> set[str]:
    """Return the blank nodes that roots lead to, through blank nodes."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        for blank in below.get(waiting.pop(), ()):
            if blank not in found:
                found.add(blank)
                waiting.append(blank)
    return found
