"""The events of each run of a bank, for exports that tell of runs one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.events import RunStarted
from rbank_es.log.run_reader import RunEvents, read_run


def begun_runs(bank: Bank, upto: int, only: str | None, types: Collection[str]) -> Iterator[RunEvents]:
    """Yield each run that began, or `only` one, as soon as its last event was read; texts in place of handles."""
    if only is not None:
        one = read_run(bank.log, only, upto, types=types, resolve=types)
        yield from [one] if one.started is not None else []
        return
    # Two passes: with the last position of each run known, only unfinished runs are held in memory.
    last: dict[str, int] = {}
    began: set[str] = set()
    for event in bank.log.read(upto=upto, types=types):
        run: str | None = getattr(event, "run", None)
        if run is not None:
            last[run] = event.seq
            began |= {run} if isinstance(event, RunStarted) else set()
    waiting: dict[str, list[Any]] = {}
    for event in bank.log.read(upto=upto, types=types, resolve=types):
        run = getattr(event, "run", None)
        if run in began:
            waiting.setdefault(run, []).append(event)
            if event.seq == last[run]:
                yield RunEvents(run, tuple(waiting.pop(run)), frozenset(types))


def extra_of(event: Any) -> dict[str, Any]:
    """Return the object in `extra`; an empty one for any other text, which no importer of ours wrote."""
    try:
        value = msgspec.json.decode(event.extra) if isinstance(event.extra, str) else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
