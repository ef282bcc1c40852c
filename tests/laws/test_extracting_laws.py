"""Laws of extraction without a model: nothing of a query's data gets into an item, and only structure makes one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyoxigraph
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.events.items import Item
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.tools.memory.generalised_query import Terms, generalise
from rbank_es.tools.memory.query_extractor import ProposalEvidence, QueryPattern

SEA, ISLE = "https://sea.example/ns#", "https://sea.example/isle/"
CLASSES, PROPERTIES = ("Ferry", "Boat", "Harbour"), ("callsAt", "hasName", "lengthM", "builtIn")
PREFIXES = {"sea": SEA}
SCHEMA = Schema(
    classes=tuple(ClassInfo(iri=SEA + name) for name in CLASSES),
    properties=tuple(PropertyInfo(iri=SEA + name, triples=1) for name in PROPERTIES),
)
MARK = "zq"
"""No word of an item has these two letters."""


# A query is a skeleton of parts. Those that begin with a mark are filled in: ?0 is a variable, =0 a string, #0 a
# number, @0 an instance; and a blank is any layout.
variables = st.integers(0, 3).map(lambda n: f"?{n}")
instances = st.integers(0, 2).map(lambda n: f"@{n}")
strings = st.integers(0, 4).map(lambda n: f"={n}")
numbers = st.integers(0, 4).map(lambda n: f"#{n}")
terms = st.sampled_from([f"sea:{name}" for name in PROPERTIES])
verbs = st.one_of(
    terms,
    terms.map(lambda term: f"^ {term}"),
    st.tuples(terms, terms).map(" / ".join),
    st.tuples(terms, terms).map(lambda pair: f"( {pair[0]} | {pair[1]} ) +"),
)
objects = st.one_of(variables, instances, strings, strings.map(lambda text: f"{text} @en"), numbers)
typings = st.tuples(variables, st.sampled_from(CLASSES)).map(lambda pair: f"{pair[0]} a sea:{pair[1]} .")
triples = st.tuples(variables | instances, verbs, objects).map(lambda triple: f"{' '.join(triple)} .")
lists = st.tuples(variables, terms, objects, terms, objects).map(
    lambda parts: f"{parts[0]} {parts[1]} {parts[2]} ; {parts[3]} {parts[4]} ."
)
filters = st.one_of(
    st.tuples(variables, numbers).map(lambda pair: f"FILTER ( {pair[0]} > {pair[1]} )"),
    st.tuples(variables, strings).map(lambda pair: f"FILTER ( CONTAINS ( STR ( {pair[0]} ) , {pair[1]} ) )"),
    st.tuples(variables, instances).map(lambda pair: f"FILTER ( {pair[0]} IN ( {pair[1]} , {pair[1]} ) )"),
)
values = st.tuples(variables, st.lists(instances | strings | numbers, min_size=1, max_size=3)).map(
    lambda pair: f"VALUES {pair[0]} {{ {' '.join(pair[1])} }}"
)
simple = st.one_of(typings, triples, lists, filters, values)
blocks = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"OPTIONAL {{ {' '.join(parts)} }}"),
        st.tuples(inner, inner).map(lambda pair: f"{{ {pair[0]} }} UNION {{ {pair[1]} }}"),
        inner.map(lambda part: f"FILTER NOT EXISTS {{ {part} }}"),
    ),
    max_leaves=4,
)
groups = st.lists(blocks, min_size=1, max_size=4).map(" ".join)
skeletons = st.one_of(
    groups.map(lambda group: f"SELECT * WHERE {{ {group} }}"),
    groups.map(lambda group: f"SELECT DISTINCT ?0 ?1 WHERE {{ {group} }} LIMIT 5"),
    groups.map(lambda group: f"SELECT ( COUNT ( ?0 ) AS ?9 ) WHERE {{ {group} }}"),
    groups.map(lambda group: f"ASK {{ {group} }}"),
)

names = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12) | st.sampled_from(
    ["SELECT", "} LIMIT 1", "#", "«text»", "sea:callsAt", "\\", "a", "1", "''", "<https://sea.example/ns#Ferry>"]
)


@dataclass
class Filling:
    """What stands in the places of a skeleton."""

    variables: list[str]
    strings: list[str]
    numbers: list[str]
    instances: list[str]
    blanks: list[str]


fillings = st.builds(
    Filling,
    variables=st.lists(names.map(lambda name: f"?{name}"), min_size=10, max_size=10, unique=True),
    strings=st.lists(texts, min_size=5, max_size=5),
    numbers=st.lists(st.sampled_from(["1", "-2", "3.5", "1e9", "007"]) | st.integers(0, 10**20).map(str), min_size=5),
    instances=st.lists(names.map(lambda name: f"<{ISLE}{name}>"), min_size=3, max_size=3, unique=True),
    blanks=st.lists(st.sampled_from([" ", "\n", "\t ", " # SELECT { ?x }\n", "\r\n "]), min_size=1, max_size=5),
)


def quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def filled(skeleton: str, filling: Filling) -> str:
    """The query of a skeleton, with its prefix declared."""
    marks = {"?": filling.variables, "=": [quoted(text) for text in filling.strings], "#": filling.numbers}
    marks["@"] = filling.instances
    text = f"PREFIX sea: <{SEA}>"
    for at, part in enumerate(skeleton.split(" ")):
        values = marks.get(part[0], []) if part[1:].isdigit() else []
        # A language belongs to the string before it.
        blank = "" if part == "@en" else filling.blanks[at % len(filling.blanks)]
        text += blank + (values[int(part[1:])] if values else part)
    return text


REASON = "misunderstanding"
"""One word, longer than any that a filling has: words of a query's data are taken out of the reason of a failure."""


