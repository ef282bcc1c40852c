"""The closed loop: what a bank learns task by task, and that it goes on where it was interrupted, wherever that was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LmFailed, LoopStopped
from rbank_es.events import (
    ContextBuilt,
    LmCalled,
    MemoriesExtracted,
    MemoriesRetrieved,
    OntologyRegistered,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.run_events import Trial
from rbank_es.executors.executor import EXECUTORS
from rbank_es.loop import LoopSettings, Task, run_closed_loop
from rbank_es.loop.closed_loop import ClosedLoop
from rbank_es.loop.resources import LoopResources
from rbank_es.loop.tasks import suite_digest
from rbank_es.models.model_choice import LmChoice
from rbank_es.policies.admission import PROPOSED_BY
from tests.loop.loops import (
    HEIGHT,
    SCRIPT,
    TASKS,
    CutOff,
    cut_off,
    learnt,
    local,
    looped,
    quick,
    scripted,
    source,
    summary,
    told,
)
from tests.rerun.banks import quick_code, reruns
from tests.sandbox.sandboxes import require_dspy

require_dspy()

Kind = TypeVar("Kind")


def of_type(bank: Bank, kind: type[Kind]) -> list[Kind]:
    return [event for event in bank.events(resolve=True) if isinstance(event, kind)]


def is_done(bank: Bank, settings: LoopSettings) -> bool:
    """Whether a loop would ask nothing more for the first task."""
    return ClosedLoop(LoopResources(bank, settings, source())).is_done(TASKS[0])


# ---------------------------------------------------------------- what it does


@pytest.mark.slow
def test_what_a_failure_taught_reaches_the_next_task(tmp_path: Path) -> None:
    """The first task fails and teaches a guardrail; the second gets it in its context, and succeeds."""
    with quick(tmp_path / "bank") as bank:
        first, second = looped(bank, scripted(tmp_path))
        assert (first.verdict, first.scored, first.how) == ("failure", "failure", "ran")
        assert (second.verdict, second.scored) == ("success", "success")
        [guardrail] = first.added
        contexts = of_type(bank, ContextBuilt)
        assert contexts[0].items == () and contexts[1].items == (guardrail,)
        assert [end.recall_sent for end in of_type(bank, RunFinished)] == [None, True]
        assert learnt(bank)["A tower's height is not the light's"] == ("failure", 1)
        assert learnt(bank)["Ask for the focal height of a light by its name"] == ("success", 1)
        bank.check(retrievals=True)


@pytest.mark.slow
def test_a_run_names_its_task_suite_and_trial_and_a_score_its_suite(tmp_path: Path) -> None:
    """The verdict for learning names none: it doesn't come from the right answer."""
    suite, trial = suite_digest(TASKS), Trial(experiment="E9", condition="append", order=1, repetition=2)
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path), TASKS[:1], suite=suite, trial=trial, interpreters=quick_code)
        [started] = of_type(bank, RunStarted)
        assert (started.task_id, started.suite, started.trial) == ("height", suite, trial) and not started.simulated
        suites = {judged.purpose: judged.suite for judged in of_type(bank, RunJudged)}
        assert suites == {"learning": None, "scoring": suite}
        assert all(each.identical for each in reruns(bank))


@pytest.mark.slow
def test_with_leave_one_out_a_run_gets_nothing_that_its_own_task_taught(tmp_path: Path) -> None:
    """Neither in its context nor by its tools; the lessons of other tasks it gets."""
    settings = scripted(tmp_path, leave_one_out=True, mode="both")
    with quick(tmp_path / "bank") as bank:
        first, other = looped(bank, settings, interpreters=quick_code)
        [guardrail] = first.added
        looped(bank, settings, TASKS[:1], again=True, interpreters=quick_code)
        given = [context.items for context in of_type(bank, ContextBuilt)]
        assert given[:2] == [(), (guardrail,)] and given[2] and {*given[2]} <= {*other.added}
        assert {event.without_task for event in of_type(bank, MemoriesRetrieved)} == {"height", "again"}
        assert bank.check(retrievals=True).retrievals.checked == len(of_type(bank, MemoriesRetrieved))
        assert all(each.identical for each in reruns(bank))
        with LoopResources(bank, settings, source()) as resources:
            box = resources.tools("by hand", TASKS[0])
            assert {hit["id"] for hit in box.call("mem_search", {"q": "focal height light"})["hits"]} == {*other.added}
            assert "this very task" in str(box.call("mem_get", {"ids": guardrail}))


