"""The shipped script and the demo that runs it: a loop that fails once, learns why, and uses what it learnt.

Here the code of the scripted turns runs in this process, which is quick. Once, marked slow, all is as in `make demo`,
in the real sandbox.
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared import live_demo
from rbank_es.data import SCRIPTED_TASKS, lights
from rbank_es.errors import LmFailed, LoopStopped, SandboxUnavailable
from rbank_es.events import Event, type_of
from rbank_es.loop import closed_loop
from rbank_es.loop.closed_loop import TaskResult, run_closed_loop
from rbank_es.loop.settings import LoopSettings
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.scripted_model import Script
from rbank_es.sandbox.session import EXECUTION_INSTRUCTIONS
from tests.cli_runner import COMMAND, environment, run
from tests.loop.loops import local, source
from tests.sandbox.sandboxes import require_dspy, runtime

require_dspy()

# One worker plays the demo once for all of these.
pytestmark = pytest.mark.xdist_group("lights")

PATIENCE_S = 200
"""For the whole demo on a machine that does other things too; alone it takes a tenth of that."""

TRAP, SAME_KIND = "lights-L4-1", ("lights-L2-1", "lights-L5-1")


class Pool:
    """A place for code to run that starts at once: this process. The code is that of the shipped script."""

    execution_instructions = EXECUTION_INSTRUCTIONS
    unavailable = None

    def __init__(self, *_: object, needed: int | None) -> None:
        pass

    def __call__(self) -> Any:
        return local()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Demo(NamedTuple):
    """The bank after the six tasks, their results by task, and what was said."""

    bank: Bank
    results: dict[str, TaskResult]
    said: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo, played once."""
    runtime()
    settings = LoopSettings(lm=LmChoice(model=f"script:{lights().script}"))
    place, said = tmp_path_factory.mktemp("demo"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with Bank.create(place / "lesson", unsafe_no_sync=True) as bank, pytest.MonkeyPatch.context() as patch:
        patch.setattr("rbank_es.loop.resources.Sandboxes", Pool)
        with redirect_stdout(said):
            result = live_demo.run_tasks(bank, aloud=True)
            live_demo.print_result(result, "lesson")
        results = run_closed_loop(live_demo.scripted_tasks(), bank, settings, source())
        assert {result.how for result in results} == {"known"}
        yield Demo(bank, {result.task: result for result in results}, said.buffer.getvalue().decode())


def events(bank: Bank, kind: str, run: str | None = None) -> list[Any]:
    found: list[Event] = list(bank.events(types={kind}, resolve=True))
    return [event for event in found if run is None or getattr(event, "run", None) == run]


def retrieved(bank: Bank, run: str) -> set[str]:
    return {hit.id for event in events(bank, "memories_retrieved", run) for hit in event.hits}


# ---------------------------------------------------------------- what the loop does with the script


def test_the_script_has_exactly_the_tasks_that_are_named() -> None:
    """Six of the shipped tasks, in the order in which they are to be run, and its first line says what it is."""
    assert [task.id for task in Script.load(lights().script).task] == list(SCRIPTED_TASKS)
    assert len(SCRIPTED_TASKS) == 6 and "scripted" in lights().script.read_text().splitlines()[0]


@pytest.mark.slow
def test_one_task_fails_and_a_check_says_why(demo: Demo) -> None:
    """Only the trap fails; the check suspects why, and the expected answers agree with all verdicts."""
    bank, results, _ = demo
    assert {task for task, result in results.items() if result.verdict == "failure"} == {TRAP}
    assert all(result.outcome == "submitted" and result.scored == result.verdict for result in results.values())
    [verdict] = [each for each in events(bank, "run_judged", results[TRAP].run) if each.purpose == "learning"]
    assert verdict.kind == "lm" and verdict.evidence == ("empty_result",) and verdict.confidence == 0.9


@pytest.mark.slow
def test_a_guardrail_is_learnt_and_given_to_tasks_of_the_same_kind(demo: Demo) -> None:
    """What the failure taught is in the context of later runs that succeed, and of none before."""
    bank, results, _ = demo
    [guardrail] = results[TRAP].added
    item = bank.state().items[guardrail].item
    assert item.polarity == "failure" and item.src == "failure"
    order = list(results)
    for task in order[: order.index(TRAP) + 1]:
        assert guardrail not in retrieved(bank, results[task].run)
    for task in SAME_KIND:
        assert guardrail in retrieved(bank, results[task].run) and results[task].verdict == "success"
        [built] = events(bank, "context_built", results[task].run)
        assert guardrail in built.items


@pytest.mark.slow
def test_strategies_are_learnt_reused_and_not_doubled(demo: Demo) -> None:
    """The first task's strategy is given to the last one; what the fifth teaches again supports what is there."""
    bank, results, _ = demo
    first, *_, fifth, last = results.values()
    strategies = {id for id in first.added if bank.state().items[id].item.src == "success"}
    assert strategies & retrieved(bank, last.run)
    assert set(fifth.supported) & set(results[SAME_KIND[0]].added)


@pytest.mark.slow
def test_all_is_scripted_recorded_and_intact(demo: Demo) -> None:
    """Every run says that it is scripted, every call is in the log, and the bank verifies with its retrievals."""
    bank, results, _ = demo
    assert all(event.scripted for event in events(bank, "run_started"))
    assert {event.model for event in events(bank, "lm_called")} == {"script:lights_script"}
    assert sum(result.lm_calls for result in results.values()) == len(events(bank, "lm_called")) >= 6 * 3
    assert type_of(next(bank.events())) == "bank_created"
    checked = bank.check(retrievals=True)
    assert checked.retrievals is not None and checked.retrievals.checked == 2 * len(SCRIPTED_TASKS)


# ---------------------------------------------------------------- what the demo tells


def check_telling(said: str) -> None:
    """What was learnt and retrieved is named; the bank is compared before and after; a run comes out the same."""
    assert "6 of 6, " in said
    before, after = said.split("Before the lesson", 1)[1].split("Now: position", 1)
    assert "guardrail: Don't ask" in said and "Don't ask" not in before and "Don't ask" in after
    assert ": identical" in after


@pytest.mark.slow
def test_the_demo_names_what_was_learnt_and_compares_before_and_after(demo: Demo) -> None:
    check_telling(demo.said)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("sandbox")
def test_the_demo_in_the_real_sandbox(tmp_path: Path) -> None:
    """The command says what it is, keeps the bank, writes the page; and every run can be run again."""
    here = {"RBANK_CACHE": str(runtime().cache.parent)}
    command = [*COMMAND, "demo", "--into", "./lesson", "-o", "page.html"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(here), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "scripted LM, real sandbox, no model" in said
    check_telling(said)
    assert (tmp_path / "page.html").stat().st_size > 100_000
    again = run("rerun", "./lesson", "--all", "--json", cwd=tmp_path, env=here).json
    assert [each["result"] for each in again["runs"]] == ["identical"] * len(SCRIPTED_TASKS)


# ---------------------------------------------------------------- where the sandbox breaks


@pytest.mark.slow
def test_where_the_sandbox_does_not_start_the_demo_says_so(tmp_path: Path) -> None:
    """Its cache holds other files than those that were released."""
    package = tmp_path / "cache" / "deno" / "npm" / "none" / "pyodide" / runtime().pyodide / "package.json"
    package.parent.mkdir(parents=True)
    package.touch()
    here = {"RBANK_CACHE": str(tmp_path / "cache")}
    refused = run("demo", "--into", "./kept", "-o", "page.html", cwd=tmp_path, env=here, code=2)
    assert "rbank-es doctor --warm" in refused.err and refused.out == ""


def stopping(cause: LmFailed | SandboxUnavailable) -> Callable[..., Any]:
    def stop(*_: object, **__: object) -> None:
        stopped = LoopStopped("lights-L2-2-1", cause.code, str(cause), cause=cause)
        stopped.advice = "The same command goes on from here"
        raise stopped

    return stop


def test_a_sandbox_that_is_lost_amid_the_tasks_is_told_apart_from_other_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that stops for want of a sandbox, after whatever task, is reported as that; other ends as they are."""
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        broken = SandboxUnavailable("broken", "it does not start (gone; twice)", "see: rbank-es doctor")
        monkeypatch.setattr(closed_loop, "run_closed_loop", stopping(broken))
        with pytest.raises(SandboxUnavailable) as caught:
            live_demo.run_tasks(bank, aloud=False)
        assert caught.value is broken
        monkeypatch.setattr(closed_loop, "run_closed_loop", stopping(LmFailed("script_mismatch", "no turn", "mend it")))
        with pytest.raises(LoopStopped) as other:
            live_demo.run_tasks(bank, aloud=False)
        assert "goes on" not in str(other.value), "the next demo has another bank"
