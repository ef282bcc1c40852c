"""The page about coding agents: short, and what it says an agent reads is what a hook gives after its two commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.agents.hook_banks import hooked, live_in, sample
from tests.agents.transcripts.sessions import Turn, claude_lines
from tests.cli_runner import ROOT, shell

PAGE = (ROOT / "docs" / "agents" / "coding.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LESSON = '[{"title": "Round half up", "description": "Discounts.", "content": "Half up on each line."}]'
SCRIPT = f"name = 'one lesson'\n[[task]]\nid = '*'\n[[task.extractor]]\ntext = '{LESSON}'\n"


def environment() -> str:
    names = ("RBANK_CACHE", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME")
    return "".join(f"export {name}={os.environ[name]}\n" for name in names)


def session_with(commit: str, folder: Path) -> None:
    """Write a session in which the tests passed and then a commit was made."""
    lines = claude_lines([Turn(0, (0, 0), shared=False, interrupted=False)])
    called, answered = (line["message"]["content"][0] for line in lines[3:5])
    called["input"]["command"] = "git commit -am rounding"
    answered["content"] = f"[main {commit}] rounding"
    folder.mkdir(parents=True)
    (folder / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) < 80


@pytest.mark.slow
def test_two_commands_lead_to_the_lesson_that_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live_in(monkeypatch, tmp_path)
    place = tmp_path / "shop"
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    first, _, correction, _ = BLOCKS
    shown = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    around = environment()
    assert shell(around + first, place).code == 0
    prompt = sample("claude-code/UserPromptSubmit") | {"cwd": str(place), "prompt": "Round the discount half up"}
    given = hooked(prompt)
    assert re.sub("[0-9a-f]{16}", "", given) == re.sub("[0-9a-f]{16}", "", shown[1].rstrip("\n"))
    assert shell(around + correction, place).code == 0
    assert hooked(prompt | {"session_id": "after the correction"}) == ""


@pytest.mark.slow
def test_last_weeks_sessions_give_a_lesson_that_a_revert_takes_out_of_prompts_and_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_in(monkeypatch, tmp_path)
    place, skills = tmp_path / "shop", tmp_path / "shop" / ".claude" / "skills"
    _, sessions, _, reverted = BLOCKS
    shop = (
        environment() + "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n"
    )
    made = (
        "git init -q . && touch price && git add price && git commit -qm price && echo 1 > price && git commit -qam 1"
    )
    place.mkdir()
    assert shell(f"{shop}{made}\nrbank-es install claude-code --project --yes\n", place).code == 0
    session_with(shell("git rev-parse --short HEAD", place).out.strip(), tmp_path / ".claude" / "projects")
    (place / "turns.toml").write_text(SCRIPT)
    assert shell(shop + sessions.replace("openai/gpt-5-mini", "script:turns.toml"), place).code == 0
    assert shell(f"{shop}rbank-es skills .rbank/bank --into .claude/skills\n", place).code == 0
    prompt = sample("claude-code/UserPromptSubmit") | {"cwd": str(place), "prompt": "Round the discount half up"}
    assert "Round half up" in hooked(prompt) and "Round half up" in (skills / "rbank-shop" / "SKILL.md").read_text()
    assert shell(shop + reverted, place).code == 0
    assert hooked(prompt | {"session_id": "after the revert"}) == "" and not (skills / "rbank-shop").exists()
