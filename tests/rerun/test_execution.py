"""Runs run again: the same where nothing changed, and the first difference where something did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.data import lights
from rbank_es.errors import BadInput
from rbank_es.events import (
    ContextBuilt,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRetrieved,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.tasks import Task
from rbank_es.models.model_call import RetryableFailure, failed
from rbank_es.models.model_choice import LmChoice
from rbank_es.rerun.event_comparison import EventDifference
from rbank_es.rerun.execution import Rerun, rerun
from rbank_es.rerun.ontology_lookup import Ontologies
from rbank_es.rerun.recorded_run import recorded_run, runs_of
from rbank_es.tools.graph_tools import GraphTools
from tests.cli_runner import digest_of
from tests.effort import one_in
from tests.executors.runs import Turns, answer, call, code
from tests.loop.loops import SCRIPT, TASKS, looped
from tests.rerun.banks import Change, changing, leaving_out, quick_code, reruns, retold, run_in
from tests.sandbox.sandboxes import Lender, require_dspy

require_dspy()

QUESTION = Task(id="kinds", question="Which kinds of lights are there?")

MODELS: Any = {"lm": LmChoice(model="test/turns"), "sub_lm": LmChoice(model="test/sub")}

STEPS = (
    code("print(g_stats())"),
    code("found = sparql_query('SELECT ?s ?k { ?s a ?k }', limit=20)\nprint(found['key'], sparql_slice(found, 0, 5))"),
    code("print(llm_query_batched(['one', 'two', 'three']), llm_query('four'))"),
    code("print(found[:3])"),
    code("sparql_query('SELECT nothing'); g_props(nothing=1)"),
    code("SUBMIT(answer='Two.', sparql='SELECT ?k { ?s a ?k }', evidence={'key': found['key']})"),
)
"""Six steps: handles in prompts, blank nodes, sub-calls, code that raises, calls that fail."""

CALLS = (
    call("g_classes", {"limit": 3}),
    call("sparql_query", {"query": "SELECT ?s ?k { ?s a ?k }"}),
    call("sparql_slice", {"result": "results_0", "limit": 2}),
    call("no_such_tool"),
    call("event_log", {"obj": {"n": 1}}),
    call("SUBMIT", {"answer": "Two.", "sparql": "", "evidence": {}}),
)


def turned(place: Path, executor: str, said: tuple[Any, ...], **options: Any) -> Bank:
    """A bank with one run of an agent that says this."""
    bank = Bank.create(place / "bank", unsafe_no_sync=True)
    turns, interpreters = Turns(said), options.pop("interpreters", quick_code)
    settings = LoopSettings(**MODELS, executor=executor, judge="none", extract=False, **options)  # type: ignore[arg-type]
    looped(bank, settings, [QUESTION], interpreters=interpreters, model_for=turns.model_for)
    return bank


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """Two tasks: the first fails and teaches, the second succeeds with what it taught."""
    with run_in(tmp_path_factory.mktemp("learnt"), SCRIPT, TASKS) as bank:
        yield bank


@pytest.fixture(scope="module")
def six_steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with turned(tmp_path_factory.mktemp("six"), "rlm", STEPS) as bank:
        yield bank


# ---------------------------------------------------------------- the same


@pytest.mark.slow
def test_a_loop_comes_out_the_same_with_its_verdicts_and_what_it_learnt(learnt: Bank) -> None:
    first, second = reruns(learnt)
    assert (first.difference, second.difference) == (None, None)
    compared = recorded_run(learnt, first.run).whole
    assert {type(event) for event in compared} >= {RunJudged, MemoriesExtracted, MemoriesConsolidated}
    assert first.events == len(compared)
    assert first.scripted and second.scripted


def test_an_agent_without_code_comes_out_the_same(tmp_path: Path) -> None:
    with turned(tmp_path, "react", CALLS) as bank:
        assert [came.identical for came in reruns(bank)] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("perturbation", ["none", "prefix", "rephrase", "thinking"])
def test_rollouts_that_ran_side_by_side_come_out_the_same_each(perturbation: str, tmp_path: Path) -> None:
    script = SCRIPT.partition('[[task]]\nid = "again"')[0]
    with run_in(tmp_path, script, TASKS[:1], rollouts=3, perturbation=perturbation, extract=False) as bank:
        came = list(reruns(bank))
        assert [each.difference for each in came] == [None, None, None]
        assert all(isinstance(recorded_run(bank, each.run).whole[-1], RunJudged) for each in came)


@pytest.mark.slow
def test_the_bank_is_only_read(learnt: Bank) -> None:
    before = digest_of(Path(learnt.place))
    assert all(came.identical for came in reruns(learnt))
    assert digest_of(Path(learnt.place)) == before


@pytest.mark.slow
def test_a_run_can_be_run_again_from_the_bank_that_a_rerun_left(six_steps: Bank, tmp_path: Path) -> None:
    [run] = runs_of(six_steps)
    rerun(six_steps, run, into=tmp_path / "again")
    with Bank.open(tmp_path / "again") as again:
        again.check()
        assert rerun(again, run).identical
    with pytest.raises(BadInput, match="is not empty"):
        rerun(six_steps, run, into=tmp_path / "again")


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
def test_code_in_the_real_sandbox_comes_out_the_same_played_and_run_again(tmp_path: Path) -> None:
    with turned(tmp_path, "rlm", STEPS, interpreters=Lender()) as bank:
        [run] = runs_of(bank)
        assert rerun(bank, run).difference is None
        assert rerun(bank, run, live_sandbox=True).difference is None


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
def test_what_the_sandbox_measures_is_compared_where_code_runs_again(tmp_path: Path) -> None:
    """Played, a step comes out with what was measured when it was recorded; run again, it is measured again."""
    with turned(tmp_path, "rlm", STEPS, interpreters=Lender()) as bank:
        [run] = runs_of(bank)
        with retold(bank, tmp_path / "retold", changing(StepTaken, variables_n=99)) as other:
            assert rerun(other, run).difference is None
            found = rerun(other, run, live_sandbox=True).difference
    assert found is not None and (found.type, found.field) == ("step_taken", "variables_n")


def test_models_that_failed_fail_again_try_by_try_and_nobody_waits(tmp_path: Path) -> None:
    """A try that another one mends, a prompt that is never answered, and a model that ends the run."""
    fails = {"a": ["rate_limited", ""], "b": ["refused"]}

    def sub(prompt: str) -> str:
        code = (fails.get(prompt) or [""]).pop(0)
        if code in ("", "refused"):
            return prompt.upper() if not code else _raise(failed(code, "no"))
        raise RetryableFailure(failed(code, "later"), 0.0)

    asks = code("print(llm_query_batched(['a', 'b', 'c', 'c']))")
    for number, end in enumerate((answer("One."), failed("server_error", "gone"))):
        place = tmp_path / str(number)
        turns = Turns((asks, failed("bad_response", "cut short"), code("1 / 0"), end), sub)
        bank = Bank.create(place / "bank", unsafe_no_sync=True)
        settings = LoopSettings(**MODELS, iterations=3, judge="none", extract=False)
        with bank:
            looped(bank, settings, [QUESTION], interpreters=quick_code, model_for=turns.model_for)
            codes = {event.error_code for event in bank.events(types={"lm_called"})}  # type: ignore[attr-defined]
            assert {"bad_response"} < codes
            assert [came.difference for came in reruns(bank)] == [None]
        fails = {"a": ["rate_limited", ""], "b": ["refused"]}


def _raise(error: Exception) -> str:
    raise error


@pytest.mark.parametrize("mode", ["auto", "tools", "both"])
def test_a_run_that_looks_into_its_memory_comes_out_the_same(learnt: Bank, tmp_path: Path, mode: Any) -> None:
    """What it finds, reads and proposes depends on the bank, which is as it was then."""
    looks = code("hits = mem_search('height of a light')\nprint(hits)\nprint(mem_get([hits['hits'][0]['id']]))")
    turns = Turns((looks, code("SUBMIT(answer='45', sparql='', evidence={})")))
    settings = LoopSettings(**MODELS, mode=mode, layers=("L0", "L1", "L2", "L3"), judge="none", extract=False)
    with retold(learnt, tmp_path / "bank", lambda event: event) as bank:
        question = Task(id="kinds", question="At what height above high water are lights?")
        looped(bank, settings, [question], interpreters=quick_code, model_for=turns.model_for)
        given = [event.items for event in bank.events(types={"context_built"}) if isinstance(event, ContextBuilt)]
        assert (mode == "tools") != bool(given[-1])
        assert (mode == "auto") != bool(list(bank.events(types={"memories_read"})))
        bank.append(MemoriesForgotten(ids=(next(iter(bank.state().items)),), policy="bounded-1", why="room"))
        assert reruns_last(bank).difference is None


def reruns_last(bank: Bank) -> Rerun:
    return rerun(bank, runs_of(bank)[-1], tasks=TASKS)


# ---------------------------------------------------------------- tampered records


def differing(bank: Bank, place: Path, change: Change) -> EventDifference:
    """The first difference of the only run of a bank that was told otherwise."""
    with retold(bank, place / "retold", change) as other:
        [came] = reruns(other, runs_of(other)[:1])
        assert came.difference is not None
        return came.difference


@pytest.mark.parametrize(
    ("change", "type_", "field", "hint"),
    one_in(4, [
        (changing(RunStarted, task="Which kinds are there?"), "memories_retrieved", "query", "retrieval policy"),
        (changing(RunStarted, model="another"), "run_started", "model", "settings"),
        (changing(ContextBuilt, chars=1), "context_built", "chars", "budgets"),
        (changing(ContextBuilt, texts=lambda was: ("You", *was[1:])), "context_built", "texts[0]", "base instructions"),
        (changing(ContextBuilt, texts=lambda was: (was[0], "x", *was[2:])), "context_built", "texts[1]", "sense card"),
        (changing(MemoriesRetrieved, k=7), "memories_retrieved", "k", "policy"),
        (changing(LmCalled, 2, request=lambda was: was.replace("light", "lamp")), "lm_called", "request", "dspy"),
        (changing(LmCalled, tokens_in=9), "lm_called", "tokens_in", "executor"),
        (changing(ToolCalled, chars=1), "tool_called", "chars", "its code"),
        (changing(ToolCalled, 2, result=lambda was: was.replace("bnode", "uri")), "tool_called", "result", "its code"),
        (changing(StepTaken, output="No.", stdout_chars=3), "lm_called", "request", "prompt"),
        (changing(StepTaken, prompt_chars=7), "step_taken", "prompt_chars", "executor"),
        (changing(RunFinished, answer="Three."), "run_finished", "answer", "code"),
        (leaving_out(ToolCalled, 2), "tool_called", "error_code", "its code"),
        (leaving_out(LmCalled, 2), "tool_called", "type", "another turn"),
    ]),
)  # fmt: skip
def test_a_record_that_was_changed_differs_there_first(
    six_steps: Bank, tmp_path: Path, change: Change, type_: str, field: str, hint: str
) -> None:
    found = differing(six_steps, tmp_path, change)
    assert (found.type, found.field.partition(",")[0].startswith(field)) == (type_, True), found
    assert hint in found.hint


# ---------------------------------------------------------------- another code, another ontology


def test_a_manual_that_reads_otherwise_is_found_in_the_first_prompt(
    six_steps: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GraphTools.g_search, "__doc__", "Counts. " + str(GraphTools.g_search.__doc__))
    [came] = reruns(six_steps)
    assert came.difference is not None
    assert (came.difference.type, came.difference.field.startswith("request.system")) == ("lm_called", True)
    assert "Counts." in came.difference.now and "manuals" in came.difference.hint


def test_another_ontology_is_found_and_told(six_steps: Bank, tmp_path: Path) -> None:
    path = tmp_path / "lights.ttl"
    path.write_text(lights().ontology.read_text().replace("a lt:Lighthouse", "a lt:LightVessel", 1))
    with Ontologies([path]) as given:
        [came] = reruns(six_steps, ontologies=given)
    # The shipped one has the digest that was registered, so it is what is asked.
    assert came.identical
    with retold(six_steps, tmp_path / "retold", _registered_otherwise) as bank, Ontologies([path]) as given:
        [came] = reruns(bank, ontologies=given)
    assert came.difference is not None
    assert any("another ontology was given" in note for note in came.notes)


def _registered_otherwise(event: Any) -> Any:
    return changing(type(event), sha256="ab" * 32)(event) if hasattr(event, "sha256") else event


def test_an_ontology_is_found_among_several_by_its_digest(six_steps: Bank, tmp_path: Path) -> None:
    (tmp_path / "other.ttl").write_text("<http://example.org/a> a <http://example.org/B> .")
    (tmp_path / "copy.ttl").write_bytes(lights().ontology.read_bytes())
    with Ontologies([tmp_path / "other.ttl", tmp_path / "copy.ttl"]) as given:
        [came] = reruns(six_steps, ontologies=given)
    assert (came.identical, came.notes) == (True, ())


# ---------------------------------------------------------------- points in time
