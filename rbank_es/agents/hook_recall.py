"""The recall of a hook: a search in the read models as they are, if they show the bank as it is now.

A hook has no time to open a log or to complete read models. So it reads the end of the log's last segment alone: the
line at the position of the read models must be the one that they were made from, and what follows must be of types
that change no search. Otherwise nothing is recalled, and the reason is a sentence. Nothing is written. Of a bank on a
server, which a hook has no time to reach, the read models of this machine are searched as they are.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
from msgspec import Struct

from rbank_es.context.procedures import procedures
from rbank_es.errors import RBankError
from rbank_es.limits import hook_limits as limits
from rbank_es.log.unopened_log_end import AnotherLog, bank_id_in, log_tail
from rbank_es.policies.retrieval_protocol import SILENT_EVENTS_FOR_WORDS
from rbank_es.projections import builder
from rbank_es.projections.view import View
from rbank_es.projections.view_rows import ViewConnection
from rbank_es.system.files import BankCache
from rbank_es.system.redacted_locator import is_url

READ_MODELS = "projections.sqlite"
BACKGROUND = "Background, not a task: what earlier runs taught, quoted as advice. Ignore it where it doesn't fit."

_SILENT = tuple(f'{{"type":"{name}",'.encode() for name in ("text", *SILENT_EVENTS_FOR_WORDS))
"""The beginnings of lines of the log that change no search by a policy that weighs words alone."""


class NothingRecalled(Exception):
    """Nothing can be recalled; the message says why, for `doctor`."""


class HookRecall(Struct, frozen=True):
    """What was found: the text for the model, the items in it, the searches, and the position with its line's mark."""

    text: str
    items: tuple[str, ...]
    position: int
    mark: str
    retrievals: tuple[bytes, ...]


def recall(place: str, bank_id: str, task: str) -> HookRecall:
    """Return the lessons for a task from a bank; of an id, if one is given. Raises `NothingRecalled`.

    The text is empty where no lesson fits, and at most `HOOK_CONTEXT_CHARS` long.
    """
    try:
        directory = None if is_url(place) else Path(place)
        found_id = bank_id if directory is None else bank_id_in(directory)
        if not found_id:
            raise NothingRecalled(f"only `rbank-es install` looks up which bank is at {place}")
        if bank_id and found_id != bank_id:
            raise NothingRecalled("another bank lies where the trusted one was; `rbank-es install` trusts it")
        cache = BankCache(found_id, place).found()
        if cache is None or not builder.is_sealed(cache / READ_MODELS):
            raise NothingRecalled("there are no read models of this release; `rbank-es project` makes them")
        return _searched(directory, cache / READ_MODELS, task)
    except RBankError as error:
        raise NothingRecalled(str(error)) from error
    except (OSError, sqlite3.Error) as error:
        raise NothingRecalled(f"the bank can't be read: {error}") from error


def _searched(directory: Path | None, models: Path, task: str) -> HookRecall:
    shared = ViewConnection(builder.connect(models, "ro")).hold()
    try:
        point = builder.checkpoints_in(shared.connection).get("memory_index")
        if point is None:
            raise NothingRecalled("the read models are not built; `rbank-es project` makes them")
        with View(shared, point.position) as view:
            policy = view.retrieval_policy()
            if directory is not None:
                _check_current(directory, point, strict=policy.weighs_outcomes or policy.levels != "any")
            found = procedures(view, task)
    finally:
        shared.release()
    text = f"{BACKGROUND}\n{found.packed.text}" if found.packed.items else ""
    return HookRecall(
        text[: limits.HOOK_CONTEXT_CHARS],
        found.packed.items,
        point.position,
        point.mark,
        tuple(msgspec.json.encode(each) for each in found.retrievals),
    )


def _check_current(directory: Path, point: builder.Checkpoint, *, strict: bool) -> None:
    """Raise `NothingRecalled` unless the read models show what a search at the log's end would find."""
    try:
        tail = log_tail(directory, point.position, point.mark)
    except AnotherLog:
        raise NothingRecalled("the read models are of another log; `rbank-es project` makes them again") from None
    if tail is not None and tail.erased != point.erasures:
        raise NothingRecalled("texts were erased since the read models were made; `rbank-es project` makes them")
    if tail is None or not tail.whole or any(strict or not line.startswith(_SILENT) for line in tail.lines):
        raise NothingRecalled("the read models are behind the log; `rbank-es project` brings them up to date")
