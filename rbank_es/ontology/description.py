"""The description of an ontology: a `Schema` made from triples, independent of their order and blank node names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations, islice

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.ontology import rdf_names
from rbank_es.ontology.instance_counts import InstanceCounts
from rbank_es.ontology.prefixes import choose_prefixes, count_namespaces, namespace_of
from rbank_es.ontology.property_bounds import (
    Constraints,
    Shapes,
    add_declared,
    add_restrictions,
    classes_in_constraints,
    datatypes_in_constraints,
    properties_in_constraints,
    stated_bounds,
    wider_classes,
)
from rbank_es.ontology.schema_level import Levels
from rbank_es.ontology.schema_model import Bound, ClassInfo, Kind, PropertyInfo, Schema
from rbank_es.ontology.statements import Literal, Statements, Triple, is_iri
from rbank_es.ontology.term_labels import Wording, best_text

_OWL = rdf_names.OWL
_TITLES = (rdf_names.DCTERMS + "title", rdf_names.DC + "title", rdf_names.LABEL, rdf_names.SKOS + "prefLabel")
_SKOS_DATA = rdf_names.within(
    rdf_names.SKOS,
    "Concept ConceptScheme inScheme topConceptOf hasTopConcept broader narrower related broaderTransitive "
    "narrowerTransitive member exactMatch closeMatch broadMatch narrowMatch relatedMatch",
)
_SHACL_DATA = rdf_names.within(rdf_names.SH, "property path targetClass") | rdf_names.SHAPE_TYPES


def describe(
    triples: Iterable[Triple], declared: Iterable[tuple[str, str]] = (), graphs: Collection[str] = ()
) -> Schema:
    """Return the schema of an ontology, with counts of its data. `schema_level` separates schema and data.

    Args:
        triples: of all graphs; a triple that comes twice counts once.
        declared: pairs of prefix and namespace, as the files declare them; of several files, all pairs.
        graphs: IRIs of the named graphs.

    Returns:
        The schema: equal for equal sets of triples and declarations, up to the names of blank nodes.
    """
    return _Description(Statements(triples), list(declared)).schema(graphs)


class _Description:
    """The parts of a description, each computed once."""

    def __init__(self, statements: Statements, declared: list[tuple[str, str]]) -> None:
        self._statements = statements
        self._declared = declared
        self._levels = Levels(statements)
        self._wording = Wording(statements)
        self._headers = sorted(self._levels.of_type([_OWL + "Ontology"]))
        # The header of OWL itself has no `#` at its end, as its namespace has; that of RDF has one.
        own = {header.rstrip("#") for header in self._headers}
        self._foreign = tuple(namespace for namespace in rdf_names.FORMAL if namespace.rstrip("#") not in own)
        self._deprecated = self._all_deprecated()
        self._datatypes = self._levels.of_type(rdf_names.DATATYPE_TYPES) | datatypes_in_constraints(statements)
        self._declared_classes = self._levels.of_type(rdf_names.CLASS_TYPES) - self._datatypes
        self._shapes = Shapes(statements, self._declared_classes)
        self._constraints = Constraints()
        add_declared(statements, self._constraints)
        add_restrictions(statements, self._constraints)
        self._shapes.add_to(self._constraints)
        self._parents = _parents(statements, rdf_names.SUBCLASS)
        self._wider = wider_classes(statements)
        self._stated = {name: stated_bounds(statements, name) for name in (rdf_names.DOMAIN, rdf_names.RANGE)}
        self._mentions = statements.mentions()
        self._counts = InstanceCounts(statements, self._levels)
        self._subjects = {subject for pairs in statements.by_predicate.values() for subject, _ in pairs}

    def schema(self, graphs: Collection[str]) -> Schema:
        """Return the whole schema."""
        properties = self._properties()
        classes = self._classes(properties)
        iri, title = self._header()
        names = {info.iri for info in classes}
        uses = self._counts.uses_by_class(names)
        return Schema(
            iri=iri,
            headers=self._named_headers(),
            imports=self._missing_imports(),
            title=title,
            triples=len(self._statements),
            prefixes=self._prefixes({found.iri for found in classes} | {found.iri for found in properties}),
            formalisms=self._formalisms(),
            classes=classes,
            properties=tuple(
                replace(info, untyped=info.iri in uses.untyped, unlinked=info.iri in uses.unlinked)
                for info in properties
            ),
            disjoint=_disjoint(self._statements),
            cardinalities=self._constraints.cardinalities(),
            typed_uses=uses.typed,
            links=uses.links,
            label_properties=self._wording.count(self._wording.label_properties),
            definition_properties=self._wording.count(self._wording.definition_properties),
            modelling=self._counts.modelling(),
            individuals=self._counts.individuals,
            classed=self._counts.classed(names),
            graphs=tuple(sorted(graphs)),
            shapes=len(self._shapes.node_shapes),
            concepts=self._counts.instances[rdf_names.SKOS + "Concept"],
        )

    def _header(self) -> tuple[str, str]:
        """Return the IRI of the ontology and its title, or another header's title if it has none."""
        titles = (
            best_text(self._statements.values(header, name), limits.ONTOLOGY_LABEL_CHARS)
            for header in self._headers
            for name in _TITLES
        )
        return self._headers[0] if self._headers else "", next(filter(None, titles), "")

    def _named_headers(self) -> tuple[str, ...]:
        """Return the IRIs of all headers, and the namespaces that they prefer."""
        values = (value for _, value in self._statements.pairs(rdf_names.VANN + "preferredNamespaceUri"))
        spaces = {value.value if isinstance(value, Literal) else value for value in values}
        return tuple(sorted(filter(is_iri, {*self._headers, *spaces})))

    def _missing_imports(self) -> tuple[str, ...]:
        """Return the imports that are no header, and no version of one, among these statements."""
        versions = {version for _, version in self._statements.links(_OWL + "versionIRI")}
        here = {iri.rstrip("#/") for iri in (*self._headers, *versions)}
        wanted = {iri for _, iri in self._statements.links(_OWL + "imports") if is_iri(iri)}
        return tuple(sorted(iri for iri in wanted if iri.rstrip("#/") not in here))

    def _prefixes(self, terms: Iterable[str]) -> dict[str, str]:
        iris = self._statements.iris()
        counts = count_namespaces(iris, (namespace for _, namespace in self._declared))
        unnamed = {namespace for prefix, namespace in self._declared if not prefix and counts.get(namespace)}
        vocabulary = unnamed | {namespace_of(term) for term in terms}
        return choose_prefixes(self._declared, counts, self._preferred(counts), vocabulary)

    def _preferred(self, counts: Mapping[str, int]) -> set[tuple[str, str]]:
        """Return the prefixes that ontologies ask for, with their namespaces."""
        wanted = set()
        for header, prefix in self._statements.pairs(rdf_names.VANN + "preferredNamespacePrefix"):
            terms = self._statements.values(header, rdf_names.VANN + "preferredNamespaceUri")
            spaces = [term.value if isinstance(term, Literal) else term for term in terms]
            spaces = spaces or [space for space in (header, header + "#", header + "/") if counts.get(space)]
            wanted |= {(prefix.value, space) for space in spaces if isinstance(prefix, Literal)}
        return wanted

    def _formalisms(self) -> tuple[str, ...]:
        """Return the schema languages in use. Labels alone are not RDFS, definitions alone not SKOS."""
        used = {*self._statements.by_predicate, *(type_ for types in self._levels.types.values() for type_ in types)}
        rdfs = {rdf_names.SUBCLASS, rdf_names.SUBPROPERTY, rdf_names.DOMAIN, rdf_names.RANGE, rdf_names.RDFS + "Class"}
        owl = {iri for iri in used if iri.startswith(_OWL)}
        found = {"RDFS": used & rdfs, "OWL": owl, "SKOS": used & _SKOS_DATA, "SHACL": used & _SHACL_DATA}
        return tuple(name for name, in_use in found.items() if in_use)

    def _all_deprecated(self) -> set[str]:
        marked = self._statements.pairs(_OWL + "deprecated")
        deprecated = {
            subject for subject, value in marked if isinstance(value, Literal) and value.value in ("true", "1")
        }
        return deprecated | self._levels.of_type([_OWL + "DeprecatedClass", _OWL + "DeprecatedProperty"])

    def _classes(self, properties: Collection[PropertyInfo]) -> tuple[ClassInfo, ...]:
        degrees = Counter(cls for found in properties for cls in _ends(found.domains, found.ranges))
        iris = sorted(
            filter(self._is_class, {*self._declared_classes, *self._counts.instances, *self._named_classes()})
        )
        echoes = self._counts.echoing(iris, (found.iri for found in properties))
        return tuple(self._class(iri, degrees[iri], iri in echoes) for iri in iris)

    def _named_classes(self) -> Iterator[str]:
        """Yield the names that hierarchies, constraints and shapes use for classes."""
        for predicate in rdf_names.BETWEEN_CLASSES:
            ends = (cls for pair in self._statements.links(predicate) for cls in pair)
            yield from (cls for cls in ends if cls in self._declared_classes or not self._levels.is_instance(cls))
        yield from classes_in_constraints(self._statements)

    def _is_class(self, iri: str) -> bool:
        """Return whether a candidate is a class that the ontology defines or uses, by its name and its uses.

        Left out are datatypes, the types of the parts of an ontology, and other terms of a schema language without an
        instance, unless the ontology is that language.
        """
        if iri.startswith("_:") or len(iri) > limits.ONTOLOGY_IRI_CHARS:
            return False
        if iri in self._datatypes or rdf_names.is_datatype(iri):
            return False
        if not iri.startswith(self._foreign):
            return True
        return self._counts.instances[iri] > 0 and iri not in rdf_names.MODELLING | rdf_names.UNTELLING

    def _class(self, iri: str, degree: int, echoes: bool) -> ClassInfo:
        notes, left_out = self._wording.notes(iri)
        return ClassInfo(
            iri=iri,
            label=self._wording.label(iri),
            comment=self._wording.definition(iri),
            notes=notes,
            notes_left_out=left_out,
            parents=tuple(sorted(self._parents.get(iri, ()))),
            wider=tuple(sorted(self._wider.get(iri, set()) - self._parents.get(iri, set()) - {iri})),
            instances=self._counts.instances[iri],
            below=self._counts.below(iri),
            subclasses=self._counts.subclasses(iri),
            listed=self._counts.listed[iri],
            echoes=echoes,
            degree=degree,
            mentions=self._mentions[iri],
            declared=iri in self._declared_classes,
            deprecated=iri in self._deprecated,
        )

    def _properties(self) -> tuple[PropertyInfo, ...]:
        types = self._levels.types
        declared = self._levels.of_type(rdf_names.PROPERTY_TYPES)
        parents, inverses = _parents(self._statements, rdf_names.SUBPROPERTY), _inverses(self._statements)
        known = declared | self._statements.by_predicate.keys() | properties_in_constraints(self._statements)
        known = {iri for iri in known if is_iri(iri) and len(iri) <= limits.ONTOLOGY_IRI_CHARS}
        return tuple(
            self._property(
                iri, types.get(iri, frozenset()), parents.get(iri, ()), inverses.get(iri, ()), iri in declared
            )
            for iri in sorted(known)
        )

    def _property(
        self, iri: str, types: frozenset[str], parents: Iterable[str], inverses: Iterable[str], declared: bool
    ) -> PropertyInfo:
        pairs = self._statements.by_predicate.get(iri, ())
        notes, left_out = self._wording.notes(iri)
        return PropertyInfo(
            iri=iri,
            kind=_kind(iri, types),
            label=self._wording.label(iri),
            comment=self._wording.definition(iri),
            notes=notes,
            notes_left_out=left_out,
            domains=self._constraints.domains(iri),
            ranges=self._constraints.ranges(iri),
            domain_stated=iri in self._stated[rdf_names.DOMAIN],
            range_stated=iri in self._stated[rdf_names.RANGE],
            parents=tuple(sorted(parents)),
            inverses=tuple(sorted(inverses)),
            triples=len(pairs),
            listed=self._counts.listed_triples(iri),
            steps=self._counts.steps(iri, self._subjects),
            mentions=self._mentions[iri],
            functional=_OWL + "FunctionalProperty" in types,
            inverse_functional=_OWL + "InverseFunctionalProperty" in types,
            transitive=_OWL + "TransitiveProperty" in types,
            symmetric=_OWL + "SymmetricProperty" in types,
            declared=declared,
            deprecated=iri in self._deprecated,
        )