@pytest.mark.slow
def test_a_run_is_given_what_fits_the_level_of_its_task_where_the_policy_says_so(tmp_path: Path) -> None:
    """In its context and by its tools; recorded in every search, so that it is found again and run again the same."""
    tasks = tuple(msgspec.structs.replace(task, level=level) for task, level in zip(TASKS, (3, 1), strict=True))
    unled = "".join(line for line in SCRIPT.splitlines(keepends=True) if not line.startswith("expects"))
    settings = scripted(tmp_path, unled, mode="both")
    with quick(tmp_path / "bank") as bank:
        bank.set_policies({"retrieval": {"levels": "up_to"}})
        harder, easier = looped(bank, settings, tasks, interpreters=quick_code)
        [guardrail] = harder.added
        hard = msgspec.structs.replace(TASKS[1], level=3)
        looped(bank, settings, [hard], again=True, interpreters=quick_code)
        given = {run.run: run.level for run in of_type(bank, RunStarted)}
        contexts = of_type(bank, ContextBuilt)
        assert easier.added and all(guardrail not in each.items for each in contexts if given[each.run] == 1)
        assert any(guardrail in each.items for each in contexts if given[each.run] == 3)
        assert all(event.level == given[str(event.run)] for event in of_type(bank, MemoriesRetrieved))
        assert bank.check(retrievals=True).retrievals.checked == len(of_type(bank, MemoriesRetrieved))
        assert all(each.identical for each in reruns(bank, tasks=tasks))
        with LoopResources(bank, settings, source()) as resources:
            for task in tasks:
                hits = resources.tools(f"by hand {task.id}", task).call("mem_search", {"q": "focal height light"})
                assert (guardrail in {hit["id"] for hit in hits["hits"]}) is (task.level == 3)


def test_the_memory_graph_and_leave_one_out_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the memory graph shows every item"):
        scripted(tmp_path, leave_one_out=True, memory_graph=True)


@pytest.mark.slow
def test_what_tools_proposed_in_a_success_becomes_an_item_and_in_a_failure_does_not(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path))
        proposed = [event for event in of_type(bank, MemoriesExtracted) if event.extractor in PROPOSED_BY]
        assert [len(event.heads) for event in proposed] == [0, 1]
        assert isinstance(proposed[0].reason, str) and proposed[0].reason.startswith("judged_a_failure")


def test_the_right_answer_teaches_only_where_that_is_chosen(tmp_path: Path) -> None:
    """Supervised, the gold check decides for learning as well, and no model is asked."""
    with quick(tmp_path / "bank") as bank:
        [result] = looped(bank, scripted(tmp_path, supervised=True), TASKS[:1])
        assert result.verdict == "failure" and "right one" in result.reason
        assert "judge" not in {event.role for event in of_type(bank, LmCalled)}


REACT = f"""\
[[task]]
id = "again"
[[task.agent]]
fields = {{ next_thought = "Ask.", next_tool_name = "sparql_query", next_tool_args = {{ query = {HEIGHT!r} }} }}
[[task.agent]]
fields.next_thought = "Done."
fields.next_tool_name = "SUBMIT"
fields.next_tool_args = {{ answer = "45 metres", sparql = {HEIGHT!r} }}
[[task.judge]]
fields = {{ success = true, reason = "It is." }}
[[task.extractor]]
fields = {{ memory_items = [], why_none = "nothing new" }}
"""


