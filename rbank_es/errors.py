"""The hierarchy of all errors. Each has its facts as fields, and a message with the failure and the next step.

RBankError                       exit code of the command line
├── BadInput                     2   the input can't be used; nothing was changed
│   ├── BadEvent                     an event does not fit the vocabulary (line, path)
│   ├── BadPolicy                    a policy is unknown or has wrong settings
│   ├── BadPlugin                    a plugin of another package can't be used (plugin, reason, package)
│   ├── BadBankName                  a text can't be a bank's name or place
│   ├── BankNotFound                 there is no bank at a place
│   ├── BankExists                   a new bank's place is taken by a bank or other files
│   ├── BadPoint                     a point in time can't be read, doesn't exist, or is ambiguous
│   ├── NotInBank                    no such item, run or event at that point
│   ├── AmbiguousId                  several ids begin with the text given
│   ├── CannotRerun                  a recorded run can't be executed again (run, reason)
│   ├── BadImport                    a file is of no known form, or broken
│   ├── BadFiles                     files of a folder or a list can't be read (failures)
│   ├── BadSearch                    a search's filters are wrong
│   ├── LimitExceeded                an input is larger than a limit allows
│   ├── MissingExtra                 an optional part of this package is not installed
│   ├── BadOntology                  an ontology's file is missing, empty, broken, too large, or of no known form
│   ├── BadContextFile               a guide, or a file of constraints, can't be used
│   ├── UnknownHandle                a key or alias names no payload
│   ├── QueryRefused                 a query that will not be run (code, hint, place)
│   └── CannotWrite                  a requested file can't be written
├── LogError
│   ├── PositionConflict         4   the log is not where the writer expected it
│   ├── DuplicateEvent           4   an event's id is in the log already, with other content
│   ├── LogCorruption            3   bytes of the log are damaged
│   ├── UnknownEvent             3   the log holds a type, version or field that this release doesn't know
│   ├── LogFailed                3   a sync failed earlier; writers stop until `verify`
│   ├── LogUnavailable           2   the system refused access: read-only, disk full, I/O error
│   ├── ErasureUnfinished        2   (a LogUnavailable) the same during an erasure; the next writer completes it
│   └── LogBusy                  4   another writer holds the log for too long
├── QueryFailed                  2   a query ran without an answer: time, memory, the endpoint (code, hint)
├── LmFailed                     2   a language model gave no usable answer (code, hint)
├── JudgeFailed                  2   a judge reached no verdict, so nothing is learned (judge)
├── LoopStopped                  2   a run failed for a reason that would fail all others too (run, code)
├── SandboxUnavailable           2   the sandbox for an agent's code can't run here (code, fix)
├── ProjectionError              3   a read model can't be built or read
│   ├── ProjectionUnavailable    2   the system refused access: read-only, disk full, I/O error
│   ├── ProjectionDefect         3   a projection can't take an event, or is declared wrong (projection, reason)
│   └── ProjectionTimeout        2   a question to the read models took longer than it may
└── CheckFailed                  1   a verification found a difference
"""

from __future__ import annotations

from collections.abc import Sequence

from rbank_es.system.redacted_locator import shown_locator, without_secrets
from rbank_es.system.unreadable_files import refused_files


class RBankError(Exception):
    """The root: catch it to catch every error that this project raises on purpose. No message has a URL's password."""

    exit_code = 2

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_secrets(each) if isinstance(each, str) else each for each in args))


class Notice(UserWarning):
    """Something that a person should know, though nothing failed; commands print it on standard error."""


class InterruptedAppend(Notice):
    """A writer is about to cut off what an interrupted append left: no reader saw it, and nothing vouches for it.

    `where` names the place in the engine's terms. The bytes are kept in the file `kept`, beside the log.
    """

    def __init__(self, where: str, size_bytes: int, kept: str) -> None:
        self.where, self.size_bytes, self.kept = where, size_bytes, kept
        super().__init__(
            f"{where}: an append was interrupted; {size_bytes:,} bytes that nothing vouches for are cut off, and "
            f"kept in the file {kept}"
        )


class BadInput(RBankError):
    """The input can't be used; nothing was changed."""


class LimitExceeded(BadInput):
    """An input is larger than a limit allows."""

    def __init__(self, what: str, actual: int, allowed: int, advice: str = "") -> None:
        self.what, self.actual, self.allowed = what, actual, allowed
        super().__init__(f"{what}: {actual:,} is over the limit of {allowed:,}{'; ' + advice if advice else ''}")


