"""From a command line to an exit code: whatever goes wrong ends as one message, never as a traceback.

With `--json`, such an error is also a JSON document on standard output: `{"ok": false, "error": {…}}`.

0    done
1    a check failed
2    usage, or bad input
3    corruption
4    conflict
70   a defect of rbank-es itself
130  interrupted (Ctrl-C)
141  whoever read standard output went away
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

USAGE = 2
DEFECT = 70
INTERRUPTED = 130
READER_GONE = 141
GARBAGE_THRESHOLD = 50_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: the process's arguments) and return its exit code. Never raises."""
    # What is made while importing lives until the end: looking for garbage there costs a tenth of the start-up.
    gc.set_threshold(GARBAGE_THRESHOLD)
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_undecodable(given)
        code = _invoke([*given])
        if sys.stdout is not None:
            # Here a full disk or a closed pipe can still be told; when the interpreter ends they can't.
            sys.stdout.flush()
        gc.freeze()
        return code
    except BaseException as error:
        if "--json" in given and given[:1] != ["log"]:  # `log` prints events, and nothing else
            _tell_program(error)
        return _end(error, debug="--debug" in given or os.environ.get("RBANK_DEBUG", "0") not in ("", "0"))


def _refuse_undecodable(arguments: list[str]) -> None:
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            from rbank_es.errors import BadInput

            raise BadInput(f"the argument {argument!r} is not UTF-8; nothing was done")


def _invoke(arguments: list[str]) -> int:
    from click.exceptions import Exit

    from rbank_es.cli.shared.application import application

    try:
        with application.make_context("rbank-es", arguments) as context:
            application.invoke(context)
    except Exit as stop:
        return stop.exit_code
    return 0


def _end(error: BaseException, *, debug: bool) -> int:
    """Say what went wrong, as far as anybody listens, and return the exit code."""
    _discard_output()
    code, message = _verdict(error)
    if debug and message:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    if message and sys.stderr is not None:
        _complain(message)
    return code


def _notes(error: BaseException) -> list[str]:
    return [str(note) for note in getattr(error, "__notes__", ())]


def _tell_program(error: BaseException) -> None:
    """One JSON document on standard output also where a command ends in an error of this project."""
    from rbank_es.errors import RBankError

    if isinstance(error, RBankError) and sys.stdout is not None:
        import msgspec

        message = "\n".join([str(error), *_notes(error)])
        told = {"type": type(error).__name__, "message": message, "exit_code": error.exit_code}
        try:
            print(msgspec.json.encode({"ok": False, "error": told}).decode())
        except (OSError, ValueError):
            return


def _complain(message: str) -> None:
    from rbank_es.cli.shared.output import block

    try:
        print(f"rbank-es: {block(message)}", file=sys.stderr, flush=True)
    except OSError:
        return


def _discard_output() -> None:
    """Write out what is buffered; if nobody takes it, throw it away, or the interpreter would complain at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)


def _verdict(error: BaseException) -> tuple[int, str]:
    """Exit code and message of whatever ended a command; no message where there is nothing to say."""
    if isinstance(error, BrokenPipeError):
        return READER_GONE, ""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ""
    if isinstance(error, SystemExit):
        return (error.code if isinstance(error.code, int) else USAGE), ""
    if isinstance(error, BaseExceptionGroup):
        verdicts = [_verdict(each) for each in error.exceptions]
        messages = dict.fromkeys(message for _, message in verdicts if message)
        return max(code for code, _ in verdicts), "\n".join(messages)
    code, message = _explained(error) or (
        DEFECT,
        f"unexpected {type(error).__name__}: {error}. This is a defect; --debug shows where it happened.",
    )
    return code, "\n".join([message, *_notes(error)]) if message else ""


def _explained(error: BaseException) -> tuple[int, str] | None:
    import click

    from rbank_es.errors import RBankError

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
    command = getattr(context, "command_path", "rbank-es")
    return f"{message}{'' if message.endswith(('.', '?', '!')) else '.'} See: {command} --help"
