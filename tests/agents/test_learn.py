"""`bank.learn`: lessons from judged runs by any function that asks a model, and why there are none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.bank.agent_run import AgentRun
from rbank_es.bank.run_locks import FOLDER
from rbank_es.errors import BadInput, Notice, NotInBank
from rbank_es.events import RunStarted

TASK = "Which lamps are lit?"
LESSON = {
    "title": "Look at every lamp",
    "description": "Which lamps?",
    "content": "Look at each lamp before you answer.",
}
REPLY = json.dumps({"memory_items": [LESSON]})


def judged(bank: Bank, verdict: Any = False, reason: str = "the porch's is lit, too", answer: str = "hall") -> AgentRun:
    with bank.record(TASK) as run:
        run.finish(answer)
    run.judge(verdict, by="tests", reason=reason)
    return run


def test_without_a_run_all_that_are_due_teach_and_only_once() -> None:
    with Bank.create("memory:") as bank:
        runs = [judged(bank), judged(bank, verdict=True)]
        judged(bank, verdict="undecided")
        assert {each.runs for each in bank.learn(complete=lambda prompt: REPLY).lessons} == {(run.id,) for run in runs}
        position = bank.position
        assert bank.learn(complete=lambda prompt: REPLY).lessons == () and bank.position == position
        again = bank.learn(runs[0].id, complete=lambda prompt: REPLY)
        assert again.lessons == () and [each.run for each in again.left] == [runs[0].id]
        assert again.reasons == (
            f"{runs[0].id}: something was drawn from it or its group already, under the verdict that stands",
        )


def test_a_reply_without_a_lesson_says_why_and_leaves_the_run_due() -> None:
    with Bank.create("memory:") as bank:
        run = judged(bank)
        with pytest.warns(Notice, match=f"nothing was learned from {run.id}: .* answers held no list of items"):
            learned = bank.learn(run, complete=lambda prompt: "I would rather talk about the weather.")
        assert learned.titles == () and learned.lessons[0].code == "malformed"
        assert learned.reasons == (f"{run.id}: {learned.lessons[0].reason}",)
        assert bank.learn(run, complete=lambda prompt: REPLY).titles == (LESSON["title"],)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda bank, run: bank.learn(run), BadInput, "either complete, a function"),
        (lambda bank, run: bank.learn(run, complete=str, lm="openai/x"), BadInput, "either complete, a function"),
        (lambda bank, run: bank.learn("nobody", complete=str), NotInBank, "nobody"),
    ],
)
def test_what_can_not_be_asked_is_refused_and_nothing_is_recorded(
    ask: Callable[[Bank, AgentRun], object], error: type[Exception], message: str
) -> None:
    with Bank.create("memory:") as bank:
        run, position = judged(bank), bank.position
        with pytest.raises(error, match=message):
            ask(bank, run)
        assert bank.position == position


def test_a_run_that_nobody_decided_about_teaches_nothing() -> None:
    with Bank.create("memory:") as bank:
        with bank.record(TASK) as run:
            run.finish("hall")
        with pytest.raises(BadInput, match=f"the run {run.id} was not judged"):
            bank.learn(run, complete=lambda prompt: REPLY)
        run.judge("undecided", by="tests")
        with pytest.raises(BadInput, match=f"the run {run.id} is undecided"):
            bank.learn(run, complete=lambda prompt: REPLY)


def test_a_script_answers_in_the_place_of_a_model(tmp_path: Path) -> None:
    script = tmp_path / "lessons.toml"
    script.write_text(
        '[[task]]\nid = "*"\n[[task.extractor]]\n[[task.extractor.fields.memory_items]]\n'
        + "\n".join(f"{name} = {json.dumps(words)}" for name, words in LESSON.items())
    )
    with Bank.create("memory:") as bank:
        assert bank.learn(judged(bank), lm=f"script:{script}").titles == (LESSON["title"],)


def test_runs_of_killed_processes_are_closed_before_anything_is_learned(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank") as bank:
        run = judged(bank)
        left, folder = f"run-{'a' * 16}", bank.log.derived_directory / FOLDER
        # As a killed process leaves it: begun, and its mark without a lock.
        with bank.record("x") as other:
            (folder / left).write_bytes((folder / other.id).read_bytes())
            other.finish()
        bank.append(RunStarted(run=left, task=TASK))
        bank.learn(run, complete=lambda prompt: REPLY)
        assert bank.run(left).run.error_code == "process_ended"


LIGHT = """
import sys
from rbank_es import Bank
with Bank.create("memory:") as bank:
    with bank.record("t") as run:
        run.recall()
        run.finish("a")
    run.judge(False, by="tests")
    heavy = ("dspy", "httpx", "numpy", "pyoxigraph", "rdflib", "sqlite_utils", "rbank_es.executors", "rbank_es.sandbox")
    assert not set(heavy) & set(sys.modules), set(heavy) & set(sys.modules)
    bank.learn(run, complete=lambda prompt: "nothing")
    assert not set(heavy) & set(sys.modules), set(heavy) & set(sys.modules)
"""


@pytest.mark.slow
def test_a_recorder_and_learning_load_no_extra_and_no_sandbox() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