class CannotWrite(BadInput):
    """A requested file can't be written; an older file there is unchanged."""

    def __init__(self, path: str, cause: OSError) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"can't write {path}: {cause.strerror or cause}; give another file, or make its folder first")


class MissingExtra(BadInput):
    """A feature needs an optional part of this package that is not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        self.extra, self.purpose = extra, purpose
        super().__init__(f"{purpose} needs an optional part; install it with: pip install 'rbank-es[{extra}]'")


class BadPlugin(BadInput):
    """A plugin of another package can't be loaded, or what it adds returns another thing than is due."""

    def __init__(self, plugin: str, reason: str, package: str = "") -> None:
        self.plugin, self.reason, self.package = plugin, reason, package
        whose = f" of the package {package}" if package and package != plugin else ""
        super().__init__(f"the plugin {plugin!r}{whose} can't be used: {reason}. Repair or uninstall that package.")


class CheckFailed(RBankError):
    """A verification found a difference."""

    exit_code = 1


# -------------------- events


class BadEvent(BadInput):
    """An event does not fit the vocabulary: malformed JSON, unknown type, wrong, missing or extra field."""

    def __init__(self, reason: str, *, line: int | None = None, path: str | None = None) -> None:
        self.reason, self.line, self.path = reason, line, path
        where = f"line {line}: " if line is not None else ""
        super().__init__(f"{where}{reason}" + (f" (at {path})" if path else ""))


# -------------------- policies


class BadPolicy(BadInput):
    """A policy is unknown, or its settings are wrong."""


# -------------------- bank


class BadBankName(BadInput):
    """A text can't be a bank's name or place."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(
            f"{shown_locator(name)!r} can't name a bank: {reason}. "
            "Give a bare name (letters, digits, '-', '_', '.' inside), "
            "a path, which has a slash, or a URL such as 'memory:'."
        )


class BankNotFound(BadInput):
    """There is no bank at a place."""

    def __init__(
        self, place: str, advice: str = "Make one with: rbank-es init BANK, in Python with create=True"
    ) -> None:
        self.place, self.advice = place, advice
        super().__init__(f"no bank at {place}. {advice}")


class BankExists(BadInput):
    """The place of a new bank is taken, by a bank or by other files."""

    def __init__(self, place: str, reason: str = "there is a bank already") -> None:
        self.place, self.reason = place, reason
        super().__init__(f"can't make a bank at {place}: {reason}; nothing was changed there")


class BadPoint(BadInput):
    """A point in time can't be read, doesn't exist, or is ambiguous."""

    def __init__(self, point: str, reason: str) -> None:
        self.point, self.reason = point, reason
        super().__init__(
            f"point {point!r}: {reason}. A point is a position, a time such as 2026-01-31T12:00, HEAD~n, "
            "an event id, or a run id."
        )


class NotInBank(BadInput):
    """The bank has no such item, run or event at a point."""

    def __init__(self, thing: str, position: int, *, kind: str = "item, run or event", advice: str = "") -> None:
        self.thing, self.position = thing, position
        super().__init__(f"no {kind} {thing!r} at position {position:,}{f'; {advice}' if advice else ''}")


class AmbiguousId(BadInput):
    """Several items, runs or events begin with the given text."""

    def __init__(self, given: str, found: Sequence[str]) -> None:
        self.given, self.found = given, tuple(found)
        super().__init__(f"{given!r} begins several ids: {', '.join(found)}; give more of the one you mean")


# -------------------- log


class LogError(RBankError):
    """The log can't be read or written."""


class PositionConflict(LogError):
    """The log is at another position than the writer expected: read the new events, decide again, and retry."""

    exit_code = 4

    def __init__(self, bank: str, expected: int, actual: int) -> None:
        self.bank, self.expected, self.actual = bank, expected, actual
        super().__init__(
            f"expected the log of {bank} at position {expected:,}, it is at {actual:,}; "
            "read the events since then, decide again, and retry"
        )


class DuplicateEvent(LogError):
    """An event's id is in the log already, with other content, or for only some events of an append."""

    exit_code = 4

    def __init__(self, event_id: str, seq: int, reason: str) -> None:
        self.event_id, self.seq, self.reason = event_id, seq, reason
        super().__init__(f"event {event_id} is in the log at position {seq:,} already, {reason}; nothing was appended")