def _ends(domains: Iterable[Bound], ranges: Iterable[Bound]) -> set[str]:
    """Return the classes that bound a property, each once, however many sources or roles name it."""
    return {bound.iri for bound in (*domains, *ranges)}


def _parents(statements: Statements, predicate: str) -> Mapping[str, set[str]]:
    """Return named parents by child; nothing is its own parent."""
    found: dict[str, set[str]] = defaultdict(set)
    for child, parent in statements.named_links(predicate):
        if child != parent and parent not in rdf_names.ANYTHING:
            found[child].add(parent)
    return found


def _inverses(statements: Statements) -> Mapping[str, set[str]]:
    """Return inverse properties, in both directions."""
    found: dict[str, set[str]] = defaultdict(set)
    for predicate in rdf_names.INVERSES:
        for one, other in statements.named_links(predicate):
            found[one].add(other)
            found[other].add(one)
    return found


def _disjoint(statements: Statements) -> tuple[tuple[str, str], ...]:
    """Return pairs of disjoint classes from pairs, groups and disjoint unions: the first `DISJOINT_PAIRS` by IRI."""
    pairs = {(min(pair), max(pair)) for pair in statements.named_links(_OWL + "disjointWith")}
    groups = [statements.members(node) for _, node in statements.links(_OWL + "disjointUnionOf")]
    for node, type_ in statements.links(rdf_names.TYPE):
        if type_ == _OWL + "AllDisjointClasses":
            groups.append(statements.listed(node, _OWL + "members"))
    for group in groups:
        # A group of n classes makes n²/2 pairs, so the largest ones are cut here already.
        pairs.update(islice(combinations(sorted(filter(is_iri, group)), 2), limits.DISJOINT_PAIRS))
    return tuple(sorted(pair for pair in pairs if pair[0] != pair[1])[: limits.DISJOINT_PAIRS])


def _kind(iri: str, types: frozenset[str]) -> Kind:
    """Return the declared kind of a property: annotation only if it is nothing else, none for contradictions."""
    if iri in rdf_names.ANNOTATIONS:
        return "annotation"
    to_things = _OWL + "ObjectProperty" in types
    to_literals = _OWL + "DatatypeProperty" in types
    if to_things != to_literals:
        return "object" if to_things else "datatype"
    if to_things:
        return "property"
    if _OWL + "AnnotationProperty" in types or _OWL + "OntologyProperty" in types:
        return "annotation"
    implied = ("Transitive", "Symmetric", "InverseFunctional", "Asymmetric", "Reflexive", "Irreflexive")
    return "object" if any(f"{_OWL}{name}Property" in types for name in implied) else "property"
