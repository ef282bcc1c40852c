"""VoID descriptions: the counts that maintainers publish about an endpoint, as the schema of its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import BadOntology
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import choose_prefixes, count_namespaces, namespace_of
from rbank_es.ontology.property_bounds import Constraints
from rbank_es.ontology.rdf_reader import read_files
from rbank_es.ontology.schema_model import ClassInfo, Link, PropertyInfo, Schema, TypedUse
from rbank_es.ontology.source_files import UnreadFiles, find_files
from rbank_es.ontology.source_names import places
from rbank_es.ontology.statements import Statements, integer_of, is_iri
from rbank_es.ontology.term_labels import best_text

_VOID, _EXT, _SD = rdf_names.VOID, rdf_names.VOID_EXT, rdf_names.SD


def load_void(path: str | Path) -> Schema:
    """Return the schema of an endpoint from a file or a directory that describes it in VoID, without a request.

    Class partitions give classes with their entities; property partitions give properties with their triples, and
    within a class partition their domains; class and datatype partitions within those, and link sets, give ranges.
    Where several graphs hold the same class or property, their counts are added. A number that isn't published, or only
    in parts that may overlap, is None. Raises:
        BadOntology, BadFiles: files can't be read, or describe no class and no property.
    """
    found = find_files(places(path))
    try:
        content = read_files(found)
    except UnreadFiles as unread:
        raise unread.found.refusal() from unread
    if found.failures:
        raise found.refusal()
    described = _Partitions(Statements(content.triples)).schema(content.declared)
    if not described.classes and not described.properties:
        hint = "give a VoID description with class or property partitions, or an ontology by another option"
        raise BadOntology(str(path), "describes no class and no property in VoID", hint)
    return described


class _Partitions:
    """The partitions of the datasets that a VoID file describes."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._classes = {node: cls for node, cls in statements.links(_VOID + "class") if is_iri(cls)}
        self._properties = {node: name for node, name in statements.links(_VOID + "property") if is_iri(name)}
        self._constraints = Constraints()
        self._uses: Counter[tuple[str, str]] = Counter()
        self._links: Counter[tuple[str, str, str]] = Counter()
        self._read_class_partitions()
        self._read_link_sets()

    def schema(self, declared: Iterable[tuple[str, str]]) -> Schema:
        """Return the whole schema."""
        classes, properties = self._all_classes(), self._all_properties()
        terms = {found.iri for found in classes} | {found.iri for found in properties}
        # Read twice below, and it may be an iterator.
        pairs = list(declared)
        counts = count_namespaces(terms | self._constraints.classes, (namespace for _, namespace in pairs))
        return Schema(
            title=self._title(),
            triples=self._whole("triples"),
            prefixes=choose_prefixes(pairs, counts, (), set(map(namespace_of, terms))),
            classes=classes,
            properties=properties,
            typed_uses=tuple(TypedUse(cls=key[0], property=key[1], uses=uses) for key, uses in _most(self._uses)),
            links=tuple(
                Link(subject=key[0], property=key[1], object=key[2], uses=uses) for key, uses in _most(self._links)
            ),
            individuals=self._whole("entities"),
            graphs=tuple(sorted({name for _, name in self._statements.links(_SD + "name") if is_iri(name)})),
        )

    def _read_class_partitions(self) -> None:
        """Record the properties of each class's instances, and their ranges."""
        for node, cls in self._classes.items():
            for partition in self._statements.nodes(node, _VOID + "propertyPartition"):
                if name := self._properties.get(partition):
                    self._constraints.add_domains(name, [cls], "void")
                    self._uses[cls, name] += self._number(partition, "triples") or 0
                    self._read_ranges(cls, name, partition)

    def _read_ranges(self, cls: str, name: str, partition: str) -> None:
        for node in self._statements.nodes(partition, _VOID + "classPartition"):
            if other := self._classes.get(node):
                self._constraints.add_ranges(name, [other], "void")
                self._links[cls, name, other] += self._number(node, "triples") or 0
        for node in self._statements.nodes(partition, _EXT + "datatypePartition"):
            self._constraints.add_ranges(name, filter(is_iri, self._statements.nodes(node, _EXT + "datatype")), "void")

    def _read_link_sets(self) -> None:
        """Record links between the instances of two class partitions."""
        for node, name in self._statements.links(_VOID + "linkPredicate"):
            if is_iri(name):
                for predicate, add in (
                    ("subjectsTarget", self._constraints.add_domains),
                    ("objectsTarget", self._constraints.add_ranges),
                ):
                    targets = self._statements.nodes(node, _VOID + predicate)
                    add(name, [self._classes[target] for target in targets if target in self._classes], "void")

    def _all_classes(self) -> tuple[ClassInfo, ...]:
        entities: Counter[str] = Counter()
        for node, cls in self._classes.items():
            if (number := self._number(node, "entities")) is not None:
                entities[cls] += number
        named = set(self._classes.values()) | {
            cls for cls in self._constraints.classes if not rdf_names.is_datatype(cls)
        }
        degrees = self._degrees()
        return tuple(
            ClassInfo(iri=cls, instances=entities.get(cls), below=None, subclasses=None, degree=degrees[cls])
            for cls in sorted(named)
        )

    def _degrees(self) -> Counter[str]:
        """Return how many properties start from or lead to each class."""
        bounds = ((*self._constraints.domains(name), *self._constraints.ranges(name)) for name in self._named())
        return Counter(cls for found in bounds for cls in {bound.iri for bound in found})

    def _named(self) -> list[str]:
        return sorted(set(self._properties.values()) | self._constraints.properties)

    def _all_properties(self) -> tuple[PropertyInfo, ...]:
        triples = self._triples_by_property()
        return tuple(
            PropertyInfo(
                iri=name,
                domains=self._constraints.domains(name),
                ranges=self._constraints.ranges(name),
                triples=triples.get(name),
            )
            for name in self._named()
        )

    def _triples_by_property(self) -> Counter[str]:
        """Return the triples of each property in whole graphs; those of classes overlap, so they give no sum."""
        found: Counter[str] = Counter()
        for parent, node in self._statements.links(_VOID + "propertyPartition"):
            name, number = self._properties.get(node), self._number(node, "triples")
            if name and parent not in self._classes and number is not None:
                found[name] += number
        return found

    def _whole(self, name: str) -> int | None:
        """Return a number of the largest dataset that is no part of another; None if no dataset has it."""
        parts = {*self._classes, *self._properties}
        parts.update(node for node, _ in self._statements.links(_VOID + "linkPredicate"))
        pairs = self._statements.pairs(_VOID + name)
        return max(
            (found for node, value in pairs if node not in parts and (found := integer_of(value)) is not None),
            default=None,
        )

    def _title(self) -> str:
        """Return the title of the service, else of its dataset, else of any dataset; of several the first."""
        titles = self._statements.by_subject(rdf_names.DCTERMS + "title")
        for kind in (_SD + "Service", _SD + "Dataset", _VOID + "Dataset"):
            described = [
                node for node, type_ in self._statements.links(rdf_names.TYPE) if type_ == kind and node in titles
            ]
            if texts := {best_text(titles[node], limits.ONTOLOGY_LABEL_CHARS) for node in described} - {""}:
                return min(texts)
        return ""

    def _number(self, node: str, name: str) -> int | None:
        numbers = map(integer_of, self._statements.values(node, _VOID + name))
        return max((number for number in numbers if number is not None), default=None)


def _most(counts: Counter[tuple[str, str]] | Counter[tuple[str, str, str]]) -> list[tuple[tuple[str, ...], int]]:
    """Return the largest counts, then by IRI."""
    found: list[tuple[tuple[str, ...], int]] = [(key, count) for key, count in counts.items() if count]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[: limits.TYPED_USES]
