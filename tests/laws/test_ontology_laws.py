"""Laws of ontologies: neither order nor blank node labels enter a schema, names lead back, no bytes break a reader."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pyoxigraph
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rbank_es.errors import BadOntology
from rbank_es.ontology import rdf_names
from rbank_es.ontology.description import describe
from rbank_es.ontology.loader import load_ontology
from rbank_es.ontology.prefixes import WELL_KNOWN, Prefixes, choose_prefixes, count_namespaces, namespace_of
from rbank_es.ontology.source_files import SUFFIXES
from rbank_es.ontology.statements import Literal, Term, Triple
from rbank_es.ontology.vocabulary import Vocabulary
from tests.effort import examples

ZOO = "http://example.org/zoo#"
NAMES = [f"{space}{name}" for space in (ZOO, "http://example.org/farm/") for name in ("A", "B", "C", "p", "q", "r")]
BLANKS = [f"_:b{number}" for number in range(8)]
META = sorted(
    rdf_names.CLASS_TYPES
    | rdf_names.PROPERTY_TYPES
    | rdf_names.SHAPE_TYPES
    | rdf_names.DATATYPE_TYPES
    | rdf_names.UNTELLING
    | rdf_names.within(rdf_names.RDF, "Statement Bag List")
    | rdf_names.within(rdf_names.OWL, "Ontology Restriction AllDisjointClasses")
    | {rdf_names.SKOS + "Concept"}
)
PREDICATES = sorted(
    {rdf_names.TYPE, rdf_names.FIRST, rdf_names.REST, rdf_names.VANN + "preferredNamespacePrefix"}
    | rdf_names.within(rdf_names.RDFS, "subClassOf subPropertyOf domain range label comment isDefinedBy")
    | rdf_names.within(
        rdf_names.OWL,
        "unionOf intersectionOf equivalentClass onProperty someValuesFrom allValuesFrom onClass cardinality "
        "minCardinality maxCardinality maxQualifiedCardinality inverseOf disjointWith members disjointUnionOf "
        "deprecated",
    )
    | rdf_names.within(
        rdf_names.SH,
        "property path class datatype node or and minCount maxCount targetClass targetSubjectsOf deactivated",
    )
    | rdf_names.within(rdf_names.SCHEMA[0], "domainIncludes rangeIncludes name")
    | {rdf_names.SKOS + "prefLabel", rdf_names.SKOS + "definition", ZOO + "p", ZOO + "q"}
)
literals = st.builds(
    Literal,
    st.sampled_from(("", "a", "b", "true", "0", "1", "2", "-1", "x" * 2_000, ZOO)),
    st.sampled_from(("", "en", "en-GB", "de")),
    st.just(""),
)
nodes = st.sampled_from([*NAMES, *BLANKS])
objects: st.SearchStrategy[Term] = st.one_of(nodes, st.sampled_from([*META, rdf_names.NIL]), literals)
triples = st.tuples(nodes, st.sampled_from(PREDICATES), objects)
graphs = st.lists(triples, max_size=60)
declarations = st.lists(
    st.tuples(st.sampled_from(("", "z", "ex", "prov", "zoo", "1")), st.sampled_from([namespace_of(n) for n in NAMES]))
)


def renamed(term: Term, labels: dict[str, str]) -> Term:
    return labels.get(term, term) if isinstance(term, str) else term


def encoded(found: list[Triple], declared: list[tuple[str, str]]) -> bytes:
    return msgspec.json.encode(describe(found, declared))


@given(graphs, declarations, st.randoms(use_true_random=False), st.permutations(BLANKS))
@settings(max_examples=examples(300))
def test_a_schema_knows_neither_order_nor_labels_of_blank_nodes(
    found: list[Triple], declared: list[tuple[str, str]], order: random.Random, labels: list[str]
) -> None:
    """Shuffled, repeated, its blank nodes renamed: the same bytes."""
    other_labels = dict(zip(BLANKS, labels, strict=True))
    other = [(str(renamed(s, other_labels)), p, renamed(o, other_labels)) for s, p, o in found] * 2
    other_declared = list(declared)
    order.shuffle(other)
    order.shuffle(other_declared)
    assert encoded(other, other_declared) == encoded(found, declared)


@given(graphs, declarations)
def test_what_a_schema_says_hangs_together(found: list[Triple], declared: list[tuple[str, str]]) -> None:
    """Sorted, each once, counts within what was there, names that lead back."""
    schema = describe(found, declared)
    assert schema.triples == len(set(found))
    for group in (schema.classes, schema.properties):
        iris = [term.iri for term in group]
        assert iris == sorted(set(iris))
    assert {p for _, p, _ in found} <= {term.iri for term in schema.properties}
    assert all(term.listed <= (term.triples or 0) for term in schema.properties)
    assert all(cls.listed <= (cls.instances or 0) for cls in schema.classes)
    assert sum(term.triples or 0 for term in schema.properties) == schema.triples
    assert all(cls.iri not in cls.parents for cls in schema.classes)
    assert all(one < other for one, other in schema.disjoint)
    assert "" not in schema.prefixes
    assert len(set(schema.prefixes.values())) == len(schema.prefixes)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(schema), type=type(schema)) == schema
    vocabulary = Vocabulary.from_schema(schema)
    assert all(vocabulary.knows_class(cls.iri) for cls in schema.classes)
    assert all(vocabulary.knows_property(term.iri) for term in schema.properties)


iri_ends = st.text(st.characters(exclude_characters='<>"{}|^`\\', exclude_categories=["Cs", "Cc", "Z", "Cn", "Co"]))


@given(st.sampled_from([*WELL_KNOWN.values(), ZOO, "http://example.org/record"]), iri_ends)
@example(ZOO, "a.")
@example(ZOO, "·")
@example(ZOO, "a·")
@example(ZOO, "٣")
def test_a_name_leads_back_to_its_iri_here_and_in_sparql(namespace: str, end: str) -> None:
    prefixes = Prefixes({**WELL_KNOWN, "zoo": ZOO, "rec0": "http://example.org/record"})
    iri = namespace + end
    name = prefixes.shorten(iri)
    assert prefixes.expand(name) == iri
    if not name.startswith("<"):
        prefix = name.partition(":")[0]
        query = f"PREFIX {prefix}: <{prefixes[prefix]}> SELECT (str({name}) AS ?iri) {{}}"
        [row] = pyoxigraph.Store().query(query)  # type: ignore[misc, union-attr]
        assert row["iri"].value == iri  # type: ignore[index, union-attr]


@given(
    st.lists(
        st.tuples(st.sampled_from(("", "a", "b", "up", "prov", "9")), st.sampled_from(("http://a/", "http://b#")))
    ),
    st.dictionaries(st.sampled_from(("http://a/", "http://b#", WELL_KNOWN["prov"])), st.integers(0, 3)),
    st.randoms(use_true_random=False),
)
def test_prefixes_are_chosen_whatever_the_order_of_declarations(
    declared: list[tuple[str, str]], counts: dict[str, int], order: random.Random
) -> None:
    """Each namespace one prefix, each prefix one namespace, none that doesn't occur."""
    chosen = choose_prefixes(declared, counts, (), set(counts))
    shuffled, recounted = list(declared), dict(reversed(counts.items()))
    order.shuffle(shuffled)
    assert choose_prefixes(shuffled, recounted, (), set(counts)) == chosen
    assert set(chosen.values()) == set(counts)
    assert "" not in chosen


