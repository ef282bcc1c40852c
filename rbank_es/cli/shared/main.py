"""The entry point: run a command line, and end every error as one message and an exit code, never as a traceback.

With `--json`, an error of this project is also a JSON document on standard output: `{"ok": false, "error": {…}}`.

0    done
1    a check failed
2    usage, or bad input
3    corruption
4    conflict
70   a defect of rbank-es itself, or of a plugin
130  interrupted (Ctrl-C)
141  the reader of standard output went away
"""

from __future__ import annotations

import gc
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

# The convention of shells and of sysexits.h: 70 is EX_SOFTWARE, 130 is 128 + SIGINT, 141 is 128 + SIGPIPE.
USAGE = 2
DEFECT = 70
INTERRUPTED = 130
READER_GONE = 141

GARBAGE_THRESHOLD = 50_000
"""Objects after which Python looks for garbage: its own 700 cost a tenth of start-up, because modules stay loaded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: the process's arguments) and return its exit code. Never raises."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["hook"] and "--help" not in given:
        # Before click is imported: agents run this for every prompt and every tool call, and wait for it. A broken
        # installation ends with 0, too: `doctor` tells of it, and an agent is not disturbed.
        with suppress(BaseException):
            from rbank_es.agents import hook_process

            hook_process.main(given[1:])
        os._exit(0)
    try:
        _refuse_undecodable(given)
        # A copy, because click removes what it reads, and the lines below look for options in it.
        code = _invoke([*given])
        if sys.stdout is not None:
            # Flush here: at the interpreter's end, a full disk or a closed pipe could no longer be reported.
            sys.stdout.flush()
        # Frozen objects are left out of the collection at the interpreter's end, which frees nothing of use.
        gc.freeze()
        return code
    except BaseException as error:
        if "--json" in given and given[:1] != ["log"]:  # because the output of `log` is events, and nothing else
            _print_json_error(error)
        return _end(error, given, debug="--debug" in given or os.environ.get("RBANK_DEBUG", "0") not in ("", "0"))


def _refuse_undecodable(arguments: list[str]) -> None:
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            from rbank_es.errors import BadInput

            raise BadInput(f"the argument {argument!r} is not UTF-8; nothing was done")


def _invoke(arguments: list[str]) -> int:
    # Import here, so that an interruption or a broken installation ends as one message too.
    from click.exceptions import Exit

    from rbank_es.cli.shared.command_registry import COMPLETE_VARIABLE, OURS, application

    ours = arguments[:1] and arguments[0] in OURS
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        return _complete(instruction)
    try:
        with _notices(), application.make_context("rbank-es", arguments) as context:
            application.invoke(context)
    except Exit as stop:
        return stop.exit_code
    except SystemExit as stop:
        # A command of a plugin may end the process; what it adds to ours may not, because nobody would know why.
        if ours and (plugin := _plugin_at_fault(stop)):
            from rbank_es.errors import BadPlugin

            raise BadPlugin(plugin, f"it ended the command with exit code {stop.code}", plugin) from stop
        raise
    return 0


def _plugin_at_fault(error: BaseException) -> str | None:
    from rbank_es.system.registry import plugin_at_fault

    return plugin_at_fault(error)


def _complete(instruction: str) -> int:
    """Answer a shell that completes a command line; nothing is printed but completions, because a person is typing."""
    from click.shell_completion import shell_complete

    from rbank_es.cli.shared.command_registry import COMPLETE_VARIABLE, PROGRAM, application

    try:
        return shell_complete(application, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
    # Anything, because a half-typed line may be anything.
    except Exception:
        return 1


@contextmanager
def _notices() -> Iterator[None]:
    """Print each notice of this project as one line on standard error, as no Python program would."""
    from rbank_es.errors import Notice

    with warnings.catch_warnings():
        show = warnings.showwarning

        def print_notice(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, Notice):
                _print_error(str(message))
            else:
                show(message, category, *where)

        warnings.simplefilter("always", Notice)
        warnings.showwarning = print_notice  # type: ignore[assignment]
        yield


def _end(error: BaseException, arguments: Sequence[str], *, debug: bool) -> int:
    """Print the error on standard error, if it is open, and return the exit code."""
    _discard_output()
    code, message = _outcome(error)
    if code == INTERRUPTED and not error.args:
        # Whoever ended its own work cleanly has said so, in the arguments.
        stopped = " ".join(["rbank-es", *arguments[:1]])
        message = f"interrupted. `{stopped}` was stopped before its end; your banks keep what it had recorded"
    hint = _hint(error, arguments) if message else None
    if debug and message:
        import traceback

        _print_error("".join(traceback.format_exception(error)))
    if message:
        _print_error(f"rbank-es: {message}{f'{chr(10)}  {hint}' if hint else ''}")
    return code


def _hint(error: BaseException, arguments: Sequence[str]) -> str | None:
    if not isinstance(error, Exception):
        return None
    from rbank_es.cli.shared.suggestions import suggestion_for

    try:
        return suggestion_for(error, arguments)
    # Anything, because advice must not take the place of the error itself.
    except Exception:
        return None


def _notes(error: BaseException) -> list[str]:
    return [str(note) for note in getattr(error, "__notes__", ())]


def _print_json_error(error: BaseException) -> None:
    from rbank_es.errors import RBankError
    from rbank_es.system.extras import missing_extra

    error = missing_extra(error) or error
    if isinstance(error, RBankError) and sys.stdout is not None:
        import msgspec

        from rbank_es.cli.shared.output import write_json

        message = "\n".join([str(error), *_notes(error)])
        facts = {"type": type(error).__name__, "message": message, "exit_code": error.exit_code}
        try:
            write_json(msgspec.json.encode({"ok": False, "error": facts}))
        except (OSError, ValueError):
            # Standard output is closed or full: the exit code still reports the error.
            return


def _print_error(message: str) -> None:
    from rbank_es.cli.shared.output import say

    try:
        say(message)
    except OSError:
        # Standard error is gone: nothing is left to write to but the exit code.
        return


def _discard_output() -> None:
    """Flush standard output; where that fails, discard it, because the interpreter would fail on it at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        # What is left in the buffer would fail again when the interpreter exits, with a traceback.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)


