"""Completions for a shell: banks by name, files and directories, and the names of commands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from rbank_es import limits

# bash expands what it completes, so nothing is offered that a shell could take for more than a word.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


class BankWord(click.types.StringParamType):
    """A bank, completed by its name; a path is completed by the shell."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the banks whose names begin so."""
        if "/" in incomplete or incomplete.startswith("."):
            return [CompletionItem("", type="dir")]
        return [CompletionItem(name) for name in words(_bank_names(), incomplete)]


class PathWord(click.types.StringParamType):
    """A file (`file`) or a directory (`dir`), completed by the shell."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the request to complete a path."""
        return [CompletionItem("", type=self.kind)]


def completed(parameter: click.Parameter) -> click.Parameter:
    """Return a parameter that takes any text so that a shell completes it by its name: a bank, a file, a directory."""
    shown = parameter.make_metavar(click.Context(click.Command("any")))
    if isinstance(parameter.type, click.types.StringParamType):
        if "BANK" in shown:
            parameter.type = BankWord()
        elif "FILE" in shown or "PATH" in shown:
            parameter.type = PathWord("file")
        elif "DIR" in shown:
            parameter.type = PathWord("dir")
    return parameter


def words(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin so, sorted, at most `limits.COMPLETIONS`, and only those that are plain words."""
    fitting = (name for name in names if name.startswith(incomplete) and _WORD.fullmatch(name))
    return sorted(fitting)[: limits.COMPLETIONS]


def _bank_names() -> Iterator[str]:
    home = Path(os.environ.get("RBANK_HOME") or "logs")
    try:
        with os.scandir(home) as entries:
            yield from (entry.name for entry in entries if entry.is_dir())
    except OSError:
        # A shell waits for completions: no banks are better than an error on its line.
        return
