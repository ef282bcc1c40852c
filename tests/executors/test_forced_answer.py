"""An answer, or a call of a tool, that is forced: an object by a JSON schema where the server keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.sandboxes import require_dspy

require_dspy()

from rbank_es.bank import Bank  # noqa: E402
from rbank_es.events import LmCalled, RunFinished  # noqa: E402
from rbank_es.models.reply_syntax import whole_members  # noqa: E402
from rbank_es.rerun.execution import rerun  # noqa: E402
from tests.executors.runs import answer, call, code  # noqa: E402
from tests.loop.loops import HEIGHT, TASKS, looped  # noqa: E402
from tests.models import openai_server as says  # noqa: E402
from tests.models.openai_server import Reply, calling, openai_server  # noqa: E402
from tests.models.test_server_properties import LLAMA_MODELS, LLAMA_PROPS  # noqa: E402
from tests.models.test_whole_runs import settings  # noqa: E402
from tests.rerun.banks import shipped  # noqa: E402

OBJECT = json.dumps({"answer": "45 metres", "sparql": HEIGHT, "evidence": ["results_0"]})
TOOLS_OBJECT = json.dumps({"name": "SUBMIT", "arguments": json.loads(OBJECT)})
STEPS: dict[str, Reply] = {
    "react": call("sparql_schema"),
    "scratchpad": code("print(1)"),
    "rlm": code("print(1)"),
    "tools": calling(("sparql_schema", {})),
}


@pytest.fixture(autouse=True)
def _own_cache(own_cache: None) -> None:
    """What one test finds out, no other knows."""


def forced(place: Path, executor: str, replies: list[Reply], **pages: Any) -> tuple[RunFinished, list[LmCalled], Any]:
    """The end of a run of one step, its calls, and the requests; a rerun is identical."""
    with openai_server([STEPS[executor], *replies], **pages) as server, Bank.create(place, unsafe_no_sync=True) as bank:
        asked = settings(server.url, executor=executor, judge="none", extract=False, iterations=1)
        looped(bank, asked, TASKS[:1])
        events = list(bank.events(resolve=True))
        calls = [event for event in events if isinstance(event, LmCalled)]
        [end] = [event for event in events if isinstance(event, RunFinished)]
        assert len(calls) == len(server.requests)
        # The interpreter of this test describes itself otherwise than the sandbox of a rerun.
        assert executor in ("rlm", "scratchpad") or rerun(bank, end.run, ontologies=shipped()).difference is None
    return end, calls, server.requests


@pytest.mark.parametrize("executor", STEPS)
def test_where_the_server_keeps_a_schema_the_answer_is_an_object_of_it(tmp_path: Path, executor: str) -> None:
    reply = TOOLS_OBJECT if executor == "tools" else OBJECT
    end, calls, requests = forced(tmp_path / "bank", executor, [reply], props=LLAMA_PROPS, models=LLAMA_MODELS)
    assert (end.outcome, end.answer, end.sparql) == ("forced_at_limit", "45 metres", HEIGHT)
    assert json.loads(str(end.evidence)) == {"keys": ["results_0"]}
    assert ["response_format" in each for each in requests] == [False, True], "steps keep their form"
    assert [each.parameters.get("response_format") for each in calls] == [None, "json_schema"]
    schema = requests[1]["response_format"]["json_schema"]["schema"]
    assert '"required": ["answer", "sparql", "evidence"]' in json.dumps(schema)
    # So that the server reads nothing again.
    assert requests[1].get("tools") == requests[0].get("tools")


QUERY = json.dumps({"name": "sparql_query", "arguments": {"query": HEIGHT}})
WORDS = "The query looks for the height of the light."


@pytest.mark.parametrize("refuses", [False, True])
def test_behind_words_a_call_is_an_object_of_a_schema(tmp_path: Path, refuses: bool) -> None:
    """A server ignored that a call was required: a model that explained its first query in words went on to."""
    refused = [says.error("400 Bad Request", "response_format is not supported")] if refuses else []
    replies = [WORDS, *refused, QUERY, WORDS, TOOLS_OBJECT]
    with openai_server(replies, props=LLAMA_PROPS, models=LLAMA_MODELS) as server, Bank.create(tmp_path) as bank:
        asked = settings(server.url, executor="tools", judge="none", extract=False, iterations=6)
        [result] = looped(bank, asked, TASKS[:1])
        assert (result.outcome, result.answer) == ("submitted", "45 metres")
        assert rerun(bank, result.run, ontologies=shipped()).difference is None
    found = [(each.get("tool_choice"), "response_format" in each) for each in server.requests]
    free, by_schema, required = (None, False), ("none", True), ("required", False)
    assert found == ([free, by_schema, required, free, required] if refuses else [free, by_schema, free, by_schema])
    assert all(each["tools"] == server.requests[0]["tools"] for each in server.requests)


@pytest.mark.slow
def test_a_server_that_refuses_the_schema_is_asked_in_the_usual_form(tmp_path: Path) -> None:
    refused = says.error("400 Bad Request", "response_format is not supported")
    end, calls, _ = forced(
        tmp_path / "bank", "react", [refused, answer("45 metres")], props=LLAMA_PROPS, models=LLAMA_MODELS
    )
    assert end.answer == "45 metres" and [each.error_code for each in calls] == [None, "refused", None]


@pytest.mark.slow
def test_where_nobody_knows_of_schemas_none_is_sent(tmp_path: Path) -> None:
    end, _, requests = forced(tmp_path / "bank", "react", [answer("45 metres")])
    assert end.answer == "45 metres" and not any("response_format" in each for each in requests)


@pytest.mark.parametrize("reply", ['{"answer": "", "sparql": "", "evidence": []}', '{"answer": "45', "words"])
def test_an_object_without_an_answer_is_none(tmp_path: Path, reply: str) -> None:
    end, _, _ = forced(tmp_path / "bank", "react", [reply], props=LLAMA_PROPS, models=LLAMA_MODELS)
    assert end.outcome == "forced_at_limit" and end.error_code == "unreadable" and not end.answer


CUT = '{"answer": "45 metres", "sparql": "SELECT ?a", "evidence": ["results_0", "results_0", "resul'


@pytest.mark.parametrize(
    ("text", "answered", "sparql"),
    [(CUT, "45 metres", "SELECT ?a"), (CUT[:36], "45 metres", ""), (CUT[:20], "", ""), ("words", "", "")],
)
def test_an_answer_that_was_whole_before_its_object_was_cut_counts(
    tmp_path: Path, text: str, answered: str, sparql: str
) -> None:
    """What it rests on counts as far as it was whole."""
    cut = says.says(says.completion(text).replace(b'"stop"', b'"length"'), says.JSON)
    end, _, _ = forced(tmp_path / "bank", "react", [cut], props=LLAMA_PROPS, models=LLAMA_MODELS)
    assert (end.answer or "", end.sparql or "", end.evidence) == (answered, sparql, "{}")
    assert (end.error_code is None) == bool(answered)


VALUES = st.recursive(st.none() | st.integers() | st.text(max_size=6), lambda inner: st.lists(inner, max_size=3))


@given(st.dictionaries(st.sampled_from(["answer", "sparql", "evidence"]), VALUES), st.integers(0, 90))
def test_a_member_of_a_cut_object_is_whole_or_left_out(members: dict[str, Any], at: int) -> None:
    text = json.dumps(members)
    found = whole_members(text[:at])
    assert all(members[name] == value for name, value in found.items())
    assert whole_members(text) == members
