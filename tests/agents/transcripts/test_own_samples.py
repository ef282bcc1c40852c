"""Samples of our own, a few lines each: what a reader says of what agents write besides the samples of their tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rbank_es.agents.transcripts.outcome_evidence import evidence_of
from rbank_es.agents.transcripts.transcript_run import TranscriptRun
from tests.agents.transcripts.sessions import Fields, transcript_runs, write

Told = tuple[str, str, str | None, int]
"""The words of the user, the end, the verdict and the number of calls of a run."""

RED, GREEN = "1 failed in 0.1s", "2 passed in 0.1s"


# ---------------------------------------------------------------- Claude Code


def claude(*lines: Fields) -> list[Fields]:
    around = {"sessionId": "s", "cwd": "/srv", "version": "2.1.332"}
    return [
        {"uuid": f"u{n}", "timestamp": f"2026-11-20T10:00:{n:02d}Z"} | around | line for n, line in enumerate(lines)
    ]


def user(content: Any, **fields: Any) -> Fields:
    return {"type": "user", "message": {"role": "user", "content": content}} | fields


def says(*blocks: Fields, id: str = "m", stop: str | None = None, **fields: Any) -> Fields:
    message = {"id": id, "role": "assistant", "model": "opus", "content": list(blocks), "stop_reason": stop}
    return {"type": "assistant", "message": message} | fields


def bash(command: str, id: str = "t1", **given: Any) -> Fields:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command} | given}


def answer(text: str, id: str = "t1", *, error: bool = False) -> Fields:
    return {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": error}


END = says({"type": "text", "text": "Done."}, id="end", stop="end_turn")
ASK = user("Fix it.")


def ran_in(command: str, output: str, *, error: bool = False, result: Any = None, **given: Any) -> list[Fields]:
    """A turn in which a command ran."""
    ran = user([answer(output, error=error)], **({"toolUseResult": result} if result is not None else {}))
    return claude(ASK, says(bash(command, **given)), ran, END)


CLAUDE: dict[str, tuple[list[Fields], Sequence[Told]]] = {
    "lines of the host are no turns": (
        claude(
            user("<command-name>/clear</command-name>"),
            user("<local-command-stdout></local-command-stdout>"),
            user("Caveat: the messages below", isMeta=True),
            ASK,
            END,
        ),
        [("Fix it.", "done", None, 0)],
    ),
    "words and an image": (
        claude(user([{"type": "text", "text": "Fix it."}, {"type": "image", "source": {"data": "A" * 99}}]), END),
        [("Fix it.", "done", None, 0)],
    ),
    "parallel calls, answered in the other order": (
        claude(
            ASK,
            says(bash("pytest -q", "a"), bash("ls", "b")),
            user([answer("x", "b")]),
            user([answer(GREEN, "a")]),
            END,
        ),
        [("Fix it.", "done", "success", 2)],
    ),
    "a failed command": (
        ran_in("pytest -q", f"Exit code 1\n{RED}", error=True),
        [("Fix it.", "done", "failure", 1)],
    ),
    "a failed command, told by its text alone": (
        ran_in("make test", "nothing", error=True, result="Error: Exit code 2\nmake: *** [test] Error 1"),
        [("Fix it.", "done", "failure", 1)],
    ),
    "a masked exit": (ran_in("pytest -q | tail -1", RED), [("Fix it.", "done", "failure", 1)]),
    "in the background": (ran_in("pytest -q", GREEN, run_in_background=True), [("Fix it.", "done", None, 1)]),
    "a command that was interrupted": (
        ran_in("pytest -q", GREEN, result={"stdout": GREEN, "interrupted": True}),
        [("Fix it.", "done", None, 1)],
    ),
    "words of an agent about tests": (
        claude(ASK, says({"type": "text", "text": "All tests pass: 9 passed in 1s"}, stop="end_turn")),
        [("Fix it.", "done", None, 0)],
    ),
    "tests of another turn, and an end without a word": (
        claude(ASK, says(bash("pytest -q")), user([answer(RED)]), END, user("Thanks!"), says(stop="end_turn", id="z")),
        [("Fix it.", "done", "failure", 1), ("Thanks!", "done", None, 0)],
    ),
    "an error of the provider": (
        claude(ASK, says({"type": "text", "text": "API Error: 529"}, isApiErrorMessage=True)),
        [("Fix it.", "failed", None, 0)],
    ),
    "an error of the provider that was got over": (
        claude(ASK, says({"type": "text", "text": "529"}, isApiErrorMessage=True, id="e"), END),
        [("Fix it.", "done", None, 0)],
    ),
    "interrupted for the tool, then asked again": (
        claude(
            ASK,
            says(bash("pytest -q")),
            user([answer(GREEN)]),
            user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
            user("Do it otherwise."),
            END,
        ),
        [("Fix it.", "interrupted", None, 1), ("Do it otherwise.", "done", None, 0)],
    ),
    "compacted in the middle of a turn": (
        claude(
            ASK,
            says(bash("pytest -q")),
            {"type": "system", "subtype": "compact_boundary", "parentUuid": None},
            user("This session is being continued", isCompactSummary=True),
            user([answer(GREEN)]),
            END,
        ),
        [("Fix it.", "done", "success", 1)],
    ),
    "a sub-agent in the same file": (
        claude(
            ASK,
            user("Look around.", isSidechain=True, agentId="x"),
            says(bash("pytest -q", "s1"), id="s", isSidechain=True, agentId="x"),
            user([answer(GREEN, "s1")], isSidechain=True, agentId="x"),
            says(id="s2", stop="end_turn", isSidechain=True, agentId="x"),
            END,
        ),
        [("Fix it.", "done", None, 0), ("Look around.", "done", "success", 1)],
    ),
    "thoughts, and a tool of the server": (
        claude(
            ASK,
            says({"type": "thinking", "thinking": "Hm.", "signature": "x"}, id="a"),
            says({"type": "server_tool_use", "id": "w", "name": "web_search", "input": {"query": "q"}}, id="b"),
            END,
        ),
        [("Fix it.", "done", None, 1)],
    ),
    "cut off by its length": (
        claude(ASK, says({"type": "text", "text": "Half"}, stop="max_tokens")),
        [("Fix it.", "done", None, 0)],
    ),
    "a summary of another session in front": (
        [{"type": "summary", "summary": "Old", "leafUuid": "l"}, *claude(ASK, END)],
        [("Fix it.", "done", None, 0)],
    ),
    "what the agent still writes": (claude(ASK, says(bash("pytest -q"))), [("Fix it.", "open", None, 1)]),
}

# ---------------------------------------------------------------- Codex


def codex(*lines: tuple[str, Fields], **meta: Any) -> list[Fields]:
    first = ("session_meta", {"id": "t", "cwd": "/srv", "cli_version": "0.171.0"} | meta)
    return [
        {"timestamp": f"2026-11-20T10:00:{n:02d}Z", "type": kind, "payload": payload}
        for n, (kind, payload) in enumerate([first, *lines])
    ]


def event(kind: str, **fields: Any) -> tuple[str, Fields]:
    return "event_msg", {"type": kind} | fields


def item(kind: str, **fields: Any) -> tuple[str, Fields]:
    return "response_item", {"type": kind} | fields


def done(kind: str, **fields: Any) -> tuple[str, Fields]:
    return event("item_completed", turn_id="1", item={"type": kind} | fields)


START, COMPLETE = event("task_started", turn_id="1"), event("task_complete", turn_id="1", last_agent_message="Done.")
ASKED = event("user_message", message="Fix it.")
CALL = item("function_call", name="exec_command", call_id="c", arguments='{"cmd": "pytest -q"}')


def output(given: Any) -> list[Fields]:
    return codex(START, ASKED, CALL, item("function_call_output", call_id="c", output=given), COMPLETE)


CODEX: dict[str, tuple[list[Fields], Sequence[Told]]] = {
    "an exit code in words": (output(f"Process exited with code 1\n{RED}"), [("Fix it.", "done", "failure", 1)]),
    "an exit code as JSON": (
        output(json.dumps({"output": "boom", "metadata": {"exit_code": 1}})),
        [("Fix it.", "done", "failure", 1)],
    ),
    "an object with its success": (output({"content": GREEN, "success": True}), [("Fix it.", "done", "success", 1)]),
    "a process that goes on": (output("Process running with session ID 7\n"), [("Fix it.", "done", None, 1)]),
    "a shell's list of words": (
        codex(
            START,
            ASKED,
            item("local_shell_call", call_id="c", action={"type": "exec", "command": ["bash", "-lc", "pytest -q"]}),
            item("function_call_output", call_id="c", output=f"Exit code: 0\n{GREEN}"),
            COMPLETE,
        ),
        [("Fix it.", "done", "success", 1)],
    ),
    "a tool of one's own": (
        codex(
            START,
            ASKED,
            item("custom_tool_call", name="apply_patch", call_id="p", input="*** Begin Patch"),
            item("custom_tool_call_output", call_id="p", output="ok"),
            COMPLETE,
        ),
        [("Fix it.", "done", None, 1)],
    ),
    "an item alone": (
        codex(
            START,
            done("UserMessage", content=[{"type": "text", "text": "Fix it."}]),
            done("CommandExecution", id="x", command=["pytest"], exit_code=1, status="failed", aggregated_output=RED),
            COMPLETE,
            history_mode="paginated",
        ),
        [("Fix it.", "done", "failure", 1)],
    ),
    "interrupted": (
        codex(START, ASKED, CALL, event("turn_aborted", turn_id="1", reason="interrupted")),
        [("Fix it.", "interrupted", None, 1)],
    ),
    "an error of the provider": (
        codex(START, ASKED, event("error", message="stream disconnected"), COMPLETE),
        [("Fix it.", "failed", None, 0)],
    ),
    "words while it works": (
        codex(START, ASKED, CALL, event("user_message", message="And the docs."), COMPLETE),
        [("Fix it.\n\nAnd the docs.", "done", None, 1)],
    ),
    "an older thread without starts": (
        codex(ASKED, event("agent_message", message="Done."), event("user_message", message="More.")),
        [("Fix it.", "done", None, 0), ("More.", "open", None, 0)],
    ),
    "words of the host for the user's": (
        codex(
            START,
            item("message", role="user", content=[{"type": "input_text", "text": "<environment_context>"}]),
            item("message", role="user", content=[{"type": "input_text", "text": "# AGENTS.md instructions for x"}]),
            ASKED,
            COMPLETE,
        ),
        [("Fix it.", "done", None, 0)],
    ),
    "a turn that was taken back": (
        codex(START, ASKED, COMPLETE, event("thread_rolled_back", num_turns=1)),
        [],
    ),
}

# ---------------------------------------------------------------- trials, chats, Gemini


def step(number: int, source: str, message: str, **fields: Any) -> Fields:
    return {"step_id": number, "source": source, "message": message} | fields


TRAJECTORY = {
    "schema_version": "ATIF-v1.8",
    "session_id": "r",
    "agent": {"name": "mini", "version": "1"},
    "steps": [step(1, "user", "Fix it."), step(2, "agent", "Done.")],
}
PASSED = {"task_name": "a", "trial_name": "a__1", "verifier_result": {"rewards": {"reward": 1.0}}}
TRIALS: dict[str, tuple[Fields, str | None, Told]] = {
    "passed": (PASSED, None, ("Fix it.", "done", "success", 0)),
    "partly": (
        PASSED | {"verifier_result": {"rewards": {"a": 1, "b": 0.5}}},
        None,
        ("Fix it.", "done", "undecided", 0),
    ),
    "a reward in a file": (PASSED | {"verifier_result": None}, "0\n", ("Fix it.", "done", "failure", 0)),
    "no reward": (PASSED | {"verifier_result": None}, None, ("Fix it.", "done", None, 0)),
    "stopped": (PASSED | {"exception_info": {"exception_type": "Timeout"}}, "1", ("Fix it.", "failed", None, 0)),
    "a reward that isn't valid": (PASSED | {"reward_valid": False}, None, ("Fix it.", "failed", None, 0)),
}
CHATS: dict[str, tuple[list[Fields], Sequence[Told]]] = {
    "a call of the older form": (
        [
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": None, "function_call": {"name": "bash", "arguments": '{"cmd": "pytest"}'}},
            {"role": "function", "name": "bash", "content": RED},
            {"role": "assistant", "content": "It fails."},
        ],
        [("Fix it.", "done", "failure", 1)],
    ),
    "a refusal": (
        [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": None, "refusal": "No."}],
        [("Fix it.", "done", None, 0)],
    ),
    "two conversations with the same words": (
        [{"messages": [{"role": "system", "content": s}, {"role": "user", "content": "Hi"}]} for s in ("a", "b")],
        [("Hi", "open", None, 0), ("Hi", "open", None, 0)],
    ),
}


def gemini(*messages: Fields) -> list[Fields]:
    about = {"sessionId": "g", "projectHash": "p", "startTime": "2026-11-20T11:00:00Z"}
    return [about, *({"timestamp": "2026-11-20T11:00:00Z"} | each for each in messages)]


def gemini_call(status: str, text: str) -> Fields:
    result = [{"functionResponse": {"response": {"output": text}}}]
    return {"id": "c", "name": "run_shell_command", "args": {"command": "pytest"}, "status": status, "result": result}


GEMINI: dict[str, tuple[list[Fields], Sequence[Told]]] = {
    name: (
        gemini(
            {"id": "1", "type": "user", "content": [{"text": "Fix it."}]},
            {"id": "2", "type": "gemini", "content": "", "toolCalls": [gemini_call(status, text)]},
            {"id": "3", "type": "gemini", "content": "Done."},
        ),
        [("Fix it.", "done", verdict, 1)],
    )
    for name, status, text, verdict in (
        ("tests that fail", "success", f"Output: {RED}\n{RED}\nExit Code: 1", "failure"),
        ("tests that pass", "success", f"Output:\n{GREEN}", "success"),
        ("a call that was cancelled", "cancelled", GREEN, None),
    )
}

LINES = {
    f"{host}: {name}": sample
    for host, samples in {"claude": CLAUDE, "codex": CODEX, "chat": CHATS, "gemini": GEMINI}.items()
    for name, sample in samples.items()
}


def told(run: TranscriptRun) -> Told:
    found = evidence_of(run)
    return "\n\n".join(run.prompts), run.ending, found.verdict if found else None, len(run.calls)


@pytest.mark.parametrize("name", LINES)
def test_a_reader_says_of_a_sample_what_happened(name: str, tmp_path: Path) -> None:
    lines, expected = LINES[name]
    runs, tally = transcript_runs(write(tmp_path / "a.jsonl", lines))
    assert sorted(map(told, runs), key=str) == sorted(expected, key=str)
    assert not tally.refused and not tally.unknown
    assert len({run.key for run in runs}) == len(runs)


@pytest.mark.parametrize("printed", [0, 9_000, 30_000])
def test_a_commit_is_noted_however_much_was_printed_before(printed: int, tmp_path: Path) -> None:
    lines = ran_in("git add . && git commit -m x", "checked\n" * (printed // 8) + "[main 4f2c1aa] x\n 1 file changed")
    [run], _ = transcript_runs(write(tmp_path / "a.jsonl", lines))
    assert run.commits == ["4f2c1aa"]


@pytest.mark.parametrize("name", TRIALS)
def test_a_trial_is_judged_by_its_reward(name: str, tmp_path: Path) -> None:
    result, reward, expected = TRIALS[name]
    (tmp_path / "agent").mkdir()
    (tmp_path / "verifier").mkdir()
    (tmp_path / "result.json").write_text(json.dumps(result))
    if reward is not None:
        (tmp_path / "verifier" / "reward.txt").write_text(reward)
    (tmp_path / "agent" / "trajectory.json").write_text(json.dumps(TRAJECTORY))
    runs, _ = transcript_runs(tmp_path / "agent" / "trajectory.json")
    assert [*map(told, runs)] == [expected]
