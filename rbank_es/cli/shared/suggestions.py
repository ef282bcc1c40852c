"""Suggestions for command lines that can't be run: the likely line that was meant, in one sentence."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

import click

from rbank_es.errors import BadBankName, BankNotFound, RBankError
from rbank_es.system.nearest_name import nearest


def suggestion_for(error: Exception, arguments: Sequence[str]) -> str | None:
    """Return advice on a command line that failed with an error; None where nothing better comes to mind."""
    if isinstance(error, BankNotFound | BadBankName):
        return _exchanged(arguments)
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _nearest_choice(error.param.type, arguments)
    if isinstance(error, click.NoSuchOption):
        return _option_of_command(error, arguments)
    if isinstance(error, click.UsageError) and "unexpected extra argument" in error.message:
        return _unquoted(error, arguments)
    return None


def _exchanged(arguments: Sequence[str]) -> str | None:
    """Return the line with the bank first, where another argument is a bank."""
    from rbank_es.bank import Bank

    command, *given = arguments
    for at, name in enumerate(given[1:], 1):
        if name.startswith("-") or given[0].startswith("-"):
            continue
        with suppress(RBankError, OSError), Bank.open(name):
            exchanged = [command, name, given[0], *given[1:at], *given[at + 1 :]]
            return f"{name} is a bank; did you mean: {_line(exchanged)}"
    return None


def _nearest_choice(kind: Any, arguments: Iterable[str]) -> str | None:
    if not isinstance(kind, click.Choice):
        return None
    for given in arguments:
        near = None if given in kind.choices else nearest(given, kind.choices)
        if near is not None:
            return f"did you mean {near!r}?"
    return None


def _option_of_command(error: click.NoSuchOption, arguments: Sequence[str]) -> str | None:
    """Return the line with the option behind its command, or with the flag that the value after it names."""
    at = next((at for at, given in enumerate(arguments) if given.split("=")[0] == error.option_name), None)
    if at is None or error.ctx is None:
        return None
    if isinstance(error.ctx.command, click.Group):
        known = error.ctx.command.list_commands(error.ctx)
        command = next((given for given in arguments[at:] if given in known), None)
        rest = [given for number, given in enumerate(arguments) if number != at]
        return f"options come after the command: {_line([*rest, arguments[at]])}" if command else None
    flags = [option for param in error.ctx.command.params if isinstance(param, click.Option) for option in param.opts]
    value = arguments[at + 1] if at + 1 < len(arguments) else ""
    near = nearest(f"--{value.lstrip('-')}", [flag for flag in flags if flag.startswith("--")]) if value else None
    return f"did you mean {near}?" if near else None


def _unquoted(error: click.UsageError, arguments: Sequence[str]) -> str | None:
    """Return the line with the words of its last argument in quotes."""
    takes = [param for param in error.ctx.command.params if isinstance(param, click.Argument)] if error.ctx else []
    if not takes or takes[-1].name not in ("query", "task", "question"):
        return None
    before, rest = arguments[: len(takes)], arguments[len(takes) :]
    words = [*takewhile(lambda given: not given.startswith("-"), rest)]
    line = [*before, " ".join(words), *rest[len(words) :]]
    return f"a text of several words needs quotes: {_line(line)}"


def _line(arguments: Sequence[str]) -> str:
    return shlex.join(["rbank-es", *arguments])
