"""Banks with runs that can be run again, and banks that tell the same runs a little differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.events import Event
from rbank_es.log.file.file_log import FileLog
from rbank_es.rerun.execution import Rerun, rerun
from rbank_es.rerun.ontology_lookup import Ontologies
from rbank_es.rerun.recorded_run import runs_of
from rbank_es.sandbox.session import EXECUTION_INSTRUCTIONS
from tests.loop.loops import TASKS, looped, scripted

Change = Callable[[Event], Event | None]
"""What an event becomes; None leaves it out."""

_UNSET = {"seq": 0, "at": "", "more": 0, "dur": 0, "crc": "", "salt": ""}


def quick_code() -> Any:
    """An interpreter that starts fast, and of which agents are told what they are told of the sandbox."""
    import dspy

    return dspy.LocalInterpreter()  # type: ignore[attr-defined]


quick_code.execution_instructions = EXECUTION_INSTRUCTIONS  # type: ignore[attr-defined]


def run_in(place: Path, script: str, tasks: Any, **settings: Any) -> Bank:
    """A bank in which these tasks were run, by a script."""
    bank = Bank.create(place / "bank", unsafe_no_sync=True)
    looped(bank, scripted(place, script, **settings), tasks, interpreters=quick_code)
    return bank


def retold(bank: Bank, place: Path, change: Change) -> Bank:
    """A bank with the same events under the same ids, each as `change` tells it."""
    log = FileLog.create(place, unsafe_no_sync=True)
    for event in bank.events(resolve=True):
        changed = change(event)
        if changed is not None:
            fields = {name: value for name, value in _UNSET.items() if hasattr(changed, name)}
            log.append([msgspec.structs.replace(changed, **fields)])
    return Bank(log, place.name)


def changing(kind: type[Event], number: int = 1, **fields: Any) -> Change:
    """A change of one event: the one of this type with this number. A field may be a function of what it was."""
    seen = iter(range(1, 10_000))

    def change(event: Event) -> Event:
        if type(event) is not kind or next(seen) != number:
            return event
        new = {name: value(getattr(event, name)) if callable(value) else value for name, value in fields.items()}
        return msgspec.structs.replace(event, **new)

    return change


def leaving_out(kind: type[Event], number: int = 1) -> Change:
    """The same without one event."""
    seen = iter(range(1, 10_000))
    return lambda event: None if type(event) is kind and next(seen) == number else event


@cache
def shipped() -> Ontologies:
    """The ontology that comes with the package, opened once for the process."""
    return Ontologies()


def reruns(
    bank: Bank, runs: Iterable[str] | None = None, ontologies: Ontologies | None = None, **options: Any
) -> Iterator[Rerun]:
    """Every run of a bank, run again; the tests' tasks are known."""
    for run in runs_of(bank) if runs is None else runs:
        yield rerun(bank, run, ontologies=ontologies or shipped(), **{"tasks": TASKS, **options})
