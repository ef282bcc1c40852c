"""The history of a run in the form of replies, and the reply that works: made from the run's own source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sandbox.sandboxes import require_dspy

require_dspy()
import dspy  # noqa: E402

from rbank_es.data import lights  # noqa: E402
from rbank_es.executors.agent_step import CODE_FORM, code_of  # noqa: E402
from rbank_es.executors.executor import RunLimits  # noqa: E402
from rbank_es.executors.react import CALL_FORM  # noqa: E402
from rbank_es.executors.run_step import RunStep  # noqa: E402
from rbank_es.executors.step_history import ShownSteps, StepForm  # noqa: E402
from rbank_es.models.dspy_adapter import adapter  # noqa: E402
from rbank_es.sparql.example_query import class_named, example_class, example_query  # noqa: E402
from rbank_es.tools.shared.toolbox import Toolbox, build_tools  # noqa: E402
from tests.tools.tool_sessions import bank_at  # noqa: E402

CALL: Any = dspy.Signature("question -> next_thought: str, next_tool_name: str, next_tool_args: dict[str, Any]")
CODE: Any = dspy.Signature("question -> reasoning, code")
LIMITS = RunLimits(output_chars=1_000)
STUCK = [RunStep(index=index, reasoning="Well.", output="[Error] prose", fault="unreadable") for index in (1, 2, 3)]


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Toolbox]:
    with build_tools(bank_at(tmp_path / "bank"), run="r", source=lights().ontology) as built:
        yield built


def told(form: StepForm, tools: Toolbox) -> str:
    """The reply that works, as it is shown at a standstill."""
    shown = ShownSteps(form, tools, LIMITS).text(STUCK)
    return shown.split("A whole reply that works here:")[1]


def test_the_call_that_an_agent_is_shown_finds_something(tools: Toolbox) -> None:
    read = adapter().parse(CALL, told(CALL_FORM, tools))
    answered = tools.call(read["next_tool_name"], read["next_tool_args"])
    assert answered["ok"] and answered["rows"] > 0


def test_the_code_that_an_agent_is_shown_finds_something(tools: Toolbox) -> None:
    printed: list[Any] = []
    exec(code_of(adapter().parse(CODE, told(CODE_FORM, tools))["code"]), {**tools.functions, "print": printed.append})
    assert printed[0]["ok"] and printed[0]["rows"] > 0


def test_without_a_known_schema_the_schema_is_asked_for_and_without_a_source_nothing_is_shown(tmp_path: Path) -> None:
    bank = bank_at(tmp_path / "bank")
    with build_tools(bank, run="r", endpoint="http://127.0.0.1:9/sparql") as remote:
        assert adapter().parse(CALL, told(CALL_FORM, remote))["next_tool_name"] == "sparql_schema"
    with build_tools(bank, run="s") as alone:
        assert ShownSteps(CODE_FORM, alone, LIMITS).text(STUCK).endswith("Do something else.")


def test_advice_is_left_out_where_the_answer_is_forced(tools: Toolbox) -> None:
    shown = ShownSteps(CODE_FORM, tools, LIMITS)
    assert "Stop:" in shown.text(STUCK) and "Stop:" not in shown.text(STUCK, advise=False)


@pytest.mark.parametrize("left", [0, 1, 2, 3])
@pytest.mark.parametrize("form", [CALL_FORM, CODE_FORM], ids=["call", "code"])
def test_before_the_steps_are_used_up_an_agent_is_shown_a_reply_that_submits_its_query(
    tools: Toolbox, form: StepForm, left: int
) -> None:
    query = "SELECT ?x { ?x a ?cls } LIMIT 2"
    assert tools.call("sparql_query", {"query": query})["ok"]
    text = ShownSteps(form, tools, RunLimits(iterations=2 + left)).text([queried(1), sliced(2)])
    assert ("This is your last step" in text, "Two steps are left" in text) == (left == 1, left == 2)
    if left in (1, 2):
        shown = text.split("A whole reply that submits:")[1]
        handed = dict[str, Any]()
        if form is CODE_FORM:
            exec(code_of(adapter().parse(CODE, shown)["code"]), {"SUBMIT": lambda **fields: handed.update(fields)})
        else:
            read = adapter().parse(CALL, shown)
            assert read["next_tool_name"] == "SUBMIT"
            handed = read["next_tool_args"]
        assert handed["sparql"] == query and handed["answer"]


def sliced(index: int) -> RunStep:
    """The step that looks at the rows of the step before."""
    call = json.dumps({"tool": "sparql_slice", "args": {"result": f"results_{index - 2}"}})
    return RunStep(index=index, code=call, output='{"ok": true, "rows": [["x"]]}', answered=1)


@pytest.mark.parametrize("left", [1, 2, 5])
@pytest.mark.parametrize("again", [False, True])
def test_an_agent_with_a_result_that_it_has_not_seen_is_shown_how_to_look_at_it(
    tools: Toolbox, left: int, again: bool
) -> None:
    """Before its last step, if steps run out or it makes a call again that it has made."""
    alias = tools.call("sparql_query", {"query": "SELECT ?x { ?x a ?cls } LIMIT 2"})["alias"]
    steps = [queried(1), queried(2)] if again else [queried(1)]
    told = ShownSteps(CALL_FORM, tools, RunLimits(iterations=len(steps) + left)).text(steps)
    looks = "A whole reply that shows its rows:" in told
    assert looks == (left == 2 or (left == 5 and again))
    if looks:
        read = adapter().parse(CALL, told.split("A whole reply that shows its rows:")[1])
        assert tools.call(read["next_tool_name"], read["next_tool_args"])["rows"] and alias in told


def test_the_first_repetition_of_a_call_and_the_first_unread_reply_are_answered_with_a_whole_reply_that_works(
    tools: Toolbox,
) -> None:
    look = RunStep(index=1, code='{"tool": "sparql_schema", "args": {}}', output='{"ok": true}', answered=1)
    once, twice = (ShownSteps(CALL_FORM, tools, LIMITS).text(steps) for steps in ([look], [look, look]))
    assert "A whole reply" not in once and "Stop:" not in twice
    assert (
        twice.split("A whole reply")[1]
        == ShownSteps(CALL_FORM, tools, LIMITS).text(STUCK[:1]).split("A whole reply")[1]
    )
    read = adapter().parse(CALL, twice.split("A whole reply that works here:")[1])
    assert read["next_tool_name"] == "sparql_query" and tools.call("sparql_query", read["next_tool_args"])["rows"] > 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [("raised", "import requests"), ("syntax", "Look!"), ("no_code", ""), ("raised", "g_stats()[0]"), (None, "1")],
)
def test_failed_code_without_any_tool_is_met_with_a_whole_reply_that_works(
    tools: Toolbox, fault: Any, code: str
) -> None:
    """A small model wrote `import requests` three times, each time told that there is no such module."""
    step = RunStep(index=1, code=code, output="[Error] No module", fault=fault)
    told = ShownSteps(CODE_FORM, tools, LIMITS).text([step])
    assert ("A whole reply that works here:" in told) == (fault is not None and "g_stats" not in code)


def test_an_agent_that_stands_still_with_a_result_is_shown_how_to_submit_it(tools: Toolbox) -> None:
    tools.call("sparql_query", {"query": "ASK { ?a ?b ?c }"})
    text = ShownSteps(CALL_FORM, tools, LIMITS).text(STUCK)
    assert "Stop:" in text and "A whole reply that submits:" in text and "ASK { ?a ?b ?c }" in text


def test_a_query_that_found_nothing_is_not_offered_as_the_result(tools: Toolbox) -> None:
    tools.call("sparql_query", {"query": "SELECT ?x { ?x a <https://lights.example/ns#Light> } LIMIT 1"})
    assert tools.session.last_query == ""


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What is above prov:SoftwareAgent?", "SoftwareAgent"),
        ("How many software agents are there?", "SoftwareAgent"),
        ("Which agent?", "Agent"),
        ("Which agency?", ""),
        ("Which prov:Agent are software agents?", "Agent"),
        ("", ""),
    ],
)
def test_an_example_is_the_class_that_the_question_names(question: str, name: str) -> None:
    classes = [f"http://www.w3.org/ns/prov#{each}" for each in ("Entity", "Agent", "SoftwareAgent")]
    assert class_named(classes, question) == (f"http://www.w3.org/ns/prov#{name}" if name else None)


QUERY = '{"tool": "sparql_query", "args": {"query": "SELECT * { ?a ?b ?c }"}}'


def queried(index: int) -> RunStep:
    output = json.dumps({"ok": True, "alias": f"results_{index}", "next": f"sparql_slice(result='results_{index}')"})
    return RunStep(index=index, reasoning="I ask.", code=QUERY, output=output, answered=1)


def test_a_result_that_is_not_shown_any_more_is_shown_again(tools: Toolbox) -> None:
    shown = ShownSteps(CALL_FORM, tools, LIMITS).text([queried(1), queried(2)], by_a_line=1)
    assert "You have it already" not in shown and "results_2" in shown


def test_a_repeated_failure_is_no_result_that_an_agent_has(tools: Toolbox) -> None:
    failed = [msgspec.structs.replace(queried(n), fault="tool_failed", answered=0) for n in (1, 2)]
    assert "You have it already" not in ShownSteps(CALL_FORM, tools, LIMITS).text(failed)


@pytest.mark.parametrize(
    ("question", "pattern"),
    [
        ("Which buoys (lt:Lightship) are there at a light?", "?x a lt:Lightship"),
        ("Which heights has lt:focalHeight?", "?x lt:focalHeight ?value"),
        ("What lt:focalHeight has each lt:Lighthouse?", "?x a lt:Lighthouse ; lt:focalHeight ?value"),
        ("What is an <https://lights.example/ns#Light>?", "lt:Light ?property ?value"),
        ("What is lt:nothing, or lighthouse:keeping?", None),
    ],
)
def test_an_example_is_about_the_term_that_the_question_names_and_cuts_nothing(
    tools: Toolbox, question: str, pattern: str | None
) -> None:
    query = example_query(tools.session.source, question)
    assert query is not None and (query == f"SELECT * {{ {pattern} }}" or pattern is None)
    answered = tools.call("sparql_query", {"query": query})
    assert answered["ok"] and answered["rows"] > 0


def test_an_example_is_no_part_of_the_model_itself(tmp_path: Path) -> None:
    """Shapes may be more than anything else that a file holds."""
    shapes = "".join(f"<urn:s{n}> a sh:NodeShape . " for n in range(9))
    data = tmp_path / "shaped.ttl"
    data.write_text(f"@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix e: <urn:e#> . {shapes} <urn:x> a e:Thing .")
    with build_tools(bank_at(tmp_path / "bank"), run="r", source=data) as tools:
        source = tools.session.source
        assert (example_class(source), example_query(source)) == ("e:Thing", "SELECT * { ?x a e:Thing }")
        assert "e:Thing" in tools.call("sparql_schema")["next"]
