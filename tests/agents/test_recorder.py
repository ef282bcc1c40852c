"""The recorder: what an agent of one's own did, as the bank keeps it, whatever happens to the agent."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.agents.recall import append_recall, find_recall
from rbank_es.bank.agent_run import AgentRun
from rbank_es.bank.run_locks import FOLDER, close_left_runs
from rbank_es.cli.shared.output import format_time
from rbank_es.errors import BadInput, LogUnavailable
from rbank_es.events import LmCalled, NoteLogged, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.log.run_reader import RunEvents, read_run
from tests.cli_runner import run as cli
from tests.context.procedures_of_bank import procedures
from tests.processes import PROCESSES, alone

LAMP = "Ask for lamps, not lights"
SWITCH = "Never trust a switch"
TASK = "Which lamps are lit?"


def bank_of_lamps(place: str | Path = "memory:") -> Bank:
    bank = Bank.create(place)
    bank.remember(LAMP, "Which lamps are lit is asked of lamps: lights are something else.", src="success")
    bank.remember(SWITCH, "Which lamps are lit is asked of lamps: a switch that is on says nothing.", src="failure")
    return bank


def events_of(bank: Bank, run: AgentRun) -> RunEvents:
    return read_run(bank.log, run.id, resolve=True)


def end_of(bank: Bank, run: AgentRun) -> RunFinished:
    end = events_of(bank, run).end
    assert end is not None
    return end


def test_a_run_is_recorded_as_it_happens() -> None:
    with bank_of_lamps() as bank:
        with bank.record(TASK, model="m", task_id="lamps", level=2, domain="house") as run:
            lessons = run.recall()
            run.call(request=[{"role": "user"}], response="look", tokens_in=7, tokens_out=2, cost_usd=0.5)
            run.tool("search", {"q": "lamps"}, ["hall", "porch"], duration_s=0.25)
            run.tool("open", error=KeyError("door"))
            run.step(reasoning="I look.", code="look()", output="hall")
            run.note({"seen": 1})
            assert not run.ended
            run.finish("the hall's", evidence={"keys": [1]})
        run.judge(False, by="tests", reason="the porch's, too")
        found = events_of(bank, run)
        started = found.started
        assert started is not None
        assert (started.task, started.model, started.task_id, started.level, started.ontology, started.executor) == (
            TASK, "m", "lamps", 2, "house", "recorder"
        )  # fmt: skip
        assert lessons.added == found.contexts[0].items and len(lessons.items) == 2
        assert LAMP in lessons.text and SWITCH in lessons.text and len(lessons.text) <= 600
        assert found.contexts[0].chars == len(lessons.text)
        search, opened = found.of(ToolCalled)
        assert (search.arguments, search.result, search.chars) == ('{"q": "lamps"}', '["hall", "porch"]', 17)
        assert (opened.error_code, opened.error, opened.chars) == (
            "KeyError",
            "KeyError: 'door'",
            len("KeyError: 'door'"),
        )
        [call], [step], [note] = found.of(LmCalled), found.of(StepTaken), found.of(NoteLogged)
        assert (call.model, call.role, call.tokens_in, call.request) == ("m", "agent", 7, '[{"role": "user"}]')
        assert (step.index, step.code, step.stdout_chars, note.note) == (1, "look()", 4, '{"seen": 1}')
        end = end_of(bank, run)
        assert (end.outcome, end.answer, end.answer_chars, end.iterations) == ("submitted", "the hall's", 10, None)
        row = bank.run(run.id)
        assert (row.run.verdict, row.run.kind, row.run.authority) == ("failure", "outcome", "the outcome")
        assert row.leakage.items_injected == 2 and row.leakage.context_size == len(lessons.text)
        assert row.leakage.total_chars_returned == 17 + 16
        assert set(bank.state().uses) == set(lessons.added)
        checked = bank.check(retrievals=True, strict=True)
        assert checked.retrievals is not None and checked.retrievals.checked == 2
        assert checked.slips is not None and not checked.slips.counts


def test_a_second_recall_gives_what_is_new_and_the_run_has_both() -> None:
    with bank_of_lamps() as bank:
        bank.remember("Close the cellar door", "The cellar door is closed at night.", src="success")
        with bank.record(TASK) as run:
            first, again = run.recall(), run.recall()
            second = run.recall("Is the cellar door closed? Which lamps are lit?")
            assert (again.text, again.added) == ("", ()) and again.items == first.items
            assert "cellar" in second.text and LAMP not in second.text and SWITCH not in second.text
            run.finish()
        context = events_of(bank, run).context
        assert context is not None
        assert context.items == (*first.added, *second.added) and context.chars == len(first.text) + 2 + len(
            second.text
        )
        assert [use.layer for use in context.layers] == ["L2", "L2"] and context.texts == (first.text, second.text)
        assert bank.run(run.id).leakage.items_injected == 3
        assert bank.check(retrievals=True).events == bank.position


# ---------------------------------------------------------------- how it ends


@pytest.mark.parametrize("after", [False, True])
def test_an_interruption_while_the_end_is_recorded_leaves_one_end(after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before or after it is on the disk: the run is closed, and the interruption is raised."""
    with Bank.create("memory:") as bank:
        append, struck = bank.log.append, list[bool]()

        def once(events: Any, **given: Any) -> Any:
            strikes = not struck and any(isinstance(event, RunFinished) for event in events)
            struck.extend([True] * strikes)
            if strikes and not after:
                raise KeyboardInterrupt
            done = append(events, **given)
            if strikes:
                raise KeyboardInterrupt
            return done

        monkeypatch.setattr(bank.log, "append", once)
        with pytest.raises(KeyboardInterrupt), bank.record(TASK) as run:
            run.finish("hall")
        [end] = events_of(bank, run).of(RunFinished)
        assert (end.error_code, end.answer) == ((None, "hall") if after else ("interrupted", None))


