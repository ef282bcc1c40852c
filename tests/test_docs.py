"""The documents: every example in them runs, and says what the program says.

Examples of one document share a directory and, in Python, their names, from the top of the page down. `python` blocks
run as programs, or as a session where they hold `>>>`; `console` and `sh` blocks run line by line in a shell. What
follows a command, or a line of a session, is compared with what is printed; `...` stands for anything. The README has
tests of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rbank_es.bank.bank
from tests.cli_runner import CACHE
from tests.models.openai_server import openai_server

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted((ROOT / "docs").glob("**/*.md"))
QUICK = {"coding.md", "context.md", "extending.md", "learning.md", "policies.md", "time.md"}
"""The examples of the others are many commands, or run agents in the real sandbox."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


class Block(NamedTuple):
    """A fenced example, and the line it begins in."""

    language: str
    text: str
    line: int


def blocks_of(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start()) + 2)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the sample bank and nothing else, and the program on the path, and pytest with its plugin."""
    programs = tmp_path / ".bin"
    programs.mkdir()
    plugin = "-p no:rbank -p rbank_es.agents.pytest_plugin"  # as if it were installed, whether or not it is
    for name, started in (("rbank-es", "rbank_es"), ("pytest", f"pytest {plugin}")):
        (programs / name).write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m {started} "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("RBANK_HOME", raising=False)
    monkeypatch.setenv("RBANK_CACHE", str(CACHE))
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):  # what hooks go by is in the user's own folders
        monkeypatch.setenv(name, str(tmp_path / ".home"))
    # By its name, as in a clone; nothing else of these documents uses it.
    shutil.copytree(ROOT / "logs" / "sample", tmp_path / "logs" / "sample")
    return tmp_path


@pytest.fixture
def lamp_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model on the loopback, for the pages of agents: it looks at one lamp until a lesson says to look at all."""

    def answer(body: dict[str, Any]) -> str:
        asked = json.dumps(body["messages"])
        if "memory_items" in asked:
            content = "Before you say which lamps are lit, look at every lamp."
            lesson = {"title": "Look at every lamp", "description": "Which lamps are lit?", "content": content}
            return json.dumps({"memory_items": [lesson]})
        found = "hall, porch" if "look at every lamp" in asked else "hall"
        return f"[[ ## answer ## ]]\n{found}\n\n[[ ## completed ## ]]" if "[[ ## " in asked else found

    with openai_server(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody-0123456789")
        yield


def same(wanted: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(wanted, got, OPTIONS)


def run_session(block: Block, names: dict[str, Any], document: str) -> None:
    session = doctest.DocTestParser().get_doctest(block.text, names, document, document, block.line - 1)
    heard = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(session, out=heard.write, clear_globs=False)
    names.update(session.globs)
    assert not runner.failures, heard.getvalue()


def run_program(block: Block, names: dict[str, Any], document: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile("\n" * (block.line - 1) + block.text, document, "exec"), names)


class Command(NamedTuple):
    """A command of a console, and what it is said to print."""

    line: str
    output: str


def commands_of(block: Block) -> Iterator[Command]:
    if "$ " not in block.text:
        yield Command(block.text, "")
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        more = [line[2:] for line in rest if line.startswith("> ")]
        yield Command("\n".join([first, *more]), "\n".join(line for line in rest if not line.startswith("> ")))


def run_console(block: Block, document: str) -> None:
    for command in commands_of(block):
        done = subprocess.run(["bash", "-c", command.line], capture_output=True, text=True, timeout=60, check=False)
        where = f"{document}, block at line {block.line}: {command.line}"
        assert done.returncode == 0, f"{where}\n{done.stderr}"
        if command.output:
            assert same(command.output + "\n", done.stdout), f"{where}\nprinted\n{done.stdout}"


def test_the_page_of_each_way_to_record_an_agent_is_short() -> None:
    lines = {page.name: page.read_text().count("\n") for page in DOCUMENTS if page.parent.name == "agents"}
    assert lines and max(lines.values()) < 60, lines


@pytest.mark.parametrize(
    "document",
    [pytest.param(each, marks=() if each.name in QUICK else pytest.mark.slow) for each in DOCUMENTS],
    ids=lambda path: path.name,
)
def test_examples_run(document: Path, desk: Path, request: pytest.FixtureRequest) -> None:
    """Every example of a document runs, in order, and prints what it is said to print."""
    if document.parent.name == "agents":
        request.getfixturevalue("lamp_model")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(document):
        if block.language in ("console", "sh"):
            run_console(block, document.name)
        elif block.language == "python":
            run = run_session if ">>> " in block.text else run_program
            run(block, names, document.name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_fences_name_a_language_that_is_known(document: Path) -> None:
    """An example in a language that is spelled otherwise would not be run: only these are."""
    known = {"python", "console", "sh", "sql", "jsonl", "text", "toml", ""}
    assert {block.language for block in blocks_of(document)} <= known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """A link to a file of this project leads to one that is there."""
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert not [link for link in links if not (document.parent / link).exists()]


def test_every_page_for_agents_is_led_to() -> None:
    """By the page that stands before them."""
    folder = ROOT / "docs" / "agents"
    pages = {page.name for page in folder.glob("*.md")} - {"index.md"}
    assert pages <= set(LINK.findall((folder / "index.md").read_text(encoding="utf-8")))


def test_the_example_of_the_bank_runs() -> None:
    """The session at the head of the module, and any in its functions."""
    failed, tried = doctest.testmod(rbank_es.bank.bank, optionflags=OPTIONS)
    assert tried > 0
    assert not failed
