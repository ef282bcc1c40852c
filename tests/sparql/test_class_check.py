"""Classes against domains and ranges: compared with a plain definition on generated ontologies; only a suspicion."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations, product
from random import Random
from typing import NamedTuple

import pytest

from rbank_es.judging.checks import judge_by_checks
from rbank_es.ontology import rdf_names
from rbank_es.ontology.description import describe
from rbank_es.ontology.disjointness import ClassFit
from rbank_es.ontology.loader import load_ontology
from rbank_es.ontology.prefixes import Prefixes
from rbank_es.sparql.class_check import mismatches
from rbank_es.sparql.data_source import Source, open_source
from rbank_es.sparql.guard import check
from rbank_es.sparql.parser.parsed_query import parse_query
from tests.judging.answers import run_of

EX = "http://ex/"
PREFIXES = {"ex": EX}
CLASSES = [f"C{n}" for n in range(6)]
PROPERTIES = [f"p{n}" for n in range(4)]


class World(NamedTuple):
    """An ontology in its simplest form; a bound is the classes of a union, empty where owl:Thing is the bound."""

    subclasses: list[tuple[str, str]]
    equivalent: list[tuple[str, str]]
    disjoint: list[tuple[str, str]]
    unions: list[tuple[str, tuple[str, ...]]]
    superproperties: list[tuple[str, str]]
    bounds: dict[tuple[str, str], tuple[str, ...]]

    def triples(self) -> Iterator[tuple[str, str, str]]:
        """Yield it as triples."""
        for cls in CLASSES:
            yield EX + cls, rdf_names.TYPE, rdf_names.OWL + "Class"
        for name in PROPERTIES:
            yield EX + name, rdf_names.TYPE, rdf_names.OWL + "ObjectProperty"
        for pairs, predicate in (
            (self.subclasses, rdf_names.SUBCLASS),
            (self.equivalent, rdf_names.EQUIVALENT_CLASS),
            (self.disjoint, rdf_names.OWL + "disjointWith"),
            (self.superproperties, rdf_names.SUBPROPERTY),
        ):
            yield from ((EX + one, predicate, EX + other) for one, other in pairs)
        for number, (cls, parts) in enumerate(self.unions):
            yield EX + cls, rdf_names.EQUIVALENT_CLASS, f"_:u{number}"
            yield from union(f"_:u{number}", parts)
        for number, ((name, end), classes) in enumerate(self.bounds.items()):
            predicate = rdf_names.DOMAIN if end == "domain" else rdf_names.RANGE
            if len(classes) > 1:
                yield EX + name, predicate, f"_:b{number}"
                yield from union(f"_:b{number}", classes)
            else:
                yield EX + name, predicate, EX + classes[0] if classes else rdf_names.OWL + "Thing"


def union(node: str, parts: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    yield node, rdf_names.UNION, f"{node}l0"
    for at, part in enumerate(parts):
        yield f"{node}l{at}", rdf_names.FIRST, EX + part
        yield f"{node}l{at}", rdf_names.REST, f"{node}l{at + 1}" if at + 1 < len(parts) else rdf_names.NIL


def plainly(world: World, statements: list[tuple[str, str, str]]) -> set[tuple[str, ...]]:
    """What is suspect of one group, by the definition: fixpoints over all pairs, nothing kept."""
    under = {(cls, cls) for cls in CLASSES} | {*world.subclasses, *world.equivalent}
    under |= {(other, one) for one, other in world.equivalent}
    under |= {pair for cls, parts in world.unions for part in parts for pair in ((part, cls), (cls, part))}
    above = {(name, name) for name in PROPERTIES} | {*world.superproperties}
    for relation in (under, above):
        while new := {(a, d) for a, b in relation for c, d in relation if b == c} - relation:
            relation |= new
    apart = {pair for one, other in world.disjoint if one != other for pair in ((one, other), (other, one))}

    def excludes(one: str, other: str) -> bool:
        return any((one, a) in under and (other, b) in under for a, b in apart)

    def fits(one: str, other: str) -> bool:
        return any((cls, one) in under and (cls, other) in under for cls in CLASSES)

    found: set[tuple[str, ...]] = set()
    for node in ("?x", "?y", "?z"):
        types = {value for subject, name, value in statements if subject == node and name == "a"}
        ends = {
            (name, end, world.bounds[upper, end])
            for subject, name, value in statements
            for end, who in (("domain", subject), ("range", value))
            for upper in PROPERTIES
            if name != "a" and who == node and (name, upper) in above and world.bounds.get((upper, end))
        }
        found |= {("types", node) for one, other in combinations(sorted(types), 2) if excludes(one, other)}
        if types:
            unfit = (end for end in ends if not any(fits(*pair) for pair in product(types, end[2])))
            found |= {("end", node, name, end) for name, end, _ in unfit}
        else:
            for one, other in combinations(ends, 2):
                if all(excludes(*pair) for pair in product(one[2], other[2])):
                    found.add(("ends", node))
    return found


def told(world: World, statements: list[tuple[str, str, str]]) -> set[tuple[str, ...]]:
    """What the check says of the same group."""
    where = " . ".join(f"{s} {p if p == 'a' else 'ex:' + p} {'ex:' + o if p == 'a' else o}" for s, p, o in statements)
    fit = ClassFit(describe(world.triples()))
    found: set[tuple[str, ...]] = set()
    for said in mismatches(parse_query(f"SELECT * {{ {where} }}", PREFIXES).tree, fit, Prefixes(PREFIXES).shorten):
        if end := re.match(r"(\?\w) is typed .*, and ex:(\w+) has the (domain|range) ", said):
            found.add(("end", *end.groups()))
        elif both := re.match(r"(\?\w) is typed .* which are disjoint$", said):
            found.add(("types", both[1]))
        elif ends := re.match(r"(\?\w) can't be both: ", said):
            found.add(("ends", ends[1]))
        else:
            raise AssertionError(said)
    return found


def made(random: Random) -> tuple[World, list[tuple[str, str, str]]]:
    """A random ontology, dense enough that classes are related, and the statements of a query over it."""

    def pairs(names: list[str], most: int) -> list[tuple[str, str]]:
        found = [(random.choice(names), random.choice(names)) for _ in range(random.randint(0, most))]
        return [pair for pair in found if pair[0] != pair[1]]

    def some(most: int) -> tuple[str, ...]:
        return tuple(random.sample(CLASSES, random.randint(0, most)))

    whole, *parts = random.sample(CLASSES, 3)
    ends = [(name, end) for name in PROPERTIES for end in ("domain", "range")]
    world = World(
        subclasses=pairs(CLASSES, 4),
        equivalent=pairs(CLASSES, 1),
        disjoint=pairs(CLASSES, 3),
        unions=[(whole, tuple(parts))] if random.random() < 0.3 else [],
        superproperties=pairs(PROPERTIES, 2),
        bounds={end: some(2) for end in random.sample(ends, 5)},
    )
    statements = [("?x", "a", cls) for cls in some(2)] + [("?y", "a", cls) for cls in some(1)]
    return world, [
        *statements,
        *(("?x", random.choice(PROPERTIES), random.choice(["?y", "?z", "?x"])) for _ in range(2)),
    ]


@pytest.mark.slow
def test_the_check_says_what_the_plain_definition_says() -> None:
    random, kinds = Random(7), Counter[str]()
    for _ in range(3_000):
        world, statements = made(random)
        expected = plainly(world, statements)
        assert told(world, statements) == expected, (world, statements)
        kinds.update({each[0] for each in expected} or {"none"})
    assert min(kinds[kind] for kind in ("types", "end", "ends", "none")) > 30, kinds


# ---------------------------------------------------------------- groups, paths, words

MODEL = """
@prefix ex: <http://ex/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:Animal a owl:Class . ex:Dog a owl:Class ; rdfs:subClassOf ex:Animal . ex:Person a owl:Class .
ex:Car a owl:Class ; owl:disjointWith ex:Animal . ex:Robot a owl:Class .
ex:wheels a owl:ObjectProperty ; rdfs:domain ex:Car . ex:barks a owl:ObjectProperty ; rdfs:domain ex:Dog .
ex:owner a owl:ObjectProperty ; rdfs:domain [ owl:unionOf (ex:Car ex:Dog) ] ; rdfs:range ex:Person .
ex:likes a owl:ObjectProperty .
ex:Person rdfs:subClassOf [ a owl:Restriction ; owl:onProperty ex:likes ; owl:someValuesFrom ex:Dog ] .
ex:k9 a ex:Robot ; ex:barks ex:loudly .
"""  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    folder = tmp_path_factory.mktemp("model")
    (folder / "model.ttl").write_text(MODEL)
    with closing(open_source(load_ontology(folder / "model.ttl", cache=folder / "cache"))) as opened:
        yield opened


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (
            "?x a ex:Person ; ex:wheels ?w",
            "?x is typed ex:Person, and ex:wheels has the domain ex:Car, of which ex:Person is no subclass",
        ),
        ("?x a ex:Dog ; ex:wheels ?w", "ex:Dog is no subclass; they are disjoint"),
        ("?x a ex:Person ; ex:owner ?w", "the domain ex:Car or ex:Dog"),
        ("?x a ex:Car ; ex:owner ?o . ?o a ex:Dog", "?o is typed ex:Dog, and ex:owner has the range ex:Person"),
        ("?o ^ex:owner ?x . ?o a ex:Dog", "?o is typed ex:Dog"),
        ("?x a/rdfs:subClassOf* ex:Person ; ex:owner/ex:likes ?y", "?x is typed ex:Person"),
        ("?x a ex:Person OPTIONAL { ?x ex:wheels ?w }", "?x is typed ex:Person"),
        ("?x a ex:Person { ?x ex:wheels ?w }", "?x is typed ex:Person"),
        ("?x a ex:Person FILTER EXISTS { ?x ex:wheels ?w }", "?x is typed ex:Person"),
        ("{ SELECT ?x { ?x a ex:Person ; ex:wheels ?w } }", "?x is typed ex:Person"),
        ("?x ex:barks ?y ; ex:wheels ?w", "?x can't be both"),
        ("?x a ex:Dog , ex:Car", "?x is typed ex:Dog and ex:Car, which are disjoint"),
        ("ex:rex a ex:Person ; ex:wheels ?w", "ex:rex is typed ex:Person"),
        ("?x ex:owner 'Anna'", "'Anna' is a value, and ex:owner has the range ex:Person"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_to_the_agent_and_to_the_judge(where: str, said: str, source: Source) -> None:
    query = f"SELECT * {{ {where} }}"
    warnings = [each for each in check(query, source.surroundings, 10).warnings if each.code == "class_mismatch"]
    assert said in warnings[0].message and warnings[0].alternative
    verdict = judge_by_checks(run_of(query, answer="see above"), source)
    assert verdict.verdict == "undecided"
    assert said in next(each.message for each in verdict.findings if each.code == "class_mismatch")


@pytest.mark.parametrize(
    "where",
    [
        "?x a ex:Car ; ex:wheels ?w ; ex:owner ?o . ?o a ex:Person",
        "?x a ex:Animal ; ex:barks ?y",  # some of them are dogs
        "?x a ex:Robot ; ex:barks ?y",  # the data have one
        "?x a ex:Person , ex:Car ; ex:wheels ?w",
        "?x a ex:Robot ; ex:likes ?y",  # a restriction is no domain
        "{ ?x a ex:Person } UNION { ?x a ex:Car ; ex:wheels ?w }",
        "?x a ex:Person MINUS { ?x ex:wheels ?w }",
        "?x a ex:Person FILTER NOT EXISTS { ?x ex:wheels ?w }",
        "?x a ex:Person { SELECT ?y { ?x ex:wheels ?y } }",
        "?x a ex:Person ; (ex:wheels|ex:likes) ?w",
        "?x a ex:Person ; ex:wheels* ?w",
        "?x a ex:Person ; ?p ?w",
        "?x a ?c ; ex:wheels ?w",
        "?x a owl:Thing ; ex:wheels ?w",
    ],
)
def test_what_may_be_right_is_no_suspicion(where: str, source: Source) -> None:
    codes = [each.code for each in check(f"SELECT * {{ {where} }}", source.surroundings, 10).warnings]
    assert "class_mismatch" not in codes


@pytest.mark.slow
def test_large_queries_are_checked_in_time(source: Source) -> None:
    """Many groups, many facts of one node, deep nesting."""
    many = "SELECT * { " + "?x ex:barks ?y ; ex:wheels ?w . " * 450 + "}"
    wide = "SELECT * { ?x a ex:Person " + "OPTIONAL { ?x ex:wheels ?w } " * 500 + "}"
    deep = "SELECT * { ?x a ex:Person " + "OPTIONAL { ?x ex:wheels ?w " * 90 + "}" * 91
    fit = source.surroundings.fit
    assert fit is not None
    for query in (many, wide, deep):
        parsed = parse_query(query, source.surroundings.prefixes)
        began = time.process_time()
        assert len(mismatches(parsed.tree, fit, Prefixes(PREFIXES).shorten)) == 1
        assert time.process_time() - began < 1
