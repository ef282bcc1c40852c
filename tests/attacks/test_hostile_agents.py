"""What coding agents, their tools and their settings leave behind, made by somebody who wants a command to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.agents.spool import Spool
from rbank_es.agents.spool_intake import take_spool_in
from rbank_es.agents.trusted_banks import bank_for, config_file, user_bank
from rbank_es.events import LmCalled, RunFinished, RunStarted, ToolCalled
from rbank_es.exchange.file_import import import_paths
from tests.agents.hook_banks import hooked, live_in, sample, spool, taught
from tests.agents.transcripts.sessions import Fields, Turn, claude_lines, codex_lines, write
from tests.cli_runner import environment, fails, run

NUL = "a\0b"


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    live_in(monkeypatch, tmp_path)
    return taught(tmp_path / "bank")


# ---------------------------------------------------------------- spools

EVENTS: list[dict[str, Any]] = [
    {"model": NUL},
    {"session_id": NUL, "prompt_id": NUL, "cwd": NUL, "transcript_path": NUL},
    {"tool_name": NUL, "tool_use_id": NUL},
    {"tool_input": '{"command": "\\ud800", "\\udfff": NaN}'},
    {"tool_input": {"command": "\ud800"}, "tool_response": {"stdout": "\udfff"}},
]


@pytest.mark.parametrize("changes", EVENTS)
def test_no_event_keeps_the_spool_from_being_taken_in(bank: Path, changes: dict[str, Any]) -> None:
    for name in ("UserPromptSubmit", "PostToolUse", "Stop"):
        hooked(sample(f"claude-code/{name}") | changes, bank)
    with Bank.open(bank) as opened:
        assert take_spool_in(opened).turns == 1
        assert spool(bank).look() == []
        opened.check(decisions=True)


def test_a_duration_that_no_number_holds_ends_no_command(bank: Path) -> None:
    hooked(sample("claude-code/UserPromptSubmit"), bank)
    session = sample("claude-code/UserPromptSubmit")["session_id"]
    line = {"v": 1, "id": "t", "at": time.time(), "kind": "tool", "session": session, "ms": 10**400}
    with (spool(bank).folder / "spool.jsonl").open("a") as file:
        file.write(f"{json.dumps(line)}\n")
    hooked(sample("claude-code/Stop"), bank)
    with Bank.open(bank) as opened:
        take_spool_in(opened)
        (call,) = [event for event in opened.events() if isinstance(event, ToolCalled)]
        assert call.duration_s == 0  # from its beginning to its end


CLOSED, LAST = "spool-000000001.jsonl", "last.json"
IN_THE_WAY: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a pipe": ("spool.jsonl", os.mkfifo),
    "a folder": ("spool.jsonl", Path.mkdir),
    "a link": ("spool.jsonl", lambda path: path.symlink_to(path.parents[1] / "elsewhere")),
    "a closed folder": (CLOSED, Path.mkdir),
    "a closed pipe": (CLOSED, os.mkfifo),
    "an odd number": ("spool-²²²²²²²²².jsonl", lambda path: path.write_text("{}")),
    "a pipe for the last": (LAST, os.mkfifo),
    "a link for the last": (LAST, lambda path: path.symlink_to(path.parents[1] / "elsewhere")),
    "a huge last": (LAST, lambda path: path.write_bytes(b" " * 1_000_000)),
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_is_no_file_in_a_spool_is_neither_waited_for_nor_ends_a_command(bank: Path, what: str) -> None:
    place: Spool = spool(bank)
    for name in ("UserPromptSubmit", "Stop"):
        hooked(sample(f"claude-code/{name}"), bank)
    place.close()
    (place.folder / "spool-000000001.jsonl").rename(place.folder / "spool-000000002.jsonl")
    name, put = IN_THE_WAY[what]
    put(place.folder / name)
    with Bank.open(bank) as opened:
        assert take_spool_in(opened).turns == 1
        assert take_spool_in(opened).turns == 0
    assert place.look() == [] and not (place.folder.parent / "elsewhere").exists()


@pytest.mark.parametrize("folder", ["/a\0b", "/\ud800", "/\udfff", "/" + "a" * 999, "relative", "//../..", ""])
def test_a_folder_that_no_system_has_is_no_project(bank: Path, folder: str) -> None:
    assert bank_for(folder).place == user_bank()


CONFIGURATIONS: list[Any] = [
    {"form": 1, "projects": [1], "user": [1]},
    {"form": 1, "projects": {"/": 7, "/a": {"place": 7}}, "user": {"place": NUL, "id": {}}},
    {"form": 1, "projects": {"/": {"place": "\ud800"}}, "user": "bank"},
    [],
]


@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_a_damaged_configuration_trusts_no_bank_and_is_made_whole_by_an_installation(
    bank: Path, config: Any, tmp_path: Path
) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text(json.dumps(config))
    assert bank_for("/").place == user_bank()
    run("doctor", "--hooks", cwd=tmp_path, code=1)
    run("install", "claude-code", "--yes", cwd=tmp_path)
    assert bank_for("/").place == user_bank() and bank_for("/").id


def test_settings_behind_a_circle_of_links_are_refused_by_name(bank: Path, tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.symlink_to(settings)
    assert "settings.json" in fails("install", "claude-code", "--yes", cwd=tmp_path)
    assert settings.is_symlink()


# ---------------------------------------------------------------- transcripts


def changed(lines: list[Fields], value: object, *path: str | int) -> list[Fields]:
    """The lines with another value in a place of them."""
    found: Any = lines
    for step in path[:-1]:
        found = found[step]
    found[path[-1]] = value
    return lines


@pytest.mark.parametrize("value", [NUL, "\0", 10**30, 2**63, -1, 1e308, [1], {"a": NUL}, None, "z" * 100_000])
@pytest.mark.parametrize(
    "path",
    [
        (0, "version"),
        (0, "sessionId"),
        (1, "message", "model"),
        (1, "message", "usage", "input_tokens"),
        (1, "message", "usage", "cache_read_input_tokens"),
        (1, "message", "content", 0, "name"),
        (1, "message", "content", 0, "input"),
        (3, "message", "id"),
    ],
)
def test_no_value_of_a_field_costs_a_session(tmp_path: Path, value: object, path: tuple[str | int, ...]) -> None:
    lines = changed(claude_lines([Turn(0, (0,), False, False)]), value, *path)
    with Bank.create("memory:") as bank:
        import_paths(bank, [write(tmp_path / "session.jsonl", lines)])
        assert [event.run for event in bank.events() if isinstance(event, RunStarted)]
        assert all((event.tokens_in or 0) < 2**53 for event in bank.events() if isinstance(event, LmCalled))


@pytest.mark.parametrize(
    "path",
    [
        (0, "version"),
        (1, "message", "model"),
        (1, "message", "content", 0, "id"),
        (1, "message", "content", 0, "name"),
        (1, "message", "content", 0, "input", "command"),
    ],
)
def test_no_field_keeps_a_key(tmp_path: Path, path: tuple[str | int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    key = "zq9-" + "0123456789" * 3
    monkeypatch.setenv("SHOP_API_KEY", key)
    lines = changed(claude_lines([Turn(0, (0,), False, False)]), key, *path)
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        import_paths(bank, [write(tmp_path / "session.jsonl", lines)])
    kept = b"".join(file.read_bytes() for file in (tmp_path / "bank").rglob("*") if file.is_file())
    assert b"run_started" in kept and key.encode() not in kept


@pytest.mark.parametrize("secs", [10**400, -1, True, "1", 1e400])
def test_a_duration_of_codex_that_no_number_holds_is_left_out(tmp_path: Path, secs: object) -> None:
    lines = codex_lines([Turn(0, (0,), False, False)])
    end = {"type": "exec_command_end", "call_id": "call_0_0", "exit_code": 0, "duration": {"secs": secs, "nanos": 1}}
    lines.insert(6, {"timestamp": lines[5]["timestamp"], "type": "event_msg", "payload": end})
    with Bank.create("memory:") as bank:
        import_paths(bank, [write(tmp_path / "rollout.jsonl", lines)])
        assert [event.run for event in bank.events() if isinstance(event, RunStarted)]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("rbank-recall", None),
        ("Write rbank-recall 0123456789abcdef.", None),
        ("[rbank-recall ID]", None),
        ("Round half up.\n[rbank-recall 0123456789abcdef]", True),
    ],
)
def test_a_text_that_speaks_of_the_marker_proves_no_delivery(tmp_path: Path, text: str, sent: bool | None) -> None:
    lines = claude_lines([Turn(0, (0,), False, False)])
    given = {"type": "hook_additional_context", "hookEvent": "UserPromptSubmit", "content": [text]}
    lines.insert(1, lines[0] | {"type": "attachment", "uuid": "x", "attachment": given})
    with Bank.create("memory:") as bank:
        import_paths(bank, [write(tmp_path / "session.jsonl", lines)])
        assert [event.recall_sent for event in bank.events() if isinstance(event, RunFinished)] == [sent]


# ---------------------------------------------------------------- the recorder


class Wordless(Exception):
    """An exception whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("error", [OSError("disk"), Wordless()])
