"""A bank for hooks, homes for their users, and processes of hooks with time enough for a busy machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank, Item
from rbank_es.agents.hook_process import HookClock, respond
from rbank_es.agents.spool import Spool, spool_of
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted

SAMPLES = Path(__file__).parent / "samples"
PATIENT_S = 60.0
PROMPT = "Fix the discount rounding."
LESSON = Item.make(
    "Fix rounding of a discount with half up", "Round a discount half up, never to even.", desc="Rounding."
)
_PATIENT = "import sys; from rbank_es.agents.hook_process import main; main(sys.argv[2:], time_s=float(sys.argv[1]))"


def live_in(monkeypatch: pytest.MonkeyPatch, home: Path) -> Path:
    """Give the process a home of its own, with cache, data and configuration."""
    for name in ("RBANK_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, folder in {"RBANK_CACHE": "cache", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config"}.items():
        monkeypatch.setenv(name, str(home / folder))
    monkeypatch.setenv("HOME", str(home))
    return home


def environment() -> dict[str, str]:
    """The variables that say where this home is, for a command that runs in it."""
    return {name: os.environ[name] for name in ("HOME", "RBANK_CACHE", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}


def teach(bank: Bank, item: Item) -> None:
    """Record an item as learned, and bring the read models up to date."""
    extraction = bank.append(MemoriesExtracted(kind="manual", heads=(item.head,), candidates=(item.text,)))
    decision = Decision(candidate=0, action="add", item=item.id)
    bank.append(MemoriesConsolidated(extraction=extraction.events[0].id, policy="append-1", decisions=(decision,)))
    bank.project()


def taught(place: Path, item: Item = LESSON) -> Path:
    """Make a bank with one item."""
    with Bank.create(place, unsafe_no_sync=True) as bank:
        teach(bank, item)
    return place


def sample(name: str) -> dict[str, Any]:
    """An event of a host, as its file has it: `codex/Stop`."""
    found: dict[str, Any] = json.loads((SAMPLES / "hooks" / f"{name}.json").read_bytes())
    return found


def hooked(event: Mapping[str, Any] | bytes, bank: Path | None = None) -> str:
    """The text that a hook gives for an event in this process; empty for none."""
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    answer = respond(data, None if bank is None else str(bank), HookClock(PATIENT_S, lambda: None))
    if not answer:
        return ""
    said = json.loads(answer)["hookSpecificOutput"]
    assert said.keys() == {"hookEventName", "additionalContext"}
    return str(said["additionalContext"])


def start_hook(
    event: bytes | None, *arguments: str, time_s: float = PATIENT_S, **around: Any
) -> subprocess.Popen[bytes]:
    """Start a real process of a hook and give it an event; with None, its input never ends."""
    command = [sys.executable, "-c", _PATIENT, str(time_s), *arguments]
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    process = subprocess.Popen(command, env=dict(os.environ), **pipes | around)
    if event is not None:
        assert process.stdin is not None
        process.stdin.write(event)
        process.stdin.close()
        process.stdin = None
    return process


def spool(bank: Path) -> Spool:
    """The spool of a bank."""
    return spool_of(str(bank))


def notes(bank: Path) -> list[str]:
    """What hooks noted beside events."""
    return [line["why"] for line in spool(bank).look() if line["kind"] == "note"]