NATIVE = f"""\
[[task]]
id = "again"
[[task.agent]]
reasoning = "Ask."
calls = [{{ tool = "sparql_query", args = {{ query = {HEIGHT!r} }} }}]
[[task.agent]]
calls = [{{ tool = "SUBMIT", args = {{ answer = "45 metres", sparql = {HEIGHT!r} }} }}]
[[task.judge]]
fields = {{ success = true, reason = "It is." }}
[[task.extractor]]
fields = {{ memory_items = [], why_none = "nothing new" }}
"""
OF_ANOTHER_FORM = {"react": REACT, "tools": NATIVE}
"""Scripts of executors whose agent writes no code."""


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS.names())
def test_each_executor_runs_in_the_same_loop(tmp_path: Path, executor: str) -> None:
    free = SCRIPT.replace('expects = ["Use lt:focalHeight for heights"]', "")
    settings = scripted(tmp_path, OF_ANOTHER_FORM.get(executor, free), executor=executor)
    with quick(tmp_path / "bank") as bank:
        [result] = looped(bank, settings, TASKS[1:])
        assert (result.outcome, result.verdict, result.scored, result.answer) == (
            "submitted",
            "success",
            "success",
            "45 metres",
        )
        assert result.added and of_type(bank, RunStarted)[0].executor == executor


# ---------------------------------------------------------------- not twice


@pytest.mark.slow
def test_a_task_is_repeated_when_asked_for_or_under_other_settings_or_in_other_words(tmp_path: Path) -> None:
    free = SCRIPT.replace('expects = ["Use lt:focalHeight for heights"]', "")
    settings = scripted(tmp_path, free)
    with quick(tmp_path / "bank") as bank:
        looped(bank, settings, TASKS[:1])
        [again] = looped(bank, settings, TASKS[:1], again=True)
        [other] = looped(bank, scripted(tmp_path, free, iterations=9), TASKS[:1])
        [reworded] = looped(bank, settings, [msgspec.structs.replace(TASKS[0], question="And how high is it?")])
        assert [again.how, other.how, reworded.how] == ["ran"] * 3
        assert len({event.run for event in of_type(bank, RunStarted)}) == 4
        assert again.run.endswith("-2")


# ---------------------------------------------------------------- interrupted anywhere


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, list[object], dict[str, object], list[object]]:
    """A loop that nobody interrupts: its groups, results, items, and what its bank tells."""
    place = tmp_path_factory.mktemp("whole")
    with quick(place / "bank") as bank:
        counted = cut_off(bank, 10_000)
        results = looped(counted, scripted(place))
        return counted.log.count, [*summary(results)], {**learnt(bank)}, [*told(bank)]  # type: ignore[attr-defined]


GROUPS = 22
"""Groups of the loop of these tests."""


QUICK = {("killed", 1), ("killed", 7), ("killed", 13), ("killed", GROUPS - 1), ("interrupted", 8), ("interrupted", 12)}
"""Cuts of both ways, at groups of all stages. The others are slow only for being many."""
CUTS = [
    pytest.param(after, way == "killed", id=f"{way}-{after}", marks=() if (way, after) in QUICK else pytest.mark.slow)
    for way in ("killed", "interrupted")
    for after in range(1, GROUPS + 1)
]


@pytest.mark.slow
@pytest.mark.parametrize(("after", "dead"), CUTS)
def test_a_loop_that_is_resumed_leaves_the_bank_that_it_would_have_left(
    tmp_path: Path, whole: tuple[int, list[object], dict[str, object], list[object]], after: int, dead: bool
) -> None:
    """Cut off after each group: by a kill, after which nothing is written; by Ctrl-C, which still closes the run."""
    settings, place = scripted(tmp_path), tmp_path / "bank"
    error: Callable[[], BaseException] = CutOff if dead else KeyboardInterrupt
    with quick(place) as bank, pytest.raises(error):  # type: ignore[arg-type]
        looped(cut_off(bank, after, error, dead=dead), settings)
    with Bank.open(place) as bank:
        assert whole[0] == GROUPS
        bank.check()
        results = looped(bank, settings)
        bank.check(retrievals=True)
        assert summary(results) == whole[1]
        assert learnt(bank) == whole[2]
        assert told(bank) == whole[3]
        ended = [event.run for event in of_type(bank, RunFinished)]
        assert len(ended) == len(set(ended)) == len(of_type(bank, RunStarted))