def test_what_can_not_be_recorded_of_a_run_is_refused_in_a_sentence() -> None:
    with Bank.create("memory:") as bank:
        run = bank.record(TASK)
        early: dict[str, Callable[[], object]] = {
            "recall": run.recall, "tool": lambda: run.tool("t"), "finish": run.finish, "note": lambda: run.note(1)
        }  # fmt: skip
        for name, act in early.items():
            with pytest.raises(BadInput, match=f"{name}: the run has not begun; use it in a `with`"):
                act()
        with pytest.raises(BadInput, match="has not ended: judge it after"):
            run.judge(True, by="tests")
        with run:
            with pytest.raises(BadInput, match="has not ended: judge it after"):
                run.judge(True, by="tests")
            with pytest.raises(BadInput, match="has begun already"):
                run.__enter__()
            run.finish("hall")
            for name, act in early.items():
                with pytest.raises(BadInput, match=f"{name}: the run {run.id} has ended"):
                    act()
        position = bank.position
        with pytest.raises(BadInput, match="'perhaps' is no verdict: give True, False or 'undecided'"):
            run.judge("perhaps", by="tests")  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="'gold' is no kind"):
            run.judge(True, by="tests", kind="gold")  # type: ignore[arg-type]
        odd = (
            {"level": -1},
            {"model": "m" * 257},
            {"task_id": 7},
            {"domain": "a\0b"},
            {"model": 5},
            {"scripted": "no"},
        )
        for facts in odd:
            with pytest.raises(BadInput, match=next(iter(facts))):
                bank.record(TASK, **facts)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="a text, and NoneType was given"):
            bank.record(None)  # type: ignore[arg-type]
        assert bank.position == position


def test_a_person_is_above_what_happened_and_gives_a_reason() -> None:
    with Bank.create("memory:") as bank:
        with bank.record(TASK) as run:
            run.finish("hall")
        with pytest.raises(BadInput, match="a reason is missing"):
            run.judge(True, by="ann", kind="human")
        run.judge(True, by="ann", kind="human", reason="The tests are old.")
        run.judge(False, by="tests")
        assert bank.run(run.id).run.verdict == "success"
        run.judge(False, by="bo", kind="human", reason="They are not.")
        assert bank.run(run.id).run.verdict == "failure"


# ---------------------------------------------------------------- any value


