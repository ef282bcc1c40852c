"""Generated sessions of agents: turns as the lines of a transcript, and the ways in which hosts write them again."""

import json
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from rbank_es.agents.transcripts.transcript_importers import streamed_runs
from rbank_es.agents.transcripts.transcript_lines import LineTally
from rbank_es.agents.transcripts.transcript_run import TranscriptRun

Fields = dict[str, Any]


class Turn(NamedTuple):
    """A turn: its commands with their exit codes, whether two calls share a message, and how it ends."""

    number: int
    codes: tuple[int, ...]
    shared: bool
    interrupted: bool


turns = st.lists(
    st.tuples(st.lists(st.sampled_from([0, 1]), max_size=3), st.booleans(), st.booleans()), min_size=1, max_size=4
).map(lambda drawn: [Turn(number, tuple(codes), *rest) for number, (codes, *rest) in enumerate(drawn)])


def time_of(number: int) -> str:
    """A time, later for a higher number."""
    return f"2026-11-{1 + number // 1440:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00.000Z"


def uuid_of(number: int) -> str:
    return str(UUID(int=number))


def claude_lines(of: list[Turn], session: str = "s", first: int = 0) -> list[Fields]:
    """The lines of a Claude Code session with these turns. `first` makes the times and ids those of another session."""
    lines: list[Fields] = []

    def add(**fields: Any) -> None:
        number = first + len(lines)
        around = {"sessionId": session, "cwd": "/srv/shop", "version": "2.1.332", "isSidechain": False}
        lines.append({"uuid": uuid_of(number), "timestamp": time_of(number), **around, **fields})

    def say(id: str, *blocks: Fields, stop: str | None = "tool_use") -> None:
        usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7}
        for block in blocks:
            told = {
                "id": id,
                "role": "assistant",
                "model": "m",
                "content": [block],
                "usage": usage,
                "stop_reason": stop,
            }
            add(type="assistant", message=told)

    for turn in of:
        name = f"{first}-{turn.number}"
        add(type="user", message={"role": "user", "content": f"Do {name}."})
        for index, code in enumerate(turn.codes):
            message = f"msg_{name}" if turn.shared else f"msg_{name}_{index}"
            say(
                message,
                {"type": "tool_use", "id": f"toolu_{name}_{index}", "name": "Bash", "input": {"command": "pytest"}},
            )
            text = "2 passed in 0.1s" if code == 0 else "Exit code 1\n1 failed in 0.1s"
            result = {
                "type": "tool_result",
                "tool_use_id": f"toolu_{name}_{index}",
                "content": text,
                "is_error": code != 0,
            }
            add(type="user", message={"role": "user", "content": [result]})
        if turn.interrupted:
            add(
                type="user",
                message={"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
            )
        else:
            say(f"msg_{name}_end", {"type": "text", "text": f"Done {name}."}, stop="end_turn")
    return lines


def boundaries(lines: list[Fields]) -> list[int]:
    """The places between turns."""
    starts = [number for number, line in enumerate(lines) if is_prompt(line)]
    return [*starts[1:], len(lines)]


def is_prompt(line: Fields) -> bool:
    return line["type"] == "user" and isinstance(line["message"]["content"], str) and not line.get("isCompactSummary")


def forked(lines: list[Fields], session: str) -> list[Fields]:
    """The lines as a fork writes them: fresh uuids, another session, a pointer to the line that each was."""
    pointers = [{"forkedFrom": {"sessionId": line["sessionId"], "messageUuid": line["uuid"]}} for line in lines]
    fresh = [{"uuid": f"f{number}", "sessionId": session} for number in range(len(lines))]
    return [line | own | pointer for line, own, pointer in zip(lines, fresh, pointers, strict=True)]


COMPACTED: list[Fields] = [
    {"type": "system", "subtype": "compact_boundary", "uuid": "c1", "sessionId": "s", "parentUuid": None},
    {
        **{"type": "user", "uuid": "c2", "sessionId": "s", "isCompactSummary": True, "timestamp": time_of(9)},
        "message": {"role": "user", "content": "This session is being continued."},
    },
]


def codex_lines(of: list[Turn], thread: str = "t") -> list[Fields]:
    """The lines of a Codex thread with these turns, in the legacy form."""
    lines: list[Fields] = []

    def add(kind: str, /, **payload: Any) -> None:
        lines.append({"timestamp": time_of(len(lines)), "type": kind, "payload": payload})

    add(
        "session_meta",
        id=thread,
        cwd="/srv/shop",
        cli_version="0.144.6",
        git={"branch": "main", "commit_hash": "4f2c1aa"},
    )
    for turn in of:
        add("event_msg", type="task_started", turn_id=f"turn-{turn.number}")
        add("turn_context", turn_id=f"turn-{turn.number}", model="m", cwd="/srv/shop")
        add("event_msg", type="user_message", message=f"Do {turn.number}.")
        for index, code in enumerate(turn.codes):
            call = f"call_{turn.number}_{index}"
            add("response_item", type="function_call", name="exec_command", arguments='{"cmd":"pytest"}', call_id=call)
            summary = "2 passed in 0.1s" if code == 0 else "1 failed in 0.1s"
            add(
                "response_item",
                type="function_call_output",
                call_id=call,
                output=f"Process exited with code {code}\n{summary}",
            )
            total = {"total_tokens": len(lines)}
            info = {"last_token_usage": {"input_tokens": 10, "output_tokens": 7}, "total_token_usage": total}
            add("event_msg", type="token_count", info=info)
        if turn.interrupted:
            add("event_msg", type="turn_aborted", turn_id=f"turn-{turn.number}", reason="interrupted")
        else:
            add("event_msg", type="agent_message", message=f"Done {turn.number}.")
            add(
                "event_msg",
                type="task_complete",
                turn_id=f"turn-{turn.number}",
                last_agent_message=f"Done {turn.number}.",
            )
    return lines


def child_of(lines: list[Fields], own: list[Fields], thread: str) -> list[Fields]:
    """The rollout of a sub-agent: its own first line, its parent's lines at one new time, and its own ones later."""
    meta = own[0] | {"payload": own[0]["payload"] | {"id": thread, "forked_from_id": lines[0]["payload"]["id"]}}
    meta = meta | {"timestamp": "2026-11-20T00:00:00.000Z"}
    copies = [line | {"timestamp": "2026-11-20T00:00:00.010Z"} for line in lines]
    later = [line | {"timestamp": line["timestamp"].replace("2026-11-01", "2026-11-21")} for line in own[1:]]
    return [meta, *copies, *later]


def transcript_runs(path: Path) -> tuple[list[TranscriptRun], LineTally]:
    """The runs of a transcript, and what else its reader says of it."""
    tally = LineTally()
    return list(streamed_runs(path, tally)), tally


def write(path: Path, lines: list[Fields]) -> Path:
    """Write lines as a transcript."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
