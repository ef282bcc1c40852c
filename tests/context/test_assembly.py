"""build_context: which layers, within which budgets, in which mode, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.context.assembly import Context, build_context
from rbank_es.context.base_instructions import base_instructions
from rbank_es.context.constraints import load_curated
from rbank_es.context.layer_sections import LAYERS
from rbank_es.context.term_order import observed_terms
from rbank_es.errors import BadInput
from rbank_es.events.items import Item
from rbank_es.ontology.loader import Ontology, load_ontology
from rbank_es.sparql.data_source import open_source
from tests.context.banks import finish, learn, materialise, overrule
from tests.context.schemas import iri

DATA = Path(str(files("rbank_es") / "data"))
TASK = "Which lights had an outage, and who was their keeper then?"
LT = "https://lights.example/ns#"
GUIDE = DATA / "lights_guide.md"
CURATED = DATA / "lights_constraints.toml"


@pytest.fixture(scope="module")
def lights(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    return load_ontology(DATA / "lights.ttl", cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as made:
        learn(
            made,
            Item.make("Outages of lights and their keepers", "An outage of a light began at lt:from.", id="do"),
            Item.make(
                "Keepers and outages", "Never take lt:keptBy for who was a light's keeper then.", "failure", id="dont"
            ),
        )
        yield made


def layer(context: Context, name: str) -> str:
    return next(one.text for one in context.layers if one.layer == name)


def names(context: Context) -> list[str]:
    return [one.layer for one in context.layers]


def test_a_layer_with_nothing_to_say_is_there_and_empty() -> None:
    context = build_context(TASK)
    assert names(context) == ["base", *LAYERS]
    assert context.text == base_instructions("auto", source=False).text
    assert not any(one.truncated for one in context.layers)


def test_in_mode_tools_nothing_is_retrieved_and_nothing_injected(lights: Ontology, bank: Bank) -> None:
    context = build_context(TASK, source=lights, bank=bank, mode="tools")
    assert names(context) == ["base", "L0", "L1", "L3"]
    assert (context.items, context.retrievals) == ((), ())
    assert layer(context, "base") == base_instructions("tools").text


def test_the_event_tells_what_the_agent_got(lights: Ontology, bank: Bank) -> None:
    context = build_context(TASK, source=lights, bank=bank, run="run-1")
    event = context.event("run-1")
    assert event.chars == len(context.text)
    assert [(use.layer, use.chars, use.budget, use.truncated) for use in event.layers] == [
        (one.layer, len(one.text), one.budget_chars, one.truncated) for one in context.layers
    ]
    assert "\n\n".join(filter(None, map(str, event.texts))) == context.text
    assert event.items == ("do", "dont")
    bank.append([*context.retrievals, event])
    with bank.as_of() as view:
        assert view.usage() == {"do": (1, 0), "dont": (1, 0)}
    assert bank.check(retrievals=True).retrievals is not None


def test_it_writes_nothing(lights: Ontology, bank: Bank) -> None:
    before = {path: path.read_bytes() for path in Path(bank.place).rglob("*") if path.is_file()}
    build_context(TASK, source=lights, bank=bank, observed=True)
    assert {path: path.read_bytes() for path in Path(bank.place).rglob("*") if path.is_file()} == before


def test_an_endpoint_that_nobody_described_says_what_its_profile_knows() -> None:
    context = build_context(TASK, source=open_source(endpoint="uniprot"))
    assert "begin with sparql_schema()" in layer(context, "L0")
    assert "up:reviewed true" in layer(context, "L1")
    assert "unbound predicate" in layer(context, "L1")


def test_the_guide_is_the_one_given_else_the_latest_in_the_bank_at_that_point(lights: Ontology, bank: Bank) -> None:
    before = bank.position
    materialise(bank, "# From the bank\nGo by the watch.")
    latest, earlier = (
        build_context(TASK, source=lights, bank=bank),
        build_context(TASK, source=lights, bank=bank, point=before),
    )
    assert "Go by the watch." in layer(latest, "L3") and layer(earlier, "L3") == ""
    given = build_context(TASK, source=lights, bank=bank, guide="# Given\nGo by the light.")
    assert layer(given, "L3") == "# Guide: Given\n- Go by the light."
    none_fits = build_context(TASK, source=lights, bank=bank, budgets={"L3": 0})
    written = next(event.id for event in bank.events(after=before))
    named = [context.event("r").artifacts for context in (latest, earlier, given, none_fits)]
    assert named == [(written,), (), (), ()]


def test_curated_lines_may_be_given_as_a_path_a_text_or_themselves(lights: Ontology) -> None:
    ways: tuple[Any, ...] = (CURATED, CURATED.read_text(), load_curated(CURATED))
    assert len({build_context(TASK, source=lights, curated=way).text for way in ways}) == 1


QUERY = "PREFIX lt: <https://lights.example/ns#> SELECT ?x WHERE { ?x a lt:Wreck ; lt:sankOn ?day . FILTER(?day > 1) }"


def test_only_what_successful_runs_of_this_ontology_asked_with_is_observed(bank: Bank) -> None:
    finish(bank, "won", QUERY, [True])
    finish(bank, "won-too", "SELECT ?x { ?x a ex:Light ; ex:name ?n }", [True, False])
    finish(bank, "again", "SELECT ?x { ?x a ex:Light }", [True])
    finish(bank, "lost", "SELECT ?x { ?x a ex:Lost }", [False, True])
    finish(bank, "unjudged", "SELECT ?x { ?x a ex:Unjudged }", [None, True])
    finish(bank, "elsewhere", "SELECT ?x { ?x a ex:Elsewhere }", [True], ontology="prov")
    finish(bank, "broken", "SELECT {", [True])
    finish(bank, "overruled", "SELECT ?x { ?x a ex:Overruled }", [True])
    before = bank.position
    overrule(bank, "overruled", success=False)
    seen = observed_terms(bank, "lights", {"ex": "https://example.org/ns#"})
    assert seen == (iri("Light"), iri("name"), LT + "Wreck", LT + "sankOn")
    assert iri("Overruled") in observed_terms(bank, "lights", {"ex": "https://example.org/ns#"}, before)
    assert observed_terms(bank, "brick") == ()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"layers": ["L0", "L4"]}, "L4"),
        ({"budgets": {"L9": 1}}, "L9"),
        ({"budgets": {"L0": -1}}, "-1"),
        ({"preset": "huge"}, "full, lean"),
        ({"mode": "telepathy"}, "auto, tools, both"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        build_context(TASK, **options)
