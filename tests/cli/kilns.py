"""Small banks for tests of commands: their events, and what they read of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rbank_es.bank import Bank
from rbank_es.events import RunFinished, RunStarted, ToolCalled
from rbank_es.events.items import Item
from tests.cli_runner import run

RUN = {"type": "run_started", "run": "r1", "task": "Which kilns are there?", "scripted": True}
NOTE = '{"type":"note_logged","note":{"n":1}}'
ITEM = {"title": "List the kilns first", "content": "Ask for the classes, then for their instances."}
EXTRACTION = "00000000-0000-8000-8000-000000000001"


def kilns_bank(place: Path) -> None:
    """Make the bank: one run that used an item, was judged, and learned nothing."""
    item = Item.make_id(ITEM["title"], ITEM["content"])
    decision = {"candidate": 0, "action": "add", "item": item}
    events: list[dict[str, Any]] = [
        {"type": "memories_extracted", "id": EXTRACTION, "kind": "manual", "candidates": [ITEM]},
        {"type": "memories_consolidated", "extraction": EXTRACTION, "policy": "dedup-1", "decisions": [decision]},
        RUN,
        {"type": "context_built", "run": "r1", "chars": 4500, "items": [item]},
        {"type": "tool_called", "run": "r1", "tool": "g_query", "chars": 1500, "arguments": {"limit": 5}},
        {"type": "run_finished", "run": "r1", "outcome": "submitted", "answer": "three kilns"},
        {"type": "run_judged", "run": "r1", "purpose": "learning", "verdict": "success",
         "judge": "checks", "judge_version": "1", "kind": "check"},
    ]  # fmt: skip
    with Bank.create(place) as bank:
        bank.append(events)


def judged_bank(place: Path) -> None:
    """Make a bank of three runs to judge: one with a query, one that was stopped, one whose query was run."""
    query = "SELECT ?light WHERE { ?light a lt:Lighthouse }"
    with Bank.create(place, unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run="r", task="Which lighthouses?"),
                     RunFinished(run="r", outcome="submitted", sparql=query)])  # fmt: skip
        bank.append([RunStarted(run="stopped", task="Which?"), RunFinished(run="stopped", outcome="forced_at_limit")])
        asked = ToolCalled(run="seen", tool="sparql_query", arguments=json.dumps({"query": query}))
        submitted = RunFinished(run="seen", outcome="submitted", sparql=query)
        bank.append([RunStarted(run="seen", task="Which lighthouses?"), asked, submitted])


def log_bytes(cwd: Path, bank: str = "notes") -> bytes:
    return b"".join(path.read_bytes() for path in sorted((cwd / "logs" / bank).glob("*.jsonl")))


def vouch(place: Path) -> None:
    """Append until a group says that all of `place` is on disk: a copy's first writer can't know that yet."""
    for _ in range(2):
        run("append", "notes", cwd=place, stdin=NOTE)
