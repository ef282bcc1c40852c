"""The law of hooks: the same work, seen by hooks and recorded by the recorder, gives the same projections."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank, Item
from rbank_es.agents.spool_intake import take_spool_in
from rbank_es.exchange import import_paths
from tests.agents.hook_banks import hooked, live_in, sample, taught, teach
from tests.agents.transcripts.sessions import Fields, write
from tests.effort import examples

PROMPTS = ("Fix the discount rounding.", "Round a discount half up, please", "Translate the letter into Portuguese")
PASSED, FAILED = "2 passed in 0.10s", "Exit code 1\n1 failed, 1 passed in 0.11s"
OTHER = Item.make("Avoid rounding a discount twice", "A discount is rounded once, at the end.", polarity="failure")


class Turn(NamedTuple):
    """A prompt, the outcomes of its test runs in order, the answer, and whether another tool was called."""

    prompt: str
    tests: tuple[bool, ...]
    answer: str
    looked: bool


TURNS = st.lists(
    st.builds(
        Turn,
        st.sampled_from(PROMPTS),
        st.lists(st.booleans(), max_size=3).map(tuple),
        st.sampled_from(["Fixed.", "It can't be done."]),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


class Given(NamedTuple):
    """When a prompt was given to a hook, and what the hook answered."""

    began: datetime
    text: str


def by_hooks(bank: Path, turns: list[Turn], session: str, path: str | None = None) -> list[Given]:
    """Do the work with hooks; returns the time of each prompt, and what was given at it."""
    given = list[Given]()
    for number, turn in enumerate(turns):
        common = {"session_id": session, "prompt_id": f"p{number}", "transcript_path": path or "/gone.jsonl"}
        began, prompt = datetime.now(UTC), {"prompt": turn.prompt}
        given.append(Given(began, hooked(sample("claude-code/UserPromptSubmit") | common | prompt, bank)))
        if turn.looked:
            read = {"tool_name": "Read", "tool_input": {"path": "a.py"}, "tool_response": "x = 1"}
            hooked(sample("claude-code/PostToolUse") | common | read | {"tool_use_id": f"read{number}"}, bank)
        for place, passed in enumerate(turn.tests):
            call = {"tool_use_id": f"t{number}-{place}"}
            told = {"tool_response": {"stdout": PASSED, "stderr": ""}} if passed else {"error": FAILED}
            name = "PostToolUse" if passed else "PostToolUseFailure"
            hooked(sample(f"claude-code/{name}") | common | call | told, bank)
        hooked(sample("claude-code/Stop") | common | {"last_assistant_message": turn.answer}, bank)
    return given


def transcript_of(turns: list[Turn], given: list[Given], session: str) -> list[Fields]:
    """The lines of Claude Code's transcript of the work, with what hooks gave."""
    lines = list[Fields]()

    def add(kind: str, **fields: Any) -> None:
        at = (began + timedelta(milliseconds=len(lines))).isoformat()
        lines.append({"type": kind, "uuid": f"u{len(lines)}", "sessionId": session, "timestamp": at, **fields})

    def say(id: str, block: Fields, stop: str = "tool_use") -> None:
        message = {"id": id, "role": "assistant", "model": "m", "content": [block], "stop_reason": stop}
        add("assistant", message=message)

    def call(id: str, name: str, arguments: Fields, result: str, *, failed: bool = False) -> None:
        say(f"m-{id}", {"type": "tool_use", "id": id, "name": name, "input": arguments})
        answer = {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}
        add("user", message={"role": "user", "content": [answer]})

    for number, turn in enumerate(turns):
        began, text = given[number]
        add("user", message={"role": "user", "content": turn.prompt})
        context = {"type": "hook_additional_context", "content": [text], "hookEvent": "UserPromptSubmit"}
        if text:
            add("attachment", attachment=context)
        if turn.looked:
            call(f"read{number}", "Read", {"path": "a.py"}, "x = 1")
        for place, passed in enumerate(turn.tests):
            told = PASSED if passed else FAILED
            call(f"t{number}-{place}", "Bash", {"command": "pytest -q"}, told, failed=not passed)
        say(f"end{number}", {"type": "text", "text": turn.answer}, "end_turn")
    return lines


def by_recorder(bank: Bank, turns: list[Turn]) -> None:
    for turn in turns:
        with bank.record(turn.prompt, executor="claude-code") as run:
            run.recall()
            if turn.looked:
                run.tool("Read", {"path": "a.py"}, "x = 1")
            for passed in turn.tests:
                run.tool("Bash", {"command": "pytest -q"}, PASSED if passed else None, error=None if passed else FAILED)
            run.finish(turn.answer)
        if turn.tests:
            run.judge(turn.tests[-1], by="tests")


def projected(bank: Bank) -> dict[str, Any]:
    """What read models say of runs, items and leakage, without ids, times and positions."""
    told = ("task", "executor", "outcome", "answer", "verdict", "judge", "kind")
    counted = ("items_injected", "total_chars_returned", "max_single_return", "tool_calls")
    bank.project()
    with bank.as_of() as view:
        return {
            "runs": sorted(map(repr, view.pick("runs", told))),
            "leakage": sorted(map(repr, view.pick("leakage_by_run", counted))),
            "usage": view.usage(),
        }


@settings(max_examples=examples(20))
@given(TURNS)
def test_the_same_work_by_hooks_and_by_the_recorder_gives_the_same_projections(turns: list[Turn]) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        home = live_in(patch, Path(folder))
        one = taught(home / "one")
        with Bank.open(one) as opened:
            teach(opened, OTHER)
        shutil.copytree(one, home / "two")
        by_hooks(one, turns, "s")
        with Bank.open(one) as hooks, Bank.open(home / "two") as recorded:
            assert take_spool_in(hooks).turns == len(turns)
            by_recorder(recorded, turns)
            assert projected(hooks) == projected(recorded)
            assert take_spool_in(hooks).appended == 0


@settings(max_examples=examples(8))
@given(TURNS)
def test_with_a_transcript_too(turns: list[Turn]) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        home = live_in(patch, Path(folder))
        one = taught(home / "one")
        shutil.copytree(one, home / "two")
        path = home / "session.jsonl"
        given = by_hooks(one, turns, "s", str(path))
        write(path, transcript_of(turns, given, "s"))
        with Bank.open(one) as hooks, Bank.open(home / "two") as recorded:
            taken = take_spool_in(hooks)
            assert (taken.turns, taken.with_transcript) == (len(turns), len(turns))
            by_recorder(recorded, turns)
            assert projected(hooks) == projected(recorded)
            sent = [row.recall_sent for row in hooks.runs().rows]
            assert sent.count(True) == sum(bool(each.text) for each in given) and False not in sent
            assert import_paths(hooks, [path]).appended == take_spool_in(hooks).appended == 0
