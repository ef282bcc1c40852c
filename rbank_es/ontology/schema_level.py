"""The level of each thing in an ontology: its vocabulary, or data. Rankings use it, but no number that is shown.

- *Schema* by type: whatever has a type of `MODELLING`: a class, a property, an ontology's header, a restriction.
- *Schema* by use: a type, a predicate, an imported ontology. So is a thing in a hierarchy, a domain or a range, or one
  that is equal, inverse or disjoint to another, deprecated or versioned, unless it is an instance. UniProt's taxa are
  instances of up:Taxon, though they are subclasses of one another.
- A blank node that only things of the schema lead to is schema, whatever its type.
- A *value* belongs to the vocabulary as well: an instance all of whose classes are classes of values. Of such a class,
  at least half of the instances are schema or named by it: the schema refers to them, or they have an rdfs:isDefinedBy.
  Examples are Brick's tags and quantities, its shapes (most are classes too), UniProt's ranks, and the author in an
  ontology's header. The shapes of a file that only has shapes are data.
- Everything else is data, unless all of it lies in namespaces of terms, which hold `TERMS_PER_VALUE` terms for each of
  its things: schema.org's days of the week are no data either.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set

from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import namespace_of
from rbank_es.ontology.statements import BLANK, Statements, is_iri

_IS_DEFINED_BY = rdf_names.RDFS + "isDefinedBy"
_HEADERS = (_IS_DEFINED_BY, rdf_names.OWL + "imports")
"""Predicates that lead to an ontology."""

_OF_TERMS = rdf_names.within(rdf_names.OWL, "deprecated versionInfo")
_BETWEEN_TERMS = rdf_names.within(rdf_names.RDFS, "subClassOf subPropertyOf domain range") | rdf_names.within(
    rdf_names.OWL, "equivalentClass equivalentProperty disjointWith inverseOf"
)
"""Predicates whose ends are of the schema, unless they are instances."""


TERMS_PER_VALUE = 3
"""Terms for each instance in a namespace of terms: schema.org has five; small data share a namespace with few terms."""

Types = frozenset[str]


class Levels:
    """The things of a set of statements by their types, and which of them belong to the vocabulary."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self.groups = _by_types(statements)
        """Subjects by their types, blank nodes among these."""
        self.types: dict[str, Types] = {node: types for types, nodes in self.groups.items() for node in nodes}
        """The types of each subject that has one."""
        self.schema = self._schema()
        self.vocabulary = self.schema | self._values()
        self.vocabulary |= self._beside_terms()

    def of_type(self, types: Iterable[str]) -> set[str]:
        """Return the IRIs that have one of these types."""
        wanted = set(types)
        return {node for found, nodes in self.groups.items() if wanted & found for node in nodes if is_iri(node)}

    def is_instance(self, node: str) -> bool:
        """Return whether a thing has a type that no part of an ontology has."""
        return any(map(rdf_names.is_data_type, self.types.get(node, ())))

    def individuals(self) -> int:
        """Return the number of instances."""
        return sum(len(nodes) for types, nodes in self.groups.items() if any(map(rdf_names.is_data_type, types)))

    def count(self, among: Set[str] | None = None) -> Counter[str]:
        """Return how many things are of each type; `among` limits the things."""
        counts: Counter[str] = Counter()
        for types, nodes in self.groups.items():
            counts.update(dict.fromkeys(types, len(nodes if among is None else nodes & among)))
        return counts

    def _schema(self) -> set[str]:
        """Return everything that belongs to the schema."""
        named = {
            node for types, nodes in self.groups.items() if not rdf_names.MODELLING.isdisjoint(types) for node in nodes
        }
        named.update(self._statements.by_predicate)
        named.update(type_ for types in self.groups for type_ in types)
        for predicate in _HEADERS:
            named.update(header for _, header in self._statements.links(predicate))
        named.update(node for node in self._used_formally() if not self.is_instance(node))
        return named | self._serving(named)

    def _used_formally(self) -> Iterator[str]:
        """Yield things that are of the schema unless they are instances."""
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
        """Return classes of which at least half of the instances are schema or named by it."""
        named = {subject for subject, _ in self._statements.pairs(_IS_DEFINED_BY)} | self.schema
        for predicate, pairs in self._statements.by_predicate.items():
            if predicate != rdf_names.TYPE:
                named.update(value for subject, value in pairs if type(value) is str and subject in self.schema)
        all_of, named_of = self.count(), self.count(named)
        # In integers, so that rounding can't decide at exactly half.
        return {cls for cls, count in named_of.items() if count and 2 * count >= all_of[cls]}

    def _beside_terms(self) -> set[str]:
        """Return the instances that are left, if all of them lie in namespaces that mostly consist of terms."""
        terms = Counter(map(namespace_of, self.of_type(rdf_names.CLASS_TYPES | rdf_names.PROPERTY_TYPES)))
        left = self.types.keys() - self.vocabulary
        if TERMS_PER_VALUE * len(left) > terms.total():
            return set()
        beside = Counter(map(namespace_of, left))
        return set(left) if all(TERMS_PER_VALUE * beside[space] <= terms[space] for space in beside) else set()

    def _values(self) -> set[str]:
        """Return the instances all of whose classes are classes of values."""
        value_classes, found = self._value_classes(), set[str]()
        for types, nodes in self.groups.items():
            if value_classes.issuperset(types - rdf_names.UNTELLING) and not rdf_names.UNTELLING.issuperset(types):
                found |= nodes
        return found


def _by_types(statements: Statements) -> dict[Types, set[str]]:
    """Return subjects by their types."""
    types: dict[str, list[str]] = defaultdict(list)
    for subject, type_ in statements.links(rdf_names.TYPE):
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