def test_no_failure_to_record_reaches_the_agent(error: Exception, action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    with Bank.create("memory:") as bank, bank.record("Do it.") as run, warnings.catch_warnings():
        warnings.simplefilter(action)
        with monkeypatch.context() as patched:
            patched.setattr(bank, "append", refuse)
            with warnings.catch_warnings(record=action == "always"):
                assert run.wrap(lambda words: words.upper())("lamps") == "LAMPS"
        run.finish("Lit.")


@pytest.mark.parametrize("number", [10**400, -(10**400), float("nan"), float("inf"), True, "1", [1]])
def test_no_number_of_an_agent_is_an_error(number: Any) -> None:
    with Bank.create("memory:") as bank:
        with bank.record("Do it.") as run:
            run.tool("search", duration_s=number)
            run.call(tokens_in=number, cost_usd=number, duration_s=number, parameters={"seed": number})
            run.finish("Lit.")
        calls = [event for event in bank.events() if isinstance(event, ToolCalled | LmCalled)]
        assert [call.duration_s for call in calls] == [None, None]


_FIRST_CALL = """
import sys
from rbank_es import Bank
with Bank.create("memory:").record("Do it.") as run:
    run.recall()
    wrapped = run.wrap(str.upper)
    before = set(sys.modules)
    wrapped("lamps")
    print(sorted(set(sys.modules) - before))
    run.finish("Lit.")
"""


def test_a_first_call_imports_nothing() -> None:
    """A child that is forked while another thread imports would wait for ever for the module's lock."""
    done = subprocess.run([sys.executable, "-c", _FIRST_CALL], capture_output=True, text=True, env=environment())
    assert done.stdout == "[]\n", done.stderr