def _outcome(error: BaseException) -> tuple[int, str]:
    """Return the exit code of what ended a command, and its message; empty where nothing needs to be said."""
    if isinstance(error, BrokenPipeError):
        return READER_GONE, ""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ""
    if isinstance(error, SystemExit):
        return (error.code if isinstance(error.code, int) else USAGE), ""
    if isinstance(error, BaseExceptionGroup):
        outcomes = [_outcome(each) for each in error.exceptions]
        messages = dict.fromkeys(message for _, message in outcomes if message)
        return max(code for code, _ in outcomes), "\n".join(messages)
    code, message = _known_outcome(error) or (DEFECT, _defect(error))
    return code, "\n".join([message, *_notes(error)]) if message else ""


def _defect(error: BaseException) -> str:
    plugin = _plugin_at_fault(error)
    whose = f"of the plugin {plugin}: please tell its authors" if plugin else "of rbank-es: please report it"
    return f"unexpected {type(error).__name__}: {error}. This is a defect {whose}; --debug shows where it happened."


def _known_outcome(error: BaseException) -> tuple[int, str] | None:
    import click

    from rbank_es.errors import RBankError
    from rbank_es.system.extras import missing_extra

    error = missing_extra(error) or error
    if isinstance(error, RBankError):
        return error.exit_code, str(error)
    if isinstance(error, click.Abort):
        return INTERRUPTED, ""
    if isinstance(error, click.UsageError):
        return USAGE, _usage(error.format_message(), error.ctx)
    if isinstance(error, click.ClickException):
        return USAGE, error.format_message()
    if isinstance(error, OSError):
        return USAGE, f"{error.filename or 'the system refused'}: {error.strerror or error}"
    return None


def _usage(message: str, context: object) -> str:
    # Click names its own type: "'x' is not a valid integer range."
    message = re.sub(r"is not a valid integer(?: range)?\.$", "is not a whole number.", message)
    message = re.sub(r"is not a valid float(?: range)?\.$", "is not a number.", message)
    command = getattr(context, "command_path", "rbank-es")
    return f"{message}{'' if message.endswith(('.', '?', '!')) else '.'} See: {command} --help"
