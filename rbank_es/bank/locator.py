"""BANK and BANK@POINT, parsed: the engine and locator of a bank, and the position of a point.

BANK is one of three: a URL whose scheme names a log engine (`file:`, `memory:`); a path, which has a slash; a bare name
(a directory under `RBANK_HOME`, else `./logs`).

POINT is a position, an ISO time, `HEAD` or `HEAD~n`, an event id, or a run id. Its meaning is the log up to and
including a position. A time means the last event recorded at or before it; an event id, the bank just after that event;
a run id (or any beginning of it that no other run has), the bank just before that run began. `HEAD` and `HEAD~n` always
count from the head. The prefixes `seq:`, `event:` and `run:` choose a kind; an ambiguous text without one is refused.
"""

from __future__ import annotations

import os
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import NamedTuple

from rbank_es import limits
from rbank_es.errors import BadBankName, BadPoint, LogCorruption
from rbank_es.log import ENGINE_OF_PATHS, LOG_ENGINES, EventLog, LogEngine
from rbank_es.log.run_reader import run_starts
from rbank_es.system.redacted_locator import shown_locator

_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@:]*:[^@/]*@[^@/]*")
_BARE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?", re.ASCII)
_BACK = re.compile(rf"HEAD(?:~(\d{{1,{limits.INTEGER_DIGITS}}}))?", re.ASCII)
_NUMBER = re.compile(rf"\d{{1,{limits.INTEGER_DIGITS}}}", re.ASCII)

# ---------------------------------------------------------------- banks


class Located(NamedTuple):
    """The scheme of an engine, the locator by which it finds a bank's log, and the bank's short name."""

    scheme: str
    locator: str
    name: str

    @property
    def engine(self) -> LogEngine:
        """The engine that keeps the log."""
        return LOG_ENGINES.get(self.scheme)


def split_point(text: str) -> tuple[str, str | None]:
    """Return the bank and the point of `BANK@POINT`, split at the last `@` after the last `/`.

    The `@` of `engine://user:password@host` is none of a point.

    Raises `BadBankName` where either side is empty.
    """
    slash = text.rfind("/")
    at = text.rfind("@")
    if at <= slash or _USER.fullmatch(text):
        return text, None
    bank, point = text[:at], text[at + 1 :]
    if not bank or not point:
        raise BadBankName(text, "it must be BANK or BANK@POINT")
    return bank, point


def locate(bank: str | Path) -> Located:
    """Return the engine and the locator of a bank. Raises `BadBankName`; does not check whether the bank exists."""
    try:
        os.fsencode(bank)
    except UnicodeEncodeError:
        raise BadBankName(str(bank), "it holds half a character, which no file can be called") from None
    if isinstance(bank, Path):
        return _in_directory(bank)
    if not bank or "\0" in bank:
        raise BadBankName(bank, "it is empty or holds a NUL")
    scheme, colon, _ = bank.partition(":")
    if "/" in scheme:
        return _located(ENGINE_OF_PATHS, bank if bank.startswith(("./", "../", "/")) else f"./{bank}")
    if colon:
        if scheme not in LOG_ENGINES:
            known = ", ".join(f"{name}:" for name in LOG_ENGINES.names())
            raise BadBankName(bank, f"there is no log engine for {scheme}:; there are {known}")
        return _located(scheme, bank)
    if not _BARE.fullmatch(bank) or len(bank) > limits.BANK_NAME_CHARS:
        raise BadBankName(bank, "it is neither a bare name nor a path")
    return _in_directory(Path(os.environ.get("RBANK_HOME") or "logs") / bank)


def path_advice(bank: str | Path) -> str | None:
    """Return advice where a bare name is that of a file here, which only a path names; else None."""
    bare = isinstance(bank, str) and _BARE.fullmatch(bank) is not None and Path(bank).exists()
    return f"Make one with: rbank-es init {bank}; what is called {bank} in this directory is ./{bank}" if bare else None


def _in_directory(path: Path) -> Located:
    # A path is marked as one, because it may look like a URL of another engine.
    return _located(ENGINE_OF_PATHS, str(path) if path.is_absolute() else f"./{path}")