class Silent:
    """Its words raise."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


LOOP: list[Any] = []
LOOP.append(LOOP)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary()
KEYS = st.text() | st.integers() | st.tuples()
VALUES = st.recursive(
    PLAIN | st.just(Silent()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, VALUES, VALUES)
def test_no_value_raises_into_the_agent(one: Any, other: Any, third: Any) -> None:
    with Bank.create("memory:") as bank:
        with bank.record(TASK) as run:
            run.tool(one, other, third, error=one, duration_s=other)
            run.step(reasoning=one, code=other, output=third)
            run.call(request=one, response=other, model=one, parameters={"p": third}, tokens_in=one, cost_usd=other)
            run.note(third)
            run.finish(one, evidence=other)
        run.judge(True, by=one, reason=other)
        assert bank.run(run.id).run.verdict == "success"


def test_secrets_of_the_environment_are_in_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "4c2f0a91-lamp-key"
    monkeypatch.setenv("LAMP_API_KEY", secret)
    with bank_of_lamps() as bank:
        with pytest.raises(ValueError, match="lamp"), bank.record(f"{TASK} {secret}") as run:
            run.recall(f"lamps lit {secret}")
            run.tool("t", {"key": secret}, secret, error=secret)
            run.step(reasoning=secret, code=secret, output=secret)
            run.call(request={"key": secret}, response=secret, error=RuntimeError(secret))
            run.note([secret])
            raise ValueError(secret)
        run.judge(False, by="tests", reason=secret)
        assert not any(secret.encode() in line for line in bank.log.lines())
        assert secret not in str(events_of(bank, run).events)


# ---------------------------------------------------------------- side by side


def test_threads_share_a_run_and_its_totals_are_right() -> None:
    with bank_of_lamps() as bank, bank.record(TASK) as run:
        given = list[str]()

        def work(number: int) -> None:
            given.extend(run.recall().added)
            for _ in range(5):
                run.tool("t", {"n": number}, "12345")
                run.step(output=str(number))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(given) == sorted(set(given)) and len(given) == 2
        run.finish("hall")
        found = events_of(bank, run)
        assert [step.index for step in found.steps] == [*range(1, 21)] and len(found.calls) == 20
        assert bank.run(run.id).leakage.total_chars_returned == 100
        assert bank.check(retrievals=True).events == bank.position


def test_async_with_records_a_run_and_a_cancelled_one() -> None:
    async def work(bank: Bank) -> tuple[AgentRun, AgentRun]:
        async with bank.record(TASK) as done:
            done.finish("hall")
        cancelled = bank.record(TASK)

        async def endless() -> None:
            async with cancelled:
                await asyncio.sleep(60)

        task = asyncio.create_task(endless())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done, cancelled

    with Bank.create("memory:") as bank:
        done, cancelled = asyncio.run(work(bank))
        assert end_of(bank, done).answer == "hall" and end_of(bank, cancelled).error_code == "interrupted"


# ---------------------------------------------------------------- writers that are gone


def _begun(place: str, ready: multiprocessing.synchronize.Event) -> None:
    with Bank.open(place) as bank, bank.record(TASK) as run:
        run.tool("t", {}, "hall")
        ready.set()
        threading.Event().wait(60)


def test_the_run_of_a_killed_process_is_closed_by_the_next_recorder_and_no_living_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A child that kept the environment of an earlier test would keep its marks in another cache.
    assert alone(os.getpid) == 0
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
    with Bank.create(tmp_path / "bank") as bank:
        ready = PROCESSES.Event()
        process = PROCESSES.Process(target=_begun, args=(str(tmp_path / "bank"), ready))
        process.start()
        assert ready.wait(30)
        with bank.record("another") as mine:
            [theirs] = [row for row in bank.runs().rows if row.task == TASK]
            assert theirs.outcome is None and close_left_runs(bank) == ()
            process.kill()
            process.join()
            with bank.record("a third") as third:
                third.finish()
            mine.finish()
        row = bank.run(theirs.run).run
        assert (row.outcome, row.error_code, row.error) == (
            "failed", "process_ended", "the process that recorded it ended before it did"
        )  # fmt: skip
        assert end_of(bank, mine).outcome == "submitted"
        assert close_left_runs(bank) == () and not list((bank.log.derived_directory / FOLDER).iterdir())


def test_a_mark_of_another_machine_or_of_no_run_closes_nothing(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(RunStarted(run="run-" + "a" * 16, task=TASK))
        folder = bank.log.derived_directory / FOLDER
        folder.mkdir()
        (folder / f"run-{'a' * 16}").write_text("another machine")
        (folder / f"run-{'b' * 16}").write_text("")
        (folder / "run-outside").symlink_to(tmp_path)
        assert close_left_runs(bank) == () and bank.position == 3
        assert sorted(path.name for path in folder.iterdir()) == [f"run-{'a' * 16}", "run-outside"]


def test_a_log_that_can_not_be_written_raises_and_the_agents_own_error_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Bank.create("memory:") as bank:

        def full(events: Any, **given: Any) -> Any:
            raise LogUnavailable("memory:", "write to", OSError(28, "No space left on device"))

        with pytest.raises(ValueError, match="mine") as caught, bank.record(TASK) as run:
            monkeypatch.setattr(bank.log, "append", full)
            with pytest.raises(LogUnavailable):
                run.tool("t")
            with pytest.raises(LogUnavailable):
                run.finish("hall")
            raise ValueError("mine")
        assert re.search(r"the end of the run .* could not be recorded: .*No space left", caught.value.__notes__[0])
        with pytest.raises(LogUnavailable), bank.record(TASK):
            raise AssertionError("the body runs")


def test_a_recall_that_is_recorded_behind_another_writer_names_what_it_searched() -> None:
    """Even where that writer withdrew what was found: the search can be repeated as it was."""
    with bank_of_lamps() as bank, bank.record(TASK) as run:
        found = find_recall(bank, TASK, run=run.id)
        bank.reject(found.lessons.added[0], because="It is wrong.")
        append_recall(bank, found)
        searches = events_of(bank, run).searches
        assert {each.as_of for each in searches} == {found.lessons.position}
        checked = bank.check(retrievals=True).retrievals
        assert checked is not None and checked.checked == 2
        assert run.recall().added == tuple(id for id in found.lessons.added if id != found.lessons.added[0])
        run.finish()


def test_a_run_that_was_left_before_it_began_begins_no_more() -> None:
    """An asynchronous agent is cancelled while a thread begins its run: whichever is first, no run stays open."""
    with bank_of_lamps() as bank:
        run = bank.record(TASK)
        run.__exit__(None, None, None)
        with pytest.raises(BadInput, match="was left before it began"):
            run.begin_with_recall()
        assert not any(isinstance(event, RunStarted | RunFinished) for event in bank.events())


def test_a_recall_sees_what_was_taken_back_and_learned_since_the_last(tmp_path: Path) -> None:
    """Though read models are brought up to date only where something changed that a search reads."""
    with bank_of_lamps(tmp_path / "bank") as bank, Bank.open(tmp_path / "bank") as other:

        def given() -> set[str]:
            with bank.record(TASK) as run:
                lessons = run.recall()
                run.finish()
            run.judge(True, by="tests")
            assert lessons.text == procedures(other, TASK, point=lessons.position).packed.text
            return {item.title for item in lessons.items}

        assert given() == {LAMP, SWITCH} == given()
        with bank.record("x") as taught:
            taught.finish()
        taught.judge(False, by="tests")
        other.remember("Count lamps by lamp", "Which lamps are lit: count each.", src="failure", runs=[taught.id])
        [switch] = [item.id for item in other.items().rows if item.title == SWITCH]
        other.reject(switch, because="It is wrong.")
        assert given() == {LAMP, "Count lamps by lamp"}
        taught.judge(True, by="tests")
        assert given() == {LAMP}
        checked = bank.check(retrievals=True).retrievals
        assert checked is not None and checked.checked == 8


def test_a_run_without_an_end_is_open_since_it_began(tmp_path: Path) -> None:
    """Nobody can tell by the log whether its process lives, so nothing says that it runs."""
    with bank_of_lamps(tmp_path / "bank") as bank:
        bank.append([RunStarted(run="left", task=TASK)])
        began = bank.run("left").run.started_at
    shown = cli("show", "./bank", "left", cwd=tmp_path).out
    assert f"open since {format_time(began)}: no end is recorded" in shown
    found = cli("runs", "./bank", "--outcome", "open", "--json", cwd=tmp_path).json
    assert [each["run"] for each in found["runs"]] == ["left"]
