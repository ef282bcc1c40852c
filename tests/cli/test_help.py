"""Help: every command, exit code and example, and what a command imports."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from rbank_es import __version__
from rbank_es.cli.shared.command_registry import COMMANDS, Command, application
from tests.cli.kilns import NOTE
from tests.cli_runner import maker, run, shell


def commands() -> list[tuple[str, Command]]:
    context = click.Context(application)
    found = [(name, application.get_command(context, name)) for name in COMMANDS.names()]  # type: ignore[attr-defined]
    return [(name, command) for name, command in found if isinstance(command, Command)]


def test_help_lists_every_command_and_what_bank_and_point_mean(tmp_path: Path) -> None:
    """`--help`, and no arguments at all, show all commands, and what BANK, POINT and exit codes are."""
    shown = run("--help", cwd=tmp_path).out
    assert run(cwd=tmp_path).out == shown == run("help", cwd=tmp_path).out
    assert run("--version", cwd=tmp_path).out == f"rbank-es {__version__}\n"
    assert run("help", "search", cwd=tmp_path).out == run("search", "--help", cwd=tmp_path).out
    assert all(re.search(rf"^  {name} ", shown, re.MULTILINE) for name in COMMANDS.names())
    assert all(word in shown for word in ("BANK:", "POINT:", "Exit codes:", "RBANK_HOME", "HEAD~"))
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize(("name", "command"), commands())
def test_each_example_is_a_command_line_that_can_be_read(name: str, command: Command) -> None:
    """Every example in the help parses: its options exist, and their values are possible."""
    for example in command.examples:
        (words,) = [part for part in re.split(r"[|>]", example) if "rbank-es" in part]
        _, called, *arguments = shlex.split(words)
        assert called == name
        assert command.make_context(name, arguments).params


def test_every_option_stands_in_the_document_of_commands() -> None:
    """It is generated: `python docs/make_commands.py` writes it again."""
    making = maker("make_commands")
    assert making.DOCUMENT.read_text(encoding="utf-8") == making.document()


def test_commands_that_append_load_nothing_that_they_do_not_need(place: Path) -> None:
    """`append` starts without rich, watchfiles, SQLite, asyncio or a graph library."""
    heavy = ("rich", "watchfiles", "sqlite3", "asyncio", "rdflib", "sqlite_utils", "rbank_es.projections")
    code = (
        "import sys; sys.argv[1:] = ['append', 'notes', 'note.json']\n"
        "from rbank_es.cli import main; assert main() == 0\n"
        f"print(sorted(sys.modules.keys() & {set(heavy)!r}))"
    )
    (place / "note.json").write_text(NOTE)
    done = shell(
        f'python3() {{ {shlex.quote(__import__("sys").executable)} "$@"; }}; python3 -c {shlex.quote(code)}', place
    )
    assert (done.code, done.out.splitlines()[-1]) == (0, "[]"), done
