"""The spool of hooks becomes runs: with a transcript or without one, once, whatever is interrupted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank, limits
from rbank_es.agents.spool import Spool
from rbank_es.agents.spool_intake import take_spool_in
from rbank_es.events import Event, MemoriesRetrieved, RunFinished, RunJudged, RunStarted, ToolCalled, type_of
from tests.agents.hook_banks import LESSON, PROMPT, environment, hooked, live_in, sample, spool, taught
from tests.agents.transcripts.sessions import Turn, codex_lines, time_of, write
from tests.cli_runner import run

SESSION = "11111111-0000-4000-8000-000000000001"


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    live_in(monkeypatch, tmp_path)
    return taught(tmp_path / "bank")


def turn(bank: Path, host: str = "claude-code", transcript: str | None = None, **changes: Any) -> str:
    """One turn as a host tells a hook of it; returns what was given at the prompt."""
    names = ["UserPromptSubmit", "PostToolUse", "Stop"]
    names[1:1] = ["PostToolUseFailure"] if host == "claude-code" else []
    given = ""
    for name in names:
        event = sample(f"{host}/{name}") | {"transcript_path": transcript} | changes
        text = hooked(event, bank)
        given = given or text
    return given


def events(bank: Bank, after: int = 0) -> list[Event]:
    return list(bank.events(after=after, resolve=True))


def test_a_spool_alone_gives_the_run_with_its_tools_verdict_and_recall(bank: Path) -> None:
    given = turn(bank, transcript="/gone/session.jsonl")
    with Bank.open(bank) as opened:
        before = opened.position
        taken = take_spool_in(opened)
        found = events(opened, before)
        assert (taken.turns, taken.with_transcript, taken.waiting, taken.dropped) == (1, 0, 0, 0)
        assert [type_of(event) for event in found] == [
            *("run_started", "memories_retrieved", "memories_retrieved", "context_built"),
            *("tool_called", "tool_called", "run_finished", "run_judged"),
        ]
        started, first, _, context, failed, worked, finished, judged = found
        assert isinstance(started, RunStarted) and started.task == PROMPT and started.executor == "claude-code"
        assert isinstance(first, MemoriesRetrieved) and first.as_of == before and first.run == started.run
        assert context.items == (LESSON.id,) and context.texts == (given,)  # type: ignore[attr-defined]
        assert isinstance(failed, ToolCalled) and failed.error_code and isinstance(worked, ToolCalled)
        assert isinstance(finished, RunFinished) and finished.outcome == "submitted" and finished.recall_sent is None
        assert finished.answer == "Fixed; both tests pass."
        assert isinstance(judged, RunJudged) and (judged.kind, judged.verdict) == ("outcome", "success")
        assert opened.check(retrievals=True).retrievals.checked == 2  # type: ignore[union-attr]
        assert spool(bank).look() == [] and take_spool_in(opened).appended == 0


def test_the_same_twice_adds_nothing_and_a_crash_in_between_neither(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn(bank)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with Bank.open(bank) as opened:
        with monkeypatch.context() as patched:
            patched.setattr(Spool, "replace", crash)
            with pytest.raises(KeyboardInterrupt):
                take_spool_in(opened)
        position = opened.position
        turn(bank, session_id="another", prompt_id="p2")
        taken = take_spool_in(opened)
        assert taken.turns == 2 and opened.position == position + taken.appended
        runs = [event.run for event in events(opened) if isinstance(event, RunStarted)]
        assert len(runs) == len(set(runs)) == 2


def test_two_hosts_that_tell_the_same_give_one_run(bank: Path) -> None:
    for name in ("UserPromptSubmit", "PostToolUse", "Stop"):
        for extra in ({}, {"cursor_version": "3"}):
            hooked(sample(f"claude-code/{name}") | extra, bank)
    with Bank.open(bank) as opened:
        before = opened.position
        assert take_spool_in(opened).turns == 1
        assert [type_of(event) for event in events(opened, before)].count("tool_called") == 1


def claude_transcript(place: Path, text: str) -> Path:
    """A transcript of the turn that the samples tell of, with what a hook gave."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    common = {"sessionId": SESSION, "cwd": "/srv/shop", "version": "2.1.332", "isSidechain": False}
    bash = {"type": "tool_use", "id": "toolu_3", "name": "Bash", "input": {"command": "pytest -q"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_3", "content": "2 passed in 0.1s", "is_error": False}
    said = {"type": "text", "text": "Fixed; both tests pass."}
    given = {"type": "hook_additional_context", "content": [text], "hookEvent": "UserPromptSubmit"}
    lines: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": PROMPT}},
        *([{"type": "attachment", "attachment": given}] if text else []),
        {"type": "assistant", "message": {"id": "msg_1", "role": "assistant", "model": "m", "content": [bash]}},
        {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": {"stdout": "2 passed"}},
        {
            "type": "assistant",
            "message": {"id": "m2", "role": "assistant", "model": "m", "content": [said], "stop_reason": "end_turn"},
        },
    ]
    parent = None
    with place.open("w") as file:
        for number, line in enumerate(lines):
            uuid = f"22222222-0000-4000-8000-{number:012d}"
            whole = {"uuid": uuid, "parentUuid": parent, "timestamp": f"{at}.{number:03d}Z", **common, **line}
            file.write(json.dumps(whole) + "\n")
            parent = uuid
    return place


def test_a_transcript_that_is_larger_than_memory_should_hold_is_read_too(
    bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of 500 MB counted as gone: its turn came in by hooks alone, and once more with an import."""
    path = tmp_path / "session.jsonl"
    claude_transcript(path, turn(bank, transcript=str(path)))
    monkeypatch.setattr(limits, "IMPORT_FILE_BYTES", 1_000)
    with Bank.open(bank) as opened:
        taken = take_spool_in(opened)
        assert (taken.turns, taken.with_transcript) == (1, 1) and path.stat().st_size > limits.IMPORT_FILE_BYTES


def test_a_run_that_was_imported_before_is_told_later_that_its_recall_was_not_sent(bank: Path, tmp_path: Path) -> None:
    from rbank_es.exchange import import_paths

    path = tmp_path / "session.jsonl"
    turn(bank, transcript=str(path))
    claude_transcript(path, "")
    with Bank.open(bank) as opened:
        import_paths(opened, [path])
        [before] = opened.runs().rows
        lines = {file: file.read_bytes() for file in spool(bank).folder.iterdir()}
        for _ in range(2):
            take_spool_in(opened)
            [after] = opened.runs().rows
            assert (before.recall_sent, after.recall_sent) == (None, False)
            assert opened.run(after.run).recall_unsent == (LESSON.id,) and after.verdict == before.verdict
            position = opened.position
            for file, data in lines.items():
                file.write_bytes(data)
        take_spool_in(opened)
        assert opened.position == position and import_paths(opened, [path]).appended == 0


def test_a_recall_of_another_log_is_dropped(bank: Path, tmp_path: Path) -> None:
    turn(bank)
    for path in bank.iterdir():
        path.unlink()
    bank.rmdir()
    taught(bank)
    with Bank.open(bank) as opened:
        taken = take_spool_in(opened)
        assert taken.dropped == 1 and "context_built" not in map(type_of, events(opened))


def test_import_and_learn_take_the_spool_in_and_dry_runs_do_not(bank: Path, tmp_path: Path) -> None:
    turn(bank)
    transcript = claude_transcript(tmp_path / "another.jsonl", "")
    run("import", str(bank), str(transcript), "--dry-run", cwd=tmp_path, env=environment())
    said = run("learn", str(bank), "--due", "--dry-run", cwd=tmp_path, env=environment())
    assert "5 lines that hooks spooled would be taken in before" in said.err
    assert len(spool(bank).look()) == 5
    said = run("import", str(bank), str(transcript), cwd=tmp_path, env=environment())
    assert "took in 1 turn that hooks saw" in said.err and spool(bank).look() == []
    assert hooked(sample("codex/UserPromptSubmit"), bank)


def test_what_hooks_just_gave_is_taken_in_before_a_correction_and_told_of_by_impact(bank: Path, tmp_path: Path) -> None:
    turn(bank)
    said = run("impact", str(bank), LESSON.id, cwd=tmp_path, env=environment())
    assert "5 lines that hooks spooled wait: import or learn takes them in" in said.err
    said = run("reject", str(bank), LESSON.id, "--because", "wrong", "--dry-run", cwd=tmp_path, env=environment())
    assert "would be taken in before" in said.err and len(spool(bank).look()) == 5
    said = run("reject", str(bank), LESSON.id, "--because", "wrong", cwd=tmp_path, env=environment())
    assert "had been given what left: 1 run" in said.out and spool(bank).look() == []
    said = run("impact", str(bank), LESSON.id, cwd=tmp_path, env=environment())
    assert "1 run" in said.out and not said.err


ACTS = {
    "reject": ["reject", "BANK", LESSON.id, "--because", "wrong"],
    "retract": ["retract", "BANK", LESSON.id, "--because", "wrong"],
    "restore": ["restore", "BANK", LESSON.id, "--because", "right"],
    "admit": ["admit", "BANK", LESSON.id],
    "undo": ["undo", "BANK", "3", "--because", "a slip"],
    "correct": ["correct", "BANK"],
}


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS)
def test_every_act_of_a_person_takes_the_spool_in_before_and_leaves_models_that_a_hook_can_use(
    bank: Path, tmp_path: Path, act: str
) -> None:
    """Also one that records nothing, whose read models were missing."""
    words = [str(bank) if word == "BANK" else word for word in ACTS[act]]
    turn(bank)
    said = run(*words, "--dry-run", cwd=tmp_path, env=environment())
    assert "would be taken in before" in said.err and len(spool(bank).look()) == 5
    said = run(*words, cwd=tmp_path, env=environment())
    assert "took in 1 turn that hooks saw" in said.err and spool(bank).look() == []
    with Bank.open(bank) as opened:
        opened.read_models().path.unlink()
        position = opened.position
    run(*words, cwd=tmp_path, env=environment())
    with Bank.open(bank) as opened:
        assert opened.position == position
    hooked(sample("claude-code/UserPromptSubmit") | {"session_id": "another"}, bank)
    assert [line["kind"] for line in spool(bank).look()] == ["prompt", "recall"]


def test_a_turn_that_its_user_took_back_is_left_out_of_the_spool_too(bank: Path, tmp_path: Path) -> None:
    lines = codex_lines([Turn(0, (0,), False, False), Turn(1, (0,), False, False)], "thread")
    back = {"timestamp": time_of(99), "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    path = str(write(tmp_path / "rollout.jsonl", [*lines, back]))
    for number in range(2):
        turn(bank, "codex", path, session_id="thread", turn_id=f"turn-{number}", prompt=f"Do {number}.")
    with Bank.open(bank) as opened:
        assert take_spool_in(opened).turns == 1 and spool(bank).look() == []
        assert [each.task for each in events(opened) if isinstance(each, RunStarted)] == ["Do 0."]


HOSTILE = [
    b"{}\nnull\n[]\n\x00\x00\n",
    b'{"v": 1, "id": "x", "kind": "prompt", "session": 7, "prompt": ["a"], "at": "soon"}\n',
    b'{"v": 1, "id": "p", "at": 1e300, "kind": "prompt", "session": "s", "prompt": "do", "key": {}}\n'
    b'{"v": 1, "id": "r", "kind": "recall", "of": "p", "position": 3, "mark": "m", "items": 7, "retrievals": [1]}\n'
    b'{"v": 1, "id": "t", "kind": "tool", "session": "s", "tool": 7, "arguments": [[]], "ms": "x", "result": {}}\n'
    b'{"v": 1, "id": "e", "kind": "stop", "session": "s", "answer": 7}\n',
    b'{"v": 1, "id": "p", "kind": "prompt", "session": "\\ud800", "prompt": "\\ud800\\u0000 do it"}\n',
]


@pytest.mark.parametrize("data", HOSTILE)
def test_a_hostile_spool_is_taken_in_or_left_out_and_ends(bank: Path, data: bytes) -> None:
    hooked(sample("claude-code/Stop"), bank)
    (spool(bank).folder / "spool.jsonl").write_bytes(data)
    with Bank.open(bank) as opened:
        take_spool_in(opened)
        assert spool(bank).look() == []
        opened.check(decisions=True)
