"""The hook of coding agents: what it answers, what it spools, and that nothing makes it fail or write to a bank."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.agents.hook_doctor import examine_spool
from rbank_es.agents.hook_event import UnreadableEvent, read_event
from rbank_es.agents.hook_process import HookClock, respond
from rbank_es.agents.prompt_tally import LATE, outcomes_in
from rbank_es.agents.spool import Spool
from rbank_es.limits import hook_limits as limits
from tests.agents.hook_banks import (
    LESSON,
    PROMPT,
    SAMPLES,
    hooked,
    live_in,
    notes,
    sample,
    spool,
    start_hook,
    taught,
)

EVENTS = {
    "claude-code/UserPromptSubmit": ("prompt", "claude-code", "00000000-0000-4000-8000-000000000901"),
    "claude-code/SessionStart": ("start", "claude-code", None),
    "claude-code/SessionEnd": ("end", "claude-code", None),
    "claude-code/Stop": ("stop", "claude-code", "00000000-0000-4000-8000-000000000901"),
    "claude-code/StopFailure": ("failure", "claude-code", "00000000-0000-4000-8000-000000000901"),
    "claude-code/SubagentStop": ("subagent_stop", "claude-code", "00000000-0000-4000-8000-000000000901"),
    "claude-code/PostToolUse": ("tool", "claude-code", "00000000-0000-4000-8000-000000000901"),
    "claude-code/PostToolUseFailure": ("tool", "claude-code", "00000000-0000-4000-8000-000000000901"),
    "codex/UserPromptSubmit": ("prompt", "codex", "turn-1"),
    "codex/SessionStart": ("start", "codex", None),
    "codex/SessionEnd": ("end", "codex", None),
    "codex/Stop": ("stop", "codex", "turn-1"),
    "codex/SubagentStop": ("subagent_stop", "codex", "turn-1"),
    "codex/PostToolUse": ("tool", "codex", "turn-1"),
    "cursor/beforeSubmitPrompt": ("prompt", "cursor", "g-1"),
    "gemini-cli/BeforeAgent": ("prompt", "gemini-cli", None),
}
"""Kind, host and turn of each sample."""


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    live_in(monkeypatch, tmp_path)
    return taught(tmp_path / "bank")


def prompt(session: str = "s", text: str = PROMPT) -> dict[str, Any]:
    return {**sample("claude-code/UserPromptSubmit"), "session_id": session, "prompt": text}


def test_all_samples_are_listed() -> None:
    found = {str(path.relative_to(SAMPLES / "hooks").with_suffix("")) for path in SAMPLES.rglob("hooks/*/*.json")}
    assert found == EVENTS.keys()


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_of_every_host_is_understood_with_and_without_a_byte_order_mark(name: str) -> None:
    data = json.dumps(sample(name)).encode()
    event = read_event(data)
    assert (event.kind, event.host, event.turn) == EVENTS[name]
    assert event.cwd == "/srv/shop" and event.session and read_event(b"\xef\xbb\xbf" + data) == event


def test_half_a_character_in_a_prompt_takes_no_lesson_away(bank: Path) -> None:
    assert LESSON.title in hooked(sample("claude-code/UserPromptSubmit") | {"prompt": f"{PROMPT} \ud83c"}, bank)
    assert not notes(bank)


def test_what_fits_nothing_is_answered_with_nothing_and_spooled(bank: Path) -> None:
    assert hooked(prompt(text="Translate the letter into Portuguese"), bank) == ""
    assert [line["kind"] for line in spool(bank).look()] == ["prompt", "recall"]
    assert spool(bank).look()[-1]["items"] == []


@pytest.mark.parametrize("name", sorted(name for name in EVENTS if EVENTS[name][0] != "prompt"))
def test_no_other_event_is_answered_and_each_is_spooled(bank: Path, name: str) -> None:
    assert hooked(sample(name), bank) == ""
    (line,) = spool(bank).look()
    assert line["kind"] == EVENTS[name][0] and line["session"] == sample(name)["session_id"]


def test_an_unknown_event_is_spooled_as_unknown(bank: Path) -> None:
    assert hooked({"hook_event_name": "MoonRise", "session_id": "s"}, bank) == ""
    assert [line["kind"] for line in spool(bank).look()] == ["unknown"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"session_id": "s"}', b"[" * 100_000])
def test_half_an_event_or_none_is_noted(bank: Path, data: bytes) -> None:
    assert hooked(data, bank) == "" and len(notes(bank)) == 1


def test_an_event_of_any_depth_is_an_event_or_is_refused_in_one_way() -> None:
    """Some can just be read, and not written again."""
    for depth in range(100, 1_000):
        data = b'{"hook_event_name": "PostToolUse", "tool_input": ' + b"[" * depth + b"]" * depth + b"}"
        with suppress(UnreadableEvent):
            read_event(data)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["hook_event_name", "session_id", "prompt", "cwd", "workspace_roots", "tool_input", "error"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["UserPromptSubmit", "Stop"]),
            lambda some: st.lists(some) | st.dictionaries(st.text(), some),
            max_leaves=4,
        ),
    )
)
def test_any_json_is_an_event_or_is_refused_in_one_way(event: dict[str, Any]) -> None:
    try:
        read_event(json.dumps(event).encode())
    except UnreadableEvent as error:
        assert "\n" not in str(error)


def test_a_hook_whose_input_never_ends_ends_by_itself_and_counts_as_late(bank: Path) -> None:
    process = start_hook(None, "--bank", str(bank), time_s=0.5)
    assert process.wait(timeout=60) == 0
    assert outcomes_in(spool(bank).look()) == LATE


def test_a_spool_that_somebody_holds_holds_no_agent_up(bank: Path) -> None:
    """A program that was stopped while it took the spool in held every hook up for ever."""
    assert hooked(prompt("before"), bank)
    with (spool(bank).folder / "spool.jsonl").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = start_hook(json.dumps(prompt()).encode(), "--bank", str(bank), time_s=0.5)
        assert process.communicate(timeout=60) == (b"", b"") and process.returncode == 0


def test_an_agent_that_reads_nothing_is_not_waited_for(bank: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while os.write(writing, bytes(4096)):
            pass
    os.set_blocking(writing, True)
    process = start_hook(json.dumps(prompt()).encode(), "--bank", str(bank), stdout=writing, time_s=1.0)
    assert process.wait(timeout=60) == 0
    os.close(reading)
    os.close(writing)


def test_on_a_full_disk_a_hook_gives_nothing_because_what_is_not_recorded_is_not_given(bank: Path) -> None:
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0))
    process = start_hook(json.dumps(prompt()).encode(), "--bank", str(bank), preexec_fn=full)
    assert process.communicate(timeout=60) == (b"", b"") and process.returncode == 0
    assert spool(bank).look() == []


def _to_a_link(kept: Spool, outside: Path) -> None:
    (kept.folder / "spool.jsonl").symlink_to(outside)


def _to_a_pipe(kept: Spool, outside: Path) -> None:
    os.mkfifo(kept.folder / "spool.jsonl")


def _to_a_folder(kept: Spool, outside: Path) -> None:
    (kept.folder / "spool.jsonl").mkdir()


def _open_to_others(kept: Spool, outside: Path) -> None:
    kept.folder.chmod(0o777)


def _elsewhere(kept: Spool, outside: Path) -> None:
    kept.folder.rmdir()
    kept.folder.symlink_to(outside.parent)


@pytest.mark.parametrize("change", [_to_a_link, _to_a_pipe, _to_a_folder, _open_to_others, _elsewhere])
def test_a_spool_that_others_may_have_prepared_is_not_written_and_doctor_says_so(
    bank: Path, tmp_path: Path, change: Callable[[Spool, Path], None]
) -> None:
    outside = tmp_path / "outside" / "letters"
    outside.parent.mkdir()
    outside.write_text("Dear Ann,\n")
    kept = spool(bank)
    kept.folder.mkdir(parents=True, mode=0o700)
    change(kept, outside)
    with pytest.raises(OSError, match="another user's"):
        hooked(prompt(), bank)
    assert [path.read_text() for path in outside.parent.iterdir()] == ["Dear Ann,\n"]
    [told] = [check for check in examine_spool(kept) if not check.ok]
    assert told.name == "spool" and str(kept.folder) in told.detail


def test_whoever_is_late_does_nothing(bank: Path) -> None:
    """Either the answer or the clock acts, never both."""
    ended = threading.Event()
    clock = HookClock(0.01, ended.set)
    assert ended.wait(60) and not clock.claim()
    assert respond(json.dumps(prompt()).encode(), str(bank), clock) == b""
    assert [line["kind"] for line in spool(bank).look()] == ["prompt"]


def _damage(bank: Path) -> None:
    path = next(bank.glob("*.jsonl"))
    data = bytearray(path.read_bytes())
    data[len(data) - 40] ^= 1
    path.write_bytes(bytes(data))


def _foreign(bank: Path) -> None:
    for path in bank.iterdir():
        path.unlink()
    (bank / "holiday.jpg").write_bytes(b"no bank")


def _forget(bank: Path) -> None:
    with Bank.open(bank) as opened:
        opened.read_models().path.unlink()


def _tear(bank: Path) -> None:
    path = next(bank.glob("*.jsonl"))
    path.write_bytes(path.read_bytes() + b'{"type":"note_lo')


FAULTS = {"damaged": _damage, "missing": shutil.rmtree, "foreign": _foreign, "without models": _forget, "torn": _tear}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bank_that_cannot_be_used_gives_nothing_and_the_reason_is_noted(bank: Path, fault: str) -> None:
    FAULTS[fault](bank)
    assert hooked(prompt(), bank) == "" and len(notes(bank)) == 1


def test_nothing_is_written_to_the_bank_or_its_cache(bank: Path) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        folders = (bank, bank.parent / "cache")
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    before = state()
    assert hooked(prompt(), bank)
    assert state() == before


def test_a_key_of_the_environment_reaches_neither_spool_nor_search(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "correct-horse-battery")
    secret = f"{PROMPT} with correct-horse-battery and sk-abcdefghijklmnopqrstuvwxyz"
    assert hooked(prompt(text=secret), bank)
    kept = "".join(path.read_text() for path in spool(bank).folder.glob("*.jsonl"))
    assert "correct-horse" not in kept and "sk-abc" not in kept and "[key]" in kept


def test_a_spool_is_bounded_owner_only_and_closed_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPOOL_FILE_BYTES", 400)
    monkeypatch.setattr(limits, "SPOOL_FILES", 3)
    kept = Spool(tmp_path / "spool", "/somewhere")
    for number in range(60):
        kept.append({"kind": "note", "why": f"note {number}"})
    assert len(kept.closed()) <= 3 and kept.look()[-1]["why"] == "note 59"
    assert {path.stat().st_mode & 0o777 for path in kept.folder.iterdir()} == {0o600}
    assert kept.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_kill_9_at_random_loses_no_line_that_was_written_whole(bank: Path) -> None:
    chance = random.Random(7)
    for number in range(60):
        process = start_hook(json.dumps(prompt(f"session {number}")).encode(), "--bank", str(bank))
        time.sleep(chance.random() * 0.35)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    assert hooked(prompt("last"), bank)
    lines = spool(bank).waiting()
    assert lines.lines[-1]["kind"] == "recall" and lines.lines[-1]["session"] == "last"
    prompts = {line["id"] for line in lines.lines if line["kind"] == "prompt"}
    assert {line["of"] for line in lines.lines if line["kind"] == "recall"} <= prompts


def test_the_command_imports_nothing_that_people_need_and_always_exits_with_0(bank: Path) -> None:
    """Each costs processor time before every prompt: click 10 ms, rich 40, all events 15, msgspec 8, shutil 2."""
    command = [sys.executable, "-X", "importtime", "-m", "rbank_es", "hook"]
    event = json.dumps(prompt()).encode()
    heavy = {"click", "rich", "dspy", "httpx", "inspect", "asyncio", "rbank_es.bank", "rbank_es.law.bank_fold"}
    heavy |= {"shutil", "tempfile", "random", "html"}
    needed = {"msgspec", "sqlite3"}
    for data, unneeded in ((event, heavy), (json.dumps(sample("claude-code/PostToolUse")).encode(), heavy | needed)):
        done = subprocess.run([*command, "--bank", str(bank)], input=data, capture_output=True, timeout=60)
        loaded = set(re.findall(r"\|\s+(\S+)$", done.stderr.decode(), re.MULTILINE))
        assert done.returncode == 0 and "rbank_es.agents.spool" in loaded and not loaded & unneeded
    for arguments, data in ((["--bank"], b""), (["--nonsense"], event), (["--bank", "\x01"], b"{"), ([], b"")):
        done = subprocess.run([*command[:1], *command[3:], *arguments], input=data, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