def _located(scheme: str, locator: str) -> Located:
    name = LOG_ENGINES.get(scheme).name_of(locator)
    return Located(scheme, locator, name if scheme == ENGINE_OF_PATHS else shown_locator(name))


# ---------------------------------------------------------------- points in time


def resolve_point(log: EventLog, point: str | int | None) -> int:
    """Return the position that a point means; None means the head. Raises `BadPoint` if it means none or several."""
    try:
        head = log.position()  # once, because other writers may append while the meanings are compared
    except LogCorruption:
        if (before := _position_before_damage(log, str(point))) is not None:
            return before
        raise
    if point is None:
        return head
    if isinstance(point, int):
        return _within(point, str(point), head)
    if found := _BACK.fullmatch(point):
        return _within(head - int(found[1] or 0), point, head)
    prefix, _, rest = point.partition(":")
    if prefix in ("seq", "event", "run") and rest:
        found_seq = {"seq": _seq, "event": _event, "run": _run}[prefix](log, rest, head)
        if found_seq is None and prefix == "run":
            found_seq = _run_beginning(log, rest)
        if found_seq is None:
            raise BadPoint(point, f"there is no such {'position' if prefix == 'seq' else prefix} in {_name(log)}")
        return found_seq
    return _any(log, point, head)


def _position_before_damage(log: EventLog, text: str) -> int | None:
    """Return the position that a text names, if the log can be read up to there although its end is damaged."""
    number = text.removeprefix("seq:")
    if not _NUMBER.fullmatch(number):
        return None
    return next((event.seq for event in log.read(after=int(number) - 1, upto=int(number))), None)


def _any(log: EventLog, point: str, head: int) -> int:
    meanings = {
        "a position": _seq(log, point, head),
        "a time": _time(log, point, head),
        "an event": _event(log, point, head),
        "a run": _run(log, point, head),
    }
    found = {name: seq for name, seq in meanings.items() if seq is not None}
    if len(found) > 1:
        raise BadPoint(point, f"it could be {' or '.join(found)}; write seq:, event: or run: in front")
    if found:
        return next(iter(found.values()))
    if not point.startswith("HEAD") and (begun := _run_beginning(log, point)) is not None:
        return begun
    if _NUMBER.fullmatch(point):
        return _within(int(point), point, head)
    if _TIME.fullmatch(point):
        raise BadPoint(point, "not a valid time, and no event or run has that name")
    raise BadPoint(point, f"no position, event or run of that name in {_name(log)} (its head is at {head:,})")


def _name(log: EventLog) -> str:
    # Not the place: a page shows the reason to whoever reads it, who need not know folders of this machine.
    return PurePath(log.place).name or log.place


def _within(seq: int, point: str, head: int) -> int:
    if not 0 <= seq <= head:
        raise BadPoint(point, f"there is no position {seq:,}; the log goes from 0 to {head:,}")
    return seq


def _seq(log: EventLog, text: str, head: int) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) and int(text) <= head else None


def _event(log: EventLog, text: str, head: int) -> int | None:
    try:
        event_id = str(uuid.UUID(text))
    except ValueError:
        return None
    return log.seq_of_id(event_id) if event_id == text.lower() else None


def _run(log: EventLog, text: str, head: int) -> int | None:
    return next((event.seq - 1 for event in log.read(types=("run_started",), run=text)), None)


def _run_beginning(log: EventLog, text: str) -> int | None:
    """Return the position before the one run whose id begins so. Raises `BadPoint` where several do."""
    started = {event.run: event.seq for event in run_starts(log) if text and event.run.startswith(text)}
    if len(started) > 1:
        some = ", ".join(list(started)[: limits.IDS_NAMED])
        raise BadPoint(text, f"it begins the ids of {len(started):,} runs: {some}")
    return next((seq - 1 for seq in started.values()), None)


def _time(log: EventLog, text: str, head: int) -> int | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    limit = moment.isoformat(timespec="microseconds") + "Z"
    return _last_at_or_before(log, limit, head)


def _last_at_or_before(log: EventLog, limit: str, head: int) -> int:
    # Bisection is right because writers keep `at` from going backwards.
    low, high = 0, head
    while low < high:
        middle = (low + high + 1) // 2
        if next(iter(log.read(after=middle - 1, upto=middle))).at <= limit:
            low = middle
        else:
            high = middle - 1
    return low
