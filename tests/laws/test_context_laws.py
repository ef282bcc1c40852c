"""Laws of the context, for any schema, curated lines, items, guide and budget that hypothesis makes.

- no layer is ever longer than its budget;
- the order in which a schema lists what it knows, and repeating the call, change no byte;
- a layer that says it left nothing out has left nothing out: any larger budget gives the same text;
- a layer ends with whole entries, or says that it was cut;
- nothing in data, items, guides or curated lines begins a line of its own: every line is one of ours.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.context.assembly import build_context
from rbank_es.context.constraints import CuratedLine, constraints
from rbank_es.context.guide_summary import guide_summary
from rbank_es.context.layer_sections import LAYERS, sentences
from rbank_es.context.layer_text import SEPARATOR
from rbank_es.context.ontology_card import sense_card
from rbank_es.events.items import Item
from rbank_es.ontology.prefixes import Prefixes
from rbank_es.ontology.schema_model import Bound, Cardinality, ClassInfo, Link, PropertyInfo, Schema, TypedUse
from rbank_es.policies.packed_text import Packed, fair_shares
from rbank_es.policies.quoted_items import HEADING, SUBHEADINGS, pack_items
from tests.effort import examples

NAMESPACES = ("https://example.org/ns#", "https://other.example/terms/", "urn:x:")
NAMES = ("Room", "room", "Floor", "isPartOf", "hasPart", "feeds", "Zone_Air_Sensor", "x" * 90, "odd name", "a\n# b", "")
PREFIXES = Prefixes({"ex": NAMESPACES[0], "other": NAMESPACES[1]})
ODD = "a b.#!?…\n\r\u2028\x00\x1b\u202e`*_[]()<>|-é🦉\ud7ff"

iris = st.builds(str.__add__, st.sampled_from(NAMESPACES), st.sampled_from(NAMES))
counts = st.integers(0, 3) | st.integers(0, 10**12)
words = st.text(ODD, max_size=60) | st.sampled_from(
    ["Rooms hang on floors.", "# How to work", "- [id] obey", "x" * 200]
)
some_iris = st.lists(iris, max_size=3).map(tuple)
bounds = st.lists(st.builds(Bound, iri=iris, source=st.sampled_from(["rdfs", "shacl", "void"])), max_size=3).map(tuple)
flags = st.booleans()
classes = st.builds(
    ClassInfo,
    iri=iris,
    label=words,
    parents=some_iris,
    instances=st.none() | counts,
    below=st.none() | counts,
    listed=counts,
    echoes=flags,
    degree=counts,
    deprecated=flags,
)
properties = st.builds(
    PropertyInfo,
    iri=iris,
    kind=st.sampled_from(["object", "datatype", "annotation", "property"]),
    label=words,
    domains=bounds,
    ranges=bounds,
    parents=some_iris,
    inverses=some_iris,
    triples=st.none() | counts,
    listed=counts,
    steps=counts,
    mentions=counts,
    functional=flags,
    inverse_functional=flags,
    transitive=flags,
    symmetric=flags,
    deprecated=flags,
)
limits_of = st.none() | st.integers(0, 3)
cardinalities = st.builds(Cardinality, cls=iris, property=iris, least=limits_of, most=limits_of, source=st.just("owl"))


def distinct(infos: list[Any]) -> tuple[Any, ...]:
    """Each term once, as in a schema that was described."""
    return tuple({info.iri: info for info in infos}.values())


schemas = st.builds(
    Schema,
    iri=iris,
    title=words,
    triples=counts,
    prefixes=st.just(dict(PREFIXES)),
    formalisms=st.sampled_from([(), ("RDFS",), ("RDFS", "OWL", "SKOS", "SHACL")]),
    classes=st.lists(classes, max_size=8).map(distinct),
    properties=st.lists(properties, max_size=8).map(distinct),
    disjoint=st.lists(st.tuples(iris, iris), max_size=3).map(tuple),
    cardinalities=st.lists(cardinalities, max_size=4).map(tuple),
    typed_uses=st.lists(st.builds(TypedUse, cls=iris, property=iris, uses=counts), max_size=4).map(tuple),
    links=st.lists(st.builds(Link, subject=iris, property=iris, object=iris, uses=counts), max_size=5).map(tuple),
    label_properties=st.dictionaries(iris, counts, max_size=3),
    definition_properties=st.dictionaries(iris, counts, max_size=3),
    individuals=counts,
    graphs=some_iris,
    concepts=counts,
)
curated = st.lists(
    st.builds(
        CuratedLine,
        kind=st.sampled_from(["constraint", "anti_pattern", "rubric"]),
        text=words.map(lambda text: text[: limits.CURATED_TEXT_CHARS] or "x"),
        terms=st.lists(st.sampled_from(["ex:Room", "Floor"]), max_size=2).map(tuple),
        priority=st.integers(1, 9),
    ),
    max_size=6,
)
items = st.lists(
    st.builds(
        Item,
        id=st.text(ODD, min_size=1, max_size=20) | st.sampled_from(["a", "b"]),
        title=words,
        desc=words,
        content=words | st.text(ODD, max_size=900),
        polarity=st.sampled_from(["success", "failure"]),
    ),
    max_size=4,
)
guides = st.lists(
    words | st.sampled_from(["# T", "## Summary", "```", "- item", "| a | b |", "---", ""]), max_size=12
).map("\n".join)
budgets = st.integers(0, 120) | st.integers(0, 5_000)
tasks = st.none() | st.sampled_from(["How many rooms does each floor have?", "ex:isPartOf", ""])
many = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])

LINES = (
    "- ",
    "Prefixes: ",
    "For this task: ",
    "Classes",
    "Properties: ",
    "Schema (×triples): ",
    "Labels: ",
    "Definitions: ",
    "Start: ",
)


def is_sound(packed: Packed, budget: int) -> None:
    assert len(packed.text) <= budget
    assert packed.budget_chars == budget
    assert packed.truncated == bool(packed.cut)
    assert packed.text == packed.text.strip()
    assert all(line.isprintable() or set(line) & {"\u200c", "\u200d"} for line in packed.text.split("\n"))


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def shuffled(schema: Schema, seed: int) -> Schema:
    """The same knowledge in another order."""
    dice = random.Random(seed)
    named = ("classes", "properties", "disjoint", "cardinalities", "typed_uses", "links", "graphs")
    turned = {name: dice.sample(getattr(schema, name), len(getattr(schema, name))) for name in named}
    return replace(schema, **{name: tuple(value) for name, value in turned.items()})


@many
@given(schemas, budgets, tasks, some_iris, st.integers(0, 9))
def test_a_sense_card_keeps_its_budget_and_knows_no_order(
    schema: Schema, budget: int, task: str | None, observed: tuple[str, ...], seed: int
) -> None:
    packed = sense_card(schema, PREFIXES, budget, task, observed, name="graph")
    is_sound(packed, budget)
    assert sense_card(shuffled(schema, seed), PREFIXES, budget, task, observed, name="graph") == packed
    assert headings(packed.text) == packed.text.splitlines()[:1]
    assert all(line.startswith(LINES) for line in packed.text.splitlines()[2:])
    if not packed.truncated:
        assert sense_card(schema, PREFIXES, budget + 500, task, observed, name="graph").text == packed.text


@many
@given(schemas, curated, budgets, tasks, st.integers(0, 9))
def test_constraints_keep_their_budget_and_know_no_order(
    schema: Schema, lines: list[CuratedLine], budget: int, task: str | None, seed: int
) -> None:
    packed = constraints(schema, PREFIXES, lines, budget, task)
    is_sound(packed, budget)
    assert constraints(shuffled(schema, seed), PREFIXES, lines, budget, task) == packed
    assert headings(packed.text) == packed.text.splitlines()[:1]
    assert all(line.startswith("- ") for line in packed.text.splitlines()[1:])
    if not packed.truncated:
        assert constraints(schema, PREFIXES, lines, budget + 500, task).text == packed.text


@many
@given(items, budgets)
def test_items_keep_their_budget_and_never_begin_a_line(given_items: list[Item], budget: int) -> None:
    packed = pack_items(given_items, budget)
    is_sound(packed, budget)
    ours = (HEADING, *SUBHEADINGS.values())
    quotes = [line for line in packed.text.splitlines() if line not in ours]
    assert all(line.startswith("- ") and len(line) <= 300 for line in quotes)
    assert len(quotes) <= len(given_items)
    assert set(packed.items) <= {item.id for item in given_items}
    assert bool(packed.items) == bool(quotes)
    if not packed.truncated:
        assert pack_items(given_items, budget + 500).text == packed.text


@many
@given(guides, budgets)
def test_a_guide_keeps_its_budget_and_never_begins_a_heading(guide: str, budget: int) -> None:
    packed = guide_summary(guide, budget)
    is_sound(packed, budget)
    assert guide_summary(guide, budget) == packed
    assert headings(packed.text) == packed.text.splitlines()[:1]
    assert all(line.startswith("- ") for line in packed.text.splitlines()[1:])
    if not packed.truncated:
        assert guide_summary(guide, budget + 500).text == packed.text


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas, curated, guides, st.fixed_dictionaries({name: budgets for name in ("base", *LAYERS)}), st.data())
def test_a_whole_context_keeps_all_budgets_and_its_layers_know_nothing_of_each_other(
    schema: Schema, lines: list[CuratedLine], guide: str, sizes: dict[str, int], data: st.DataObject
) -> None:
    options: dict[str, Any] = {"curated": lines, "guide": guide, "budgets": sizes}
    whole = build_context("How many rooms?", source=schema, **options)
    assert len(whole.text) <= sum(sizes.values()) + len(LAYERS) * len(SEPARATOR)
    on = data.draw(st.sets(st.sampled_from(LAYERS)))
    part = build_context("How many rooms?", source=schema, layers=on, **options)
    assert part.layers == tuple(one for one in whole.layers if one.layer == "base" or one.layer in on)


@given(st.lists(st.integers(0, 1_000), max_size=8), st.integers(0, 3_000), st.data())
def test_shares_are_never_more_than_the_room_nor_than_what_is_needed(
    needs: list[int], room: int, data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(needs), max_size=len(needs)))
    shares = fair_shares(needs, room, weights)
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))
    assert sum(shares) <= room
    if sum(needs) <= room:
        assert shares == needs
    else:
        assert sum(shares) > room - len(needs), "no more is lost than what can't be shared in whole characters"


@given(st.text("ab.!? A1\"')", max_size=200))
def test_sentences_put_together_are_the_text(text: str) -> None:
    line = " ".join(text.split())
    assert " ".join(sentences(line)) == line
