"""What a judge sees of a run: made of a bank's events, of a plain result, or by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import JudgeFailed
from rbank_es.events import Event, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.extraction import past_run
from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.run_outcome import QueryRun, RunOutcome, outcome_of
from rbank_es.sparql.data_source import Source
from rbank_es.sparql.results import to_json
from rbank_es.tools.shared.toolbox import build_tools
from tests.judging.answers import iri, table

QUERY = "SELECT ?x WHERE { ?x a <http://example.org/Thing> }"
FOUND = table((iri("a"),), names="x")


def call(tool: str = "sparql_query", query: str = QUERY, **more: Any) -> ToolCalled:
    arguments = json.dumps({"query": query} | more.pop("given", {}))
    return ToolCalled(run="r", tool=tool, arguments=arguments, **{"result": to_json(FOUND)} | more)


def finished(**more: Any) -> RunFinished:
    return RunFinished(**{"run": "r", "outcome": "submitted", "answer": "a", "sparql": QUERY} | more)


def outcome(bank: Bank, *events: Event) -> RunOutcome:
    bank.append([RunStarted(run="r", task="Which things?"), *events, RunStarted(run="other", task="?")])
    return outcome_of(bank, "r")


def test_a_run_without_a_source_is_shown_by_its_steps_and_its_calls(bank: Bank) -> None:
    """Its tools are its own, and a step may be words alone. Over a source, steps hold their calls."""
    acts = [
        StepTaken(run="r", index=1, reasoning="I look for lamps."),
        ToolCalled(run="r", tool="find", arguments='{"q": "lamps"}', result="two lamps"),
        ToolCalled(run="r", tool="count", arguments="{}", error="no number", error_code="broken"),
    ]
    seen = outcome(bank, *acts, finished(sparql=None, answer="Two."))
    assert not seen.over_source()
    assert seen.ending.split("\n\n") == [
        "step 1\nwords:\nI look for lamps.",
        'call of find\narguments:\n{"q": "lamps"}\nresult:\ntwo lamps',
        "call of count\narguments:\n{}\nerror:\nno number",
    ]
    bank.append(
        [RunStarted(run="s", task="?", endpoint="https://e.example/"), *(replace(act, run="s") for act in acts)]
    )
    assert "call of" not in outcome_of(bank, "s").ending


@pytest.mark.parametrize(
    ("about", "over_source"),
    [
        ({"ontology": "lights"}, True),
        ({"ontology": "lights", "executor": "rlm", "mode": "auto"}, True),
        ({"ontology": "billing", "executor": "recorder"}, False),
        ({"endpoint": "https://e.example/", "executor": "recorder"}, True),
        ({"executor": "recorder"}, False),
    ],
)
def test_the_domain_of_an_agent_of_another_make_is_no_source(
    about: dict[str, Any], over_source: bool, bank: Bank
) -> None:
    bank.append([RunStarted(run="r", task="?", **about), finished(sparql=None)])
    assert outcome_of(bank, "r").over_source() == over_source
    assert past_run(bank, "r").over_source == over_source


def test_of_a_long_run_the_last_steps_are_seen_and_of_a_long_step_the_end(bank: Bank) -> None:
    codes = [f"begin_{number}()\n{'#' * 1_000}\nend_{number}()" for number in range(5)]
    steps = [StepTaken(run="r", index=number, code=code, output="done") for number, code in enumerate(codes)]
    ending = outcome(bank, *steps, finished()).ending
    assert "begin_0" not in ending and "begin_3" in ending and ending.endswith("end_4()\noutput:\ndone")
    assert len(ending) <= limits.JUDGE_STEPS_CHARS
    bank.append(StepTaken(run="r", index=5, code="begin_5()", output="x" * 9_000 + " the last words"))
    ending = outcome_of(bank, "r").ending
    assert "begin_5" not in ending and ending.endswith("x the last words")
    assert len(ending) <= limits.JUDGE_STEPS_CHARS + len("…")


def test_a_payload_that_is_no_result_is_no_answer(bank: Bank) -> None:
    seen = outcome(bank, call(result="rows, many of them"), call(result=None), finished())
    assert seen.queries == (QueryRun(query=QUERY), QueryRun(query=QUERY))


@pytest.mark.parametrize("more", [{"arguments": None}, {"previews": ("arguments",)}, {"arguments": "{cut"}])
def test_where_one_query_is_not_known_nobody_knows_them_all(bank: Bank, more: dict[str, Any]) -> None:
    unknown = ToolCalled(**{"run": "r", "tool": "sparql_query", "arguments": '{"query": "ASK {}"}'} | more)
    seen = outcome(bank, call(), unknown, finished())
    assert seen.queries is None
    assert judge_by_checks(seen).verdict == "undecided"


@pytest.mark.parametrize(
    "end",
    [
        {"answer": None, "sparql": None, "answer_chars": 120},
        {"answer": None, "sparql": None, "occurred_at": "2026-01-01T00:00:00.000000Z"},
    ],
)
def test_a_run_whose_submission_is_not_known_gets_no_verdict(bank: Bank, end: dict[str, Any]) -> None:
    seen = outcome(bank, finished(**end))
    assert not seen.recorded
    with pytest.raises(JudgeFailed, match="not recorded"):
        judge_by_checks(seen)


def test_a_run_whose_submission_was_erased_gets_no_verdict(bank: Bank) -> None:
    outcome(bank, finished(answer="some words of an answer"))
    [event] = bank.events(types={"run_finished"})
    bank.erase(event=event.seq)
    with pytest.raises(JudgeFailed, match="erased"):
        judge_by_checks(outcome_of(bank, "r"))


def test_a_run_through_the_real_tools_is_known_again(bank: Bank, lights_source: Source) -> None:
    """What the tools record is what a judge finds: the query that was run, with its rows."""
    bank.append(RunStarted(run="r", task="Which lighthouses are there?"))
    query = "SELECT ?light WHERE { ?light a lt:Lighthouse }"
    build_tools(bank, run="r", source=lights_source.ontology).call("sparql_query", {"query": query, "limit": 50})
    bank.append(finished(sparql=query, answer="gannet, saltmark and others"))
    seen = outcome_of(bank, "r")
    assert seen.queries is not None and seen.queries[0].answer is not None
    assert len(seen.queries[0].answer.rows) == 9
    assert judge_by_checks(seen, lights_source).verdict == "undecided"
    other = RunOutcome(
        task=seen.task, sparql=query.replace("Lighthouse", "Beacon"), answer="mole", queries=seen.queries
    )
    assert [each.code for each in judge_by_checks(other, lights_source).findings] == ["query_not_run"]


def test_any_result_with_an_answer_and_a_query_will_do() -> None:
    old = SimpleNamespace(answer="a", sparql=None, converged=False, iters=5)
    seen = RunOutcome.of(old, "Which?")
    assert (seen.task, seen.answer, seen.sparql, seen.outcome, seen.iterations) == (
        "Which?",
        "a",
        "",
        "forced_at_limit",
        5,
    )
    new = SimpleNamespace(answer="a", sparql=QUERY, outcome="failed", error="out of time", run="r")
    assert RunOutcome.of(new, "?") == RunOutcome(
        task="?", answer="a", sparql=QUERY, outcome="failed", error="out of time", run="r"
    )
    assert RunOutcome.of(seen, "Another?").task == "Another?"