def test_a_run_that_was_judged_is_learnt_from_without_being_run_again(tmp_path: Path) -> None:
    """Only the extractor is asked after the cut."""
    settings, place = scripted(tmp_path), tmp_path / "bank"
    with quick(place) as bank:
        looped(bank, msgspec.structs.replace(settings, extract=False), TASKS[:1])
    with quick(tmp_path / "cut") as bank, pytest.raises(CutOff):
        looped(cut_off(bank, 9), settings, TASKS[:1])
    with Bank.open(tmp_path / "cut") as bank:
        before = bank.position
        assert len(of_type(bank, RunFinished)) == 1 and not is_done(bank, settings)
        [result] = looped(bank, settings, TASKS[:1])
        assert is_done(bank, settings)
        asked = [event.role for event in bank.events(after=before) if isinstance(event, LmCalled)]
        assert result.how == "continued" and "agent" not in asked and result.candidates == 1


# ---------------------------------------------------------------- what stops it, and what doesn't


@pytest.mark.slow
def test_a_run_that_fails_of_what_all_would_fail_of_stops_the_loop(tmp_path: Path) -> None:
    """A script that reality departs from: the run is closed, and no other is begun; mended, it goes on."""
    settings = scripted(tmp_path, SCRIPT.replace('["Use lt:focalHeight for heights"]', '["What is not there"]'))
    with quick(tmp_path / "bank") as bank:
        with pytest.raises(LoopStopped, match="script_mismatch.*goes on from here") as caught:
            looped(bank, settings)
        assert caught.value.code == "script_mismatch" and caught.value.run.startswith("again-")
        ends = of_type(bank, RunFinished)
        assert [end.error_code for end in ends] == [None, "script_mismatch"]
        bank.check(retrievals=True)
        results = looped(bank, scripted(tmp_path))
        assert [each.how for each in results] == ["known", "ran"] and results[1].verdict == "success"


@pytest.mark.slow
def test_an_extractor_that_gave_no_answer_is_asked_again_and_proposals_are_kept_once(tmp_path: Path) -> None:
    """The query that was submitted is an item at once; what the model says of the run comes when it is resumed."""
    free = SCRIPT.replace('expects = ["Use lt:focalHeight for heights"]', "")
    title = "Ask for the focal height of a light by its name"
    at = free.rindex("[[task.extractor]]")
    silent = free[:at] + '[[task.extractor]]\nerror = "timeout"\n'
    with quick(tmp_path / "bank") as bank:
        [first] = looped(bank, scripted(tmp_path, silent), TASKS[1:], interpreters=quick_code)
        assert len(first.added) == 1 and title not in learnt(bank)
        [resumed] = looped(bank, scripted(tmp_path, free), TASKS[1:], interpreters=quick_code)
        assert resumed.how == "continued" and learnt(bank)[title] == ("success", 1)
        proposed = [event for event in of_type(bank, MemoriesExtracted) if event.extractor in PROPOSED_BY]
        assert len(proposed) == 1 and {support for _, support in learnt(bank).values()} == {1}
        [known] = looped(bank, scripted(tmp_path, free), TASKS[1:], interpreters=quick_code)
        assert known.how == "known"
        [again] = reruns(bank)
        assert again.difference is None


def test_an_unusable_model_is_told_before_anything_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = msgspec.structs.replace(scripted(tmp_path), lm=LmChoice(model="openai/gpt-4.1-mini"))
    with quick(tmp_path / "bank") as bank:
        before = bank.position
        with pytest.raises(LmFailed, match="OPENAI_API_KEY"):
            looped(bank, settings)
        with pytest.raises(BadInput, match="can't be read"):
            looped(bank, msgspec.structs.replace(settings, lm=LmChoice(model=f"script:{tmp_path}/none.toml")))
        assert bank.position == before


