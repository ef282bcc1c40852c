"""Executors by name, limits of a run, and what an agent hands in."""

from __future__ import annotations

from typing import Any

import pytest

from rbank_es.errors import BadInput
from rbank_es.events.run_events import RunBounds
from rbank_es.executors.executor import RunLimits, executor_class
from rbank_es.executors.run_step import EXAMPLE_ANSWER, EXAMPLE_QUERY, RunStep
from rbank_es.executors.submission import Submission, submitted_fields
from rbank_es.executors.told_words import told_by_steps
from rbank_es.sandbox.step_outcome import SubmissionRefused


def test_another_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadInput, match="rlm, react, scratchpad, tools"):
        executor_class("codeact")


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": 0},
        {"subcalls": -1},
        {"output_chars": -1},
        {"bounds": RunBounds(step_code_s=0)},
        {"history_entries": -1},
    ],
)
def test_limits_that_allow_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        RunLimits(**wrong)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"answer": "A"}, Submission(answer="A")),
        ({"answer": 5, "sparql": None, "evidence": None}, Submission(answer="5")),
        ({"answer": True, "sparql": ["x"]}, Submission(answer="true", sparql='["x"]')),
        ({"answer": float("nan")}, Submission(answer='"nan"')),
        ({"answer": "A", "evidence": '{"a": 1}'}, Submission(answer="A", evidence={"a": 1})),
        ({"answer": "A", "evidence": '["k"]'}, Submission(answer="A", evidence={"keys": ["k"]})),
        ({"answer": "A", "evidence": "k"}, Submission(answer="A", evidence={"keys": ["k"]})),
        ({"answer": "A", "evidence": "[" * 5_000}, Submission(answer="A", evidence={"keys": ["[" * 5_000]})),
        ({"answer": "A", "evidence": 7}, Submission(answer="A", evidence={"keys": [7]})),
        ({"answer": "A", "evidence": {"x": object}}, Submission(answer="A", evidence={"x": "<class 'object'>"})),
        ({"answer": "A\ud800", "evidence": {"\ud800": 1}}, Submission(answer="A?", evidence={"?": 1})),
        ("just words", Submission(answer="just words")),
    ],
)
def test_a_submission_is_typed_whatever_is_given(given: Any, made: Submission) -> None:
    assert Submission.of(given) == made
    assert submitted_fields(made.output) is not None


@pytest.mark.parametrize(
    "given",
    [
        "SELECT ?a { ?a a b:C }",
        "sparql_query(query='SELECT ?a { ?a a b:C }', limit=100, explain=false)",
        'sparql_query("SELECT ?a { ?a a b:C }")',
        '{"query": "SELECT ?a { ?a a b:C }", "limit": 100, "explain": false}',
        {"query": "SELECT ?a { ?a a b:C }"},
        "```sparql\nSELECT ?a { ?a a b:C }\n```",
    ],
)
def test_the_query_of_a_submission_is_found_in_the_call_that_made_it(given: Any) -> None:
    """A small model handed in its call of the tool, and its right answer was refused as no query."""
    assert Submission.of({"answer": "A", "sparql": given}).sparql == "SELECT ?a { ?a a b:C }"


@pytest.mark.parametrize(
    "given", ["f(x)", "f(query=g(1))", "f(query=1)", "{'a': 1}", "{**a}", "results_0", "(" * 9_000]
)
def test_any_other_text_in_the_place_of_a_query_stays(given: str) -> None:
    assert Submission.of({"answer": "A", "sparql": given}).sparql == given


@pytest.mark.parametrize(
    "given", [{}, {"answer": ""}, {"answer": " \n"}, {"answer": None, "sparql": "S"}, None, {"x": 1}]
)
def test_a_submission_without_an_answer_is_refused(given: Any) -> None:
    with pytest.raises(SubmissionRefused, match="the answer is empty"):
        Submission.of(given)


@pytest.mark.parametrize("answer", [EXAMPLE_ANSWER, "your answer, in words", " (Your answer, in words).\n"])
def test_an_answer_that_is_the_words_of_the_example_is_refused(answer: str) -> None:
    """A small model handed in the example of its last step as it stood, and it was accepted as its answer."""
    with pytest.raises(SubmissionRefused, match="the answer is what you were told"):
        Submission.of({"answer": answer, "sparql": "SELECT ?a { ?a a b:C }"})
    assert Submission.of({"answer": "12", "sparql": EXAMPLE_QUERY}).sparql == ""


@pytest.mark.parametrize(
    "answer",
    [
        "Air Handling Unit, Air Diffuser Terminal",
        "No class is called ex:Light. There are 3 lights.",
        "The light",
        "ask otherwise",
        "There are three lights in all.",
    ],
)
def test_an_answer_that_only_shares_words_with_what_was_told_stays(answer: str) -> None:
    """Names that an error listed are data, and what the agent's own code printed before an error is its own."""
    error = "[Error] There are three lights in all.\nValueError: no class is called ex:Light.\n  step 1, line 2: x"
    told = ["no class is called ex:Light. Nearest: Air Handling Unit, Air Diffuser Terminal", "ask otherwise"]
    steps = [RunStep(index=1, code="x", output=error, fault="raised")]
    assert Submission.of({"answer": answer}, [*told, *told_by_steps(steps)]).answer == answer
    with pytest.raises(SubmissionRefused):
        Submission.of({"answer": "ValueError: no class is called ex:Light."}, told_by_steps(steps))
