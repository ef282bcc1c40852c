"""The page about coding agents: short, and what it says an agent reads is what a hook gives after its two commands."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.agents.hook_banks import hooked, live_in, sample
from tests.cli_runner import ROOT, shell

PAGE = (ROOT / "docs" / "agents" / "coding.md").read_text(encoding="utf-8")


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) < 80


def test_two_commands_lead_to_the_lesson_that_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live_in(monkeypatch, tmp_path)
    place = tmp_path / "shop"
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    first, _, correction = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    shown = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    around = "".join(f"export {name}={os.environ[name]}\n" for name in ("RBANK_CACHE", "XDG_DATA_HOME", "HOME"))
    around += f"export XDG_CONFIG_HOME={os.environ['XDG_CONFIG_HOME']}\n"
    assert shell(around + first, place).code == 0
    prompt = sample("claude-code/UserPromptSubmit") | {"cwd": str(place), "prompt": "Round the discount half up"}
    given = hooked(prompt)
    assert re.sub("[0-9a-f]{16}", "", given) == re.sub("[0-9a-f]{16}", "", shown[1].rstrip("\n"))
    assert shell(around + correction, place).code == 0
    assert hooked(prompt | {"session_id": "after the correction"}) == ""