def test_tasks_that_can_not_be_told_apart_or_are_about_something_else_are_refused(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        before = bank.position
        with pytest.raises(BadInput, match="more than one task"):
            looped(bank, scripted(tmp_path), [TASKS[0], TASKS[0]])
        with pytest.raises(BadInput, match="about kilns"):
            looped(bank, scripted(tmp_path), [Task(id="a", question="?", ontology="kilns")])
        assert bank.position == before and looped(bank, scripted(tmp_path), []) == []


def test_one_loop_at_a_time_under_the_same_settings(tmp_path: Path) -> None:
    """Two processes would each take the other's run for one that was cut off."""
    settings, refusals = scripted(tmp_path), []

    def on_task(*_: object) -> None:
        code = (
            "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR)\n"
            "try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
            "except BlockingIOError: sys.exit(3)"
        )
        lock = tmp_path / "bank" / f"loop-{settings.digest[:16]}.lock"
        refusals.append(subprocess.run([sys.executable, "-c", code, str(lock)], check=False).returncode)
        with Bank.open(tmp_path / "bank") as other, pytest.raises(BadInput, match="another process"):
            looped(other, settings, TASKS[:1])

    with quick(tmp_path / "bank") as bank:
        looped(bank, settings, TASKS[:1], on_task=on_task)
    assert refusals == [3]


def test_the_agents_process_gets_no_commit_where_the_code_is_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbank_es.loop import resources

    resources.code_commit.cache_clear()
    monkeypatch.setenv("PATH", os.devnull)
    assert resources.code_commit() is None
    resources.code_commit.cache_clear()


def test_a_loop_may_ask_nothing(tmp_path: Path) -> None:
    """Without a source there are no query tools, no sense card and no grounding; the rest is the same."""
    plain = """\
[[task]]
id = "*"
[[task.agent]]
reasoning = "I know."
code = "SUBMIT(answer='four', sparql='', evidence={})"
[[task.judge]]
fields = { success = true, reason = "It is." }
[[task.extractor]]
fields = { memory_items = [], why_none = "nothing new" }
"""
    with quick(tmp_path / "bank") as bank:
        [result] = run_closed_loop(
            [Task(id="sum", question="What is two and two?")], bank, scripted(tmp_path, plain), interpreters=local
        )
        assert (result.answer, result.candidates) == ("four", 0)
        assert of_type(bank, OntologyRegistered) == []
    assert source().id == "lights"


def test_a_key_in_a_question_is_in_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMP_API_KEY", "held-1234567890")
    task = Task(id=TASKS[0].id, question=f"{TASKS[0].question} held-1234567890")
    with Bank.create(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path), [task])
        assert of_type(bank, RunStarted)[0].task == f"{TASKS[0].question} [key]"
    assert all(b"held-1234567890" not in path.read_bytes() for path in (tmp_path / "bank").rglob("*") if path.is_file())


def test_a_model_whose_lessons_can_not_be_read_is_told_of_in_the_result(tmp_path: Path) -> None:
    """Nothing of it reaches the bank, and whoever reads the summary sees why there is nothing new."""
    extractor = SCRIPT[SCRIPT.index("[[task.extractor]]") : SCRIPT.index('[[task]]\nid = "again"')]
    prose = '[[task.extractor]]\ntext = "I don\'t know."\n\n' * 3
    with Bank.create(tmp_path / "bank") as bank:
        [result] = looped(bank, scripted(tmp_path, SCRIPT.replace(extractor, prose)), TASKS[:1])
        assert result.added == () and bank.replay().state.items == {}
    [note] = result.notes
    assert note.startswith("nothing was learned from it (malformed: ")


def test_no_key_gets_into_the_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the environment, though the model says it."""
    secret = "verysecretvalue-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    leaky = SCRIPT.replace("That is the height of the building.", f"The key is {secret}.")
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path, leaky))
        assert of_type(bank, LmCalled)
    for path in (tmp_path / "bank").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_nothing_is_learnt_where_the_judge_fails(tmp_path: Path) -> None:
    """Its model gives no reply: no verdict, no extraction; the loop goes on, and says so."""
    broken = SCRIPT.replace(
        'fields = { success = false, reason = "That is the height of the building." }',
        'error = "timeout"\n[[task.judge]]\nerror = "timeout"\n[[task.judge]]\nerror = "timeout"',
    ).replace('expects = ["Use lt:focalHeight for heights"]', "")
    with quick(tmp_path / "bank") as bank:
        first, second = looped(bank, scripted(tmp_path, broken))
        assert first.verdict is None and first.scored == "failure" and first.candidates == 0
        assert any("no verdict" in note for note in first.notes)
        assert second.verdict == "success" and second.added
        assert {run for event in of_type(bank, MemoriesExtracted) for run in event.runs} == {second.run}