class LogCorruption(LogError):
    """Bytes of the log are damaged; none are guessed or skipped. `where` names the place in the engine's terms."""

    exit_code = 3

    def __init__(self, where: str, reason: str, advice: str = "Restore the log from a backup.") -> None:
        self.where, self.reason, self.advice = where, reason, advice
        super().__init__(f"{where}: {reason}. {advice}")


class UnknownEvent(LogError):
    """The log holds a type, a version of a type, or a field, that this release doesn't know."""

    exit_code = 3

    def __init__(
        self, type: str, version: int | None, known: int | None, seq: int | None = None, *, misfit: str = ""
    ) -> None:
        self.type, self.version, self.known, self.seq = type, version, known, seq
        where = f"position {seq:,}: " if seq is not None else ""
        if misfit:
            what = f"{type} is not as this release knows it ({misfit}), though its checksum is right"
        elif known is None:
            what = f"event type {type!r} (version {version}) is not known to this release"
        else:
            what = f"{type} has version {version}, this release knows up to {known}"
        super().__init__(f"{where}{what}; a newer release of rbank-es or a plugin wrote it, so install that one")


class LogFailed(LogError):
    """A sync failed earlier, so the disk's content is unknown: writers stop until the log was verified."""

    exit_code = 3

    def __init__(self, bank: str, reason: str) -> None:
        self.bank, self.reason = bank, reason
        super().__init__(f"the log of {bank} refuses writers: {reason}. Check the disk, then run: rbank-es verify BANK")


class LogUnavailable(LogError):
    """The system refused access (a read-only place, a full disk, an I/O error). The log is unchanged.

    `cause` is an `OSError`, or the error of what an engine stores its logs in, such as a database.
    """

    def __init__(self, bank: str, action: str, cause: Exception) -> None:
        self.bank, self.action, self.cause = bank, action, cause
        reason = getattr(cause, "strerror", None) or cause
        super().__init__(f"can't {action} {bank}: {reason}; the log is as it was")


class ErasureUnfinished(LogUnavailable):
    """The system refused access during an erasure, which is recorded and must be completed first."""

    def __init__(self, bank: str, cause: OSError) -> None:
        super().__init__(bank, "complete the erasure in", cause)
        # The parent's message says that the log is unchanged, which is not true here.
        self.args = (
            f"the erasure in {without_secrets(bank)} has begun and can't be completed: {cause.strerror or cause}. "
            "Nothing else is written before; remove the cause, then the next append or erase completes the erasure",
        )


class LogBusy(LogError):
    """Another writer held the log for longer than the limit, or does what only one at a time may do (no wait)."""

    exit_code = 4

    def __init__(self, bank: str, waited_s: float) -> None:
        self.bank, self.waited_s = bank, waited_s
        held = f"has held the log of {bank} for {waited_s:.0f} s" if waited_s else f"is at work on {bank}"
        super().__init__(f"another process {held}; retry later")


# -------------------- projections


class BadSearch(BadInput):
    """A search's filters are wrong."""


class ProjectionError(RBankError):
    """A read model can't be built or read."""

    exit_code = 3


class ProjectionDefect(ProjectionError):
    """A projection can't take an event, or its declaration is wrong."""

    def __init__(self, projection: str, reason: str) -> None:
        self.projection, self.reason = projection, reason
        super().__init__(
            f"projection {projection} {reason}; nothing of that batch was kept. The log is not at fault: please report "
            "this, with the event."
        )


class ProjectionUnavailable(ProjectionError):
    """The system refused to write or read a read model: a read-only place, a full disk, an I/O error."""

    exit_code = 2


class ProjectionTimeout(ProjectionError):
    """A question to the read models took longer than it may."""

    exit_code = 2

    def __init__(self, allowed_s: float, took_s: float) -> None:
        self.allowed_s, self.took_s = allowed_s, took_s
        super().__init__(
            f"it took {took_s:.1f} s, and may take {allowed_s:g} s; ask for fewer rows, or search for less"
        )


# -------------------- exchange


class BadImport(BadInput):
    """A file is of no known form, or is broken."""

    def __init__(self, path: str, reason: str, *, line: int | None = None) -> None:
        self.path, self.reason, self.line = path, reason, line
        super().__init__(f"{path}{f', line {line}' if line else ''}: {reason}; nothing of it was imported")


