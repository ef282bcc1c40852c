"""Working directories with a bank, for tests of commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rbank_es.events.items import Item
from tests.cli.kilns import EXTRACTION, ITEM, RUN
from tests.cli_runner import SAMPLE, run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a copy of."""
    folder = tmp_path_factory.mktemp("place")
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
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    run("init", "notes", cwd=folder)
    run("append", "notes", "events.jsonl", cwd=folder)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A working directory with a bank `notes`: one run that used an item; or a copy of what a module has made."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a copy of the sample bank, whose read models are up to date."""
    folder = tmp_path_factory.mktemp("sample")
    shutil.copytree(SAMPLE, folder / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    run("project", "sample", cwd=folder)
    return folder
