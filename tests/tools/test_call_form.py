"""Arguments of a call: one wrong name that can only mean one parameter is taken so; anything else is refused."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, Literal, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.bank.memory_graph import MemoryGraph
from rbank_es.data import lights
from rbank_es.events import ToolCalled
from rbank_es.executors.tool_call import named_call
from rbank_es.limits import tool_limits
from rbank_es.tools.shared.call_form import CallForm, WrongArguments
from rbank_es.tools.shared.tool_family import ToolPolicy
from rbank_es.tools.shared.toolbox import Toolbox, build_tools


def look(
    resource: str, limit: int = 5, mode: Literal["sample", "schema"] = "sample", domain: str | None = None
) -> None: ...


def part(ref: str | dict[str, Any], start: int, end: int) -> None: ...


def form_of(function: Any) -> CallForm:
    return CallForm(function.__name__, inspect.signature(function), get_type_hints(function))


LOOK, PART = form_of(look), form_of(part)


@pytest.fixture
def box(bank: Bank) -> Iterator[Toolbox]:
    """Every tool of the project, over the shipped ontology."""
    policy = ToolPolicy(mode="both", manual="all")
    with (
        MemoryGraph(bank, bank.position) as graph,
        build_tools(bank, run="r", source=lights().ontology, memory_graph=graph, policy=policy) as made,
    ):
        yield made


AMBIGUOUS: list[tuple[CallForm, dict[str, Any], str]] = [
    (LOOK, {"resource": "lt:Light", "uri": "lt:Buoy"}, "nothing is missing"),
    (LOOK, {"uri": "lt:Light", "iri": "lt:Buoy"}, "two unknown names"),
    (LOOK, {"limits": "lt:Light"}, "the name resembles another parameter"),
    (LOOK, {"kind": "schema"}, "the value is a choice of another parameter"),
    (LOOK, {"uri": 5}, "the value has another type"),
    (LOOK, {"uri": None}, "there is no value"),
    (LOOK, {"u" * (tool_limits.TAKEN_NAME_CHARS + 1): "lt:Light"}, "a name too long for a note"),
    (PART, {"ref": "text_0", "from": 0, "to": 9}, "two are missing"),
    (PART, {"ref": "text_0", "from": 0}, "two are missing, one is given"),
    (LOOK, {}, "nothing is given"),
]


@pytest.mark.parametrize(("form", "named", "why"), AMBIGUOUS, ids=[why for _, _, why in AMBIGUOUS])
def test_what_is_not_certain_is_refused(form: CallForm, named: dict[str, Any], why: str) -> None:
    assert form.meant((), named) is None
    if why != "nothing is missing":
        with pytest.raises(WrongArguments):
            form.bound((), named)


VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.sampled_from(["sample", "schema", "lt:Light"]))


@given(st.dictionaries(st.sampled_from(["resource", "limit", "mode", "domain", "uri", "k", "modes"]), VALUES))
def test_no_value_ever_reaches_another_parameter_than_its_own_or_the_one_noted(named: dict[str, Any]) -> None:
    meant = LOOK.meant((), named)
    try:
        bound = LOOK.bound((), named, meant)
    except WrongArguments:
        return
    for parameter, value in bound.items():
        source = meant.name if meant is not None and parameter == meant.parameter else parameter
        assert str(named[source]) == str(value)
    given_names = {name for name, value in named.items() if value is not None}
    assert given_names - bound.keys() == ({meant.name} if meant is not None else set())


def test_the_answer_says_how_a_name_was_taken_and_the_log_has_the_call_as_it_was_made(bank: Bank, box: Toolbox) -> None:
    answer = box.call("sparql_peek", {"uri": "lt:Lighthouse"})
    assert answer["ok"] and answer["note"].startswith("uri was taken as resource")
    assert answer == {**box.call("sparql_peek", {"resource": "lt:Lighthouse"}), "note": answer["note"]}
    first = next(event for event in bank.events(types={"tool_called"}) if isinstance(event, ToolCalled))
    assert json.loads(str(first.arguments)) == {"uri": "lt:Lighthouse"} and first.error_code is None


@pytest.mark.parametrize(
    ("tool", "arguments", "example"),
    [
        ("sparql_schema", {"classes": ["lt:Light"]}, "sparql_schema(output_mode='classes')"),
        ("sparql_peek", {"uri": "lt:Light", "depth": 2}, "sparql_peek(resource='lt:"),
        ("sparql_query", {"limit": 5}, "sparql_query(query='SELECT"),
        ("sparql_slice", {}, "sparql_slice(result='results_0')"),
        ("g_sample", {"n": 2}, "g_sample(cls='lt:"),
    ],
)
def test_a_refusal_has_a_call_that_works_here(box: Toolbox, tool: str, arguments: Any, example: str) -> None:
    box.call("sparql_query", {"query": "SELECT * { ?light a lt:Lighthouse }"})
    error = box.call(tool, arguments)["error"]
    assert error["code"] == "bad_arguments" and f"call it as {tool}(" in error["hint"] and example in error["hint"]
    name, written = named_call(error["hint"].partition("such as ")[2], {}, box.functions)
    assert name == tool and box.call(tool, written)["ok"]


def test_the_manual_has_examples_in_the_terms_of_the_source(bank: Bank, box: Toolbox) -> None:
    assert "up:" not in box.manual_text() and "filter_prefix='lt:'" in box.manual_text()
    with build_tools(bank, run="s", policy=ToolPolicy(mode="both", manual="all")) as alone:
        assert "up:" not in alone.manual_text()


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("sparql_peek", {"query": "SELECT * { ?a ?b ?c }"}, "query is an argument of sparql_query and g_query"),
        ("mem_search", {"text": "lights"}, "text is an argument of g_search"),
    ],
)
def test_a_name_that_another_tool_needs_is_refused_and_said_to_be_its(
    box: Toolbox, tool: str, arguments: Any, named: str
) -> None:
    """The other tool may be meant."""
    error = box.call(tool, arguments)["error"]
    assert error["code"] == "bad_arguments" and named in error["hint"]


def test_a_prefix_that_nothing_has_is_an_error_that_names_the_others(box: Toolbox) -> None:
    error = box.call("sparql_schema", {"filter_prefix": "up:"})["error"]
    assert error["code"] == "no_such_terms" and "lt:" in error["hint"]