class BadFiles(BadInput):
    """Files of a folder or a list can't be read: `failures` has the error of each, the message names some of them."""

    def __init__(self, failures: Sequence[BadInput], files: int) -> None:
        self.failures, self.files = tuple(failures), files
        super().__init__(refused_files(failures, files))


# -------------------- ontology


class BadOntology(BadInput):
    """An ontology's file is missing, empty, broken, too large, or of no known form."""

    def __init__(self, path: str, reason: str, hint: str, *, line: int | None = None) -> None:
        self.path, self.reason, self.hint, self.line = path, reason, hint, line
        super().__init__(f"{path}{f', line {line}' if line else ''}: {reason}; {hint}")


# -------------------- sparql


class QueryRefused(BadInput):
    """A SPARQL query that is refused; nothing was sent to any engine.

    `code` is stable, for programs: syntax, not_read_only, service_refused, from_refused, unknown_term,
    unknown_prefix, too_long, slow_here. `line` and `column` count from 1.
    """

    def __init__(
        self, code: str, message: str, hint: str, *, line: int | None = None, column: int | None = None
    ) -> None:
        self.code, self.message, self.hint, self.line, self.column = code, message, hint, line, column
        where = f" (line {line}, column {column})" if line is not None else ""
        super().__init__(f"{message}{where}. {hint}")


class QueryFailed(RBankError):
    """A SPARQL query ran without an answer; the engine is ready for the next one.

    `code` is stable, for programs: timeout, out_of_memory, engine_failed, bad_query, unreachable, endpoint_error,
    cut_answer, not_sparql, redirected, too_large, too_many_requests.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(f"{message}. {hint}")


# -------------------- tools


class UnknownHandle(BadInput):
    """A key or alias names no payload."""

    def __init__(self, key: str, reason: str = "no payload has this key or alias") -> None:
        self.key, self.reason = key, reason
        super().__init__(f"{key!r}: {reason}; give the handle that a tool returned, or its key")


# -------------------- context


class BadContextFile(BadInput):
    """A guide, or a file of constraints, can't be used."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


# -------------------- models


class LmFailed(RBankError):
    """A language model gave no usable answer.

    `code` is stable, for programs: unknown_model, missing_key, wrong_key, unreachable, timeout, rate_limited,
    no_credit, refused, context_too_long, server_error, bad_response, response_too_long, request_too_long, interrupted,
    unexpected; and, where the run can't continue, script_mismatch, replay_miss, not_recorded.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(f"{message}. {hint}")


# -------------------- sandbox


class SandboxUnavailable(RBankError):
    """The sandbox for an agent's code can't run here. `fix` says what to do.

    `code` is stable, for programs: no_dspy, wrong_dspy, no_deno, wrong_deno, cold, no_cache,
    wrong_part, broken.
    """

    def __init__(self, code: str, reason: str, fix: str) -> None:
        self.code, self.reason, self.fix = code, reason, fix
        super().__init__(f"{reason}; {fix}")


# -------------------- judging


class JudgeFailed(RBankError):
    """A judge reached no verdict: no judgment of the run is recorded, and nothing is learned from it."""

    def __init__(self, judge: str, reason: str) -> None:
        self.judge, self.reason = judge, reason
        super().__init__(f"the judge {judge} reached no verdict: {reason}")


# -------------------- loop and rerun


class LoopStopped(RBankError):
    """A run failed for a reason that would fail all others too, so none was begun. The run is closed, with its steps.

    `code` is that of the run: a code of `LmFailed` or `SandboxUnavailable`, not_recorded, or unexpected. `cause` is the
    error itself, where it is one of this project. `advice` says how to continue; the loop sets it if it can be resumed.
    """

    def __init__(self, run: str, code: str, message: str, *, cause: RBankError | None = None) -> None:
        self.run, self.code, self.message, self.cause = run, code, message, cause
        self.advice = ""
        super().__init__(f"stopped at run {run} ({code}): {message}")

    def __str__(self) -> str:
        stopped = super().__str__()
        return f"{stopped.rstrip('.')}. {self.advice}" if self.advice else stopped


class CannotRerun(BadInput):
    """A recorded run can't be executed again: something it needs was never recorded, is erased, or is unavailable."""

    def __init__(self, run: str, reason: str) -> None:
        self.run, self.reason = run, reason
        super().__init__(f"the run {run} can't be run again: {reason}")