@given(
    st.sets(st.sampled_from([ZOO + "a", "http://a/b/c", "urn:x:y", "plain", "http://a/"])), st.sampled_from(("", ZOO))
)
def test_counts_of_namespaces_add_up_to_all_iris(iris: set[str], declared: str) -> None:
    assert sum(count_namespaces(iris, [declared]).values()) == len(iris)


@given(st.sets(nodes, max_size=8), st.text(max_size=30), st.integers(0, 5), st.sampled_from(("class", "property")))
def test_the_nearest_terms_are_known_few_and_always_the_same(terms: set[str], name: str, n: int, kind: str) -> None:
    vocabulary = Vocabulary(terms, terms)
    near = vocabulary.nearest(ZOO + name, kind, n)  # type: ignore[arg-type]
    assert len(near) == len(set(near)) <= n
    assert all(vocabulary.knows_class(term) or vocabulary.knows_property(term) for term in near)
    assert Vocabulary(sorted(terms), reversed(sorted(terms))).nearest(ZOO + name, kind, n) == near  # type: ignore[arg-type]


WHOLE = {
    "turtle": b"@prefix : <http://example.org/zoo#> .\n"
    b":tom a :Cat ; :name \"Tom\"@en, 'x' ; :friends ( :eve [ :age 3 ] ) .",
    "trig": b"@prefix : <http://example.org/zoo#> .\n:g { :tom a :Cat }\n_:b { :x :y 1.5 }",
    "nquads": b'<http://a/s> <http://a/p> "o"@en <http://a/g> .\n_:s <http://a/p> <http://a/o> .\n',
    "xml": b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://a/"><Cat r:about="http://a/tom">'
    b"<age>3</age></Cat></r:RDF>",
    "json-ld": b'{"@context": {"z": "http://a/"}, "@id": "z:tom", "z:age": [1, {"@value": "x", "@language": "en"}]}',
}
edits = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 4), st.binary(max_size=4)), max_size=4)


@given(st.sampled_from(sorted(WHOLE)), edits, st.sampled_from([*SUFFIXES, ""]))
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_damaged_files_load_or_are_refused_with_a_reason(
    form: str, changes: list[tuple[int, int, bytes]], suffix: str
) -> None:
    """Nothing else is raised, whatever bytes are cut out, put in or changed, and whatever the file is called."""
    content = WHOLE[form]
    for start, length, new in changes:
        content = content[:start] + new + content[start + length :]
    with TemporaryDirectory() as place:
        path = Path(place, "file" + suffix)
        path.write_bytes(content)
        try:
            loaded = load_ontology(path, cache=Path(place, "cache"))
        except BadOntology as error:
            assert error.reason
            assert error.hint
        else:
            assert loaded.schema.triples > 0
            quads = pyoxigraph.parse(path=loaded.quads, format=pyoxigraph.RdfFormat.N_QUADS)
            assert sum(1 for _ in quads) >= loaded.schema.triples


@given(st.binary(min_size=1, max_size=200), st.sampled_from([*SUFFIXES, ""]))
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_bytes_load_or_are_refused_with_a_reason(content: bytes, suffix: str) -> None:
    with TemporaryDirectory() as place:
        path = Path(place, "file" + suffix)
        path.write_bytes(content)
        try:
            load_ontology(path, cache=Path(place, "cache"))
        except BadOntology as error:
            assert error.hint
