"""A recorded run says at its end whether what it recalled reached a prompt, whichever way its calls are recorded."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.answers.runs import RunRow
from rbank_es.bank.agent_run import AgentRun, Lessons
from rbank_es.events import LmCalled, MemoriesRead
from rbank_es.law import usage
from tests.policies.proven_rank import PROVEN

TASK = "Which lamps are lit?"
Agent = Callable[[AgentRun, Lessons], Any]


@pytest.fixture
def bank() -> Any:
    with Bank.create("memory:") as bank:
        bank.remember("Ask for lamps", "Which lamps are lit is asked of lamps: lights are no lamps.", src="success")
        bank.remember("Never trust a switch", "Of lamps that are lit, a switch says nothing.", src="failure")
        yield bank


def row_of(bank: Bank, agent: Agent) -> tuple[RunRow, tuple[str, ...] | None]:
    """Let an agent make one run, and return what the bank says of it."""
    with bank.record(TASK) as run:
        agent(run, run.recall())
        run.finish("the hall's")
    found = bank.run(run.id)
    return found.run, found.recall_unsent


def asking(prompt: Callable[[Lessons], Any]) -> Agent:
    """An agent that asks a wrapped function."""
    return lambda run, lessons: run.wrap(lambda words: "the hall's")(prompt(lessons))


def calling(prompt: Callable[[Lessons], Any]) -> Agent:
    """An agent that records its calls by hand."""
    return lambda run, lessons: run.call(request=[{"role": "user", "content": prompt(lessons)}], response="x")


@pytest.mark.parametrize("agent", [asking, calling])
def test_lessons_in_a_prompt_were_sent(bank: Bank, agent: Callable[[Any], Agent]) -> None:
    """As `recall` quotes them, or in the agent's own form with their words whole."""
    forms = [
        str,
        lambda lessons: f"Notes:\n{lessons.text}\n\n{TASK}",
        lambda lessons: "\n".join(f"* {item.content}" for item in lessons.items),
    ]
    for form in forms:
        row, unsent = row_of(bank, agent(form))
        assert (row.recall_sent, unsent) == (True, ())


@pytest.mark.parametrize("agent", [asking, calling])
def test_lessons_that_reached_no_prompt_are_named(bank: Bank, agent: Callable[[Any], Agent]) -> None:
    recalled: list[Lessons] = []
    row, unsent = row_of(bank, agent(lambda lessons: recalled.append(lessons) or TASK))  # type: ignore[func-returns-value]
    assert (row.recall_sent, unsent) == (False, recalled[0].added)
    row, unsent = row_of(bank, agent(lambda lessons: lessons.text[: len(lessons.text) - 9]))
    assert row.recall_sent is False and len(unsent or ()) == 1


def test_a_lesson_that_reached_no_prompt_has_no_use_there(bank: Bank) -> None:
    """From the end of the run on, which says so: it was given, and wins nothing; read in full, it is used."""
    with bank.record(TASK) as run:
        lessons = run.recall()
        run.wrap(lambda words: "the hall's")(TASK)
        given = bank.position
        run.finish("the hall's")
    run.judge(True, by="tests")
    assert usage(bank.state()) == {} and usage(bank.state(given)) == dict.fromkeys(lessons.added, (1, 0))
    for point in range(given, bank.position + 1):
        with bank.as_of(point) as view:
            assert view.usage() == usage(bank.state(point))
    for id in lessons.added:
        found = bank.item(id)
        assert (found.item.uses, found.item.wins, [each.run for each in found.used_in]) == (0, 0, [run.id])
    first = lessons.added[0]
    bank.append(MemoriesRead(run=run.id, ids=(first,), how="get", chars=9))
    assert (bank.item(first).item.uses, bank.item(first).item.wins) == (1, 1)
    assert usage(bank.state()) == {first: (1, 1)}


@pytest.mark.slow
def test_what_was_sent_decides_no_ranking_by_outcomes_later_than_its_run(bank: Bank) -> None:
    """A search by utility is repeated with the uses of its position, before and after an end took some away."""
    bank.set_policies({"retrieval": PROVEN})
    for _ in range(2):
        row_of(bank, asking(lambda lessons: TASK))
        with bank.record(TASK) as run:
            run.wrap(lambda words: "x")(run.recall().text)
            run.finish("x")
        run.judge(True, by="tests")
    checked = bank.check(retrievals=True).retrievals
    assert checked is not None and (checked.checked, checked.different) == (8, ())


def test_a_call_has_the_name_of_its_model_of_the_run_or_none(bank: Bank) -> None:
    """In this order."""
    for model, named in (("m", {}), (None, {}), ("m", {"model": "other"})):
        with bank.record(TASK, model=model) as run:
            run.wrap(lambda words="", **more: "x")(words="y", **named)
            run.finish()
    names = [event.model for event in bank.events(types=("lm_called",)) if isinstance(event, LmCalled)]
    assert names == ["m", "unnamed", "other"]


def test_where_nothing_is_known_nothing_is_said(bank: Bank) -> None:
    """No call recorded; a call without its request; nothing recalled."""
    assert row_of(bank, lambda run, lessons: None)[0].recall_sent is None
    assert row_of(bank, lambda run, lessons: run.call(response="x"))[0].recall_sent is None
    with bank.record(TASK) as run:
        run.call(request="x")
        run.finish()
    assert bank.run(run.id).run.recall_sent is None


def ask_in_child(ask: Callable[[str], str], words: str) -> None:
    assert ask(words) == "x"


def test_a_call_of_a_forked_child_is_recorded_and_leaves_open_what_was_sent(tmp_path: Any) -> None:
    """The parent can't search the child's prompt, so it doesn't say that a lesson was not sent."""
    with Bank.create(tmp_path / "bank") as bank:
        bank.remember("Ask for lamps", "Which lamps are lit is asked of lamps.", src="success")
        with bank.record(TASK) as run:
            ask, lessons = run.wrap(lambda words: "x"), run.recall()
            ask("no lesson")
            child = multiprocessing.get_context("fork").Process(target=ask_in_child, args=(ask, lessons.text))
            child.start()
            child.join(30)
            assert child.exitcode == 0
            run.finish()
        row = bank.run(run.id).run
        assert (row.lm_calls, row.recall_sent) == (2, None)