def items_of(query: str, reason: str = REASON, **more: object) -> tuple[Item | None, Item | None]:
    """Procedure and pitfall."""
    told = {"reason": reason, "rows": 2, "domain": "sea", "prefixes": PREFIXES, "schema": SCHEMA, **more}
    evidence = ProposalEvidence(query=query, **told)  # type: ignore[arg-type]
    return QueryPattern().from_success(evidence), QueryPattern().from_failure(evidence)


@given(skeletons, fillings, fillings)
def test_only_structure_makes_an_item(skeleton: str, one: Filling, other: Filling) -> None:
    """Literals, instances, variables, comments and layout make no difference: so nothing of them is in the item."""
    variables = [tuple(name[1:] for name in filling.variables) for filling in (one, other)]
    first = items_of(filled(skeleton, one), variables=variables[0])
    assert first == items_of(filled(skeleton, other), variables=variables[1])


@given(skeletons, st.lists(names, min_size=13, max_size=13, unique=True), fillings)
def test_no_data_of_the_query_is_in_the_item(skeleton: str, words: list[str], filling: Filling) -> None:
    """Not even where the reason that is given for a failure repeats it."""
    marked = [f"{MARK}{word}" for word in words]
    filling.strings = marked[:5]
    filling.instances = [f"<{ISLE}{word}>" for word in marked[5:8]]
    filling.variables = [f"?v{number}" for number in range(10)]
    query = filled(skeleton, filling)
    used = [word for word in marked if re.search(rf"\b{word}\b", query)]
    reason = " ".join(["the data have no", *used, *(word.upper() for word in used)])
    for item in items_of(query, reason):
        if item is not None:
            assert MARK not in " ".join((item.title, item.desc, item.content, *item.tags)).casefold()


@given(skeletons, fillings)
def test_a_pattern_filled_in_is_a_query_with_the_same_pattern(skeleton: str, filling: Filling) -> None:
    pattern = generalise(parse_query(filled(skeleton, filling), PREFIXES), PREFIXES, Terms(SCHEMA))
    declared = "".join(f"PREFIX {prefix}: <{space}>\n" for prefix, space in {**WELL_KNOWN, **pattern.prefixes}.items())
    query = declared + re.sub("«([^»]*)»", lambda place: refill(place[1], filling), pattern.text)
    pyoxigraph.Store().query(query)
    again = generalise(parse_query(query, PREFIXES), PREFIXES, Terms(SCHEMA))
    assert again.text == pattern.text


def refill(place: str, filling: Filling) -> str:
    """Something for a place to fill in."""
    kind = re.sub(r" \d+$", "", place)
    if kind in ("text", "text with language"):
        return quoted(filling.strings[0]) + ("@fr" if "language" in kind else "")
    if kind in ("number", "count"):
        return filling.numbers[0].removeprefix("-")
    return f"<{ISLE}{place.replace(' ', '-')}>"


SOUP = """
SELECT ASK CONSTRUCT DESCRIBE WHERE FILTER OPTIONAL UNION VALUES BIND AS GRAPH SERVICE IN NOT EXISTS FROM NAMED PREFIX
BASE LIMIT OFFSET ORDER BY COUNT { } ( ) [ ] . ; , / | ^ * + ? ! = < > ^^ @en ?x ?y a sea:Ferry sea: sea:callsAt isle:x
<http://x/y> 'text' ' \'\'\' 12 -3 true _:b
"""
soups = st.lists(st.sampled_from(SOUP.split()), max_size=40)
nonsense = st.one_of(
    st.text(max_size=200),
    soups.map(" ".join),
    soups.map(lambda parts: "SELECT ?x { " + " ".join(parts)),
    soups.map(lambda parts: "ASK { ?x a sea:Ferry ; " + "\n".join(parts)),
)


@given(nonsense, st.text(max_size=400), st.integers(0, 3) | st.none(), st.booleans())
def test_any_text_is_taken_and_what_is_made_keeps_the_limits(
    query: str, reason: str, rows: int | None, known: bool
) -> None:
    schema = SCHEMA if known else None
    for item in items_of(query, reason, rows=rows, schema=schema, variables=("x", "y")):
        if item is None:
            continue
        assert 0 < len(item.title) <= limits.ITEM_TITLE_CHARS and len(item.desc) <= limits.ITEM_DESC_CHARS
        assert 0 < len(item.content) <= limits.ITEM_CONTENT_CHARS
        assert len(item.tags) <= limits.ITEM_TAGS and all(len(tag) <= limits.ITEM_TAG_CHARS for tag in item.tags)
