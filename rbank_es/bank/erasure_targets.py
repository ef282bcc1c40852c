"""What an erasure names, found in the log: the texts of one event, of an item wherever it stands, or of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbank_es.errors import NotInBank
from rbank_es.log import Erasing
from rbank_es.log.erasure import paths_of_item

if TYPE_CHECKING:
    from rbank_es.bank.bank import Bank


def erasing_of(bank: Bank, event: int | None, item: str | None, run: str | None) -> Erasing:
    """Return what to erase of an event, an item or a run. Raises `NotInBank` if it does not exist."""
    if event is not None:
        if not 1 <= event <= bank.position:
            raise NotInBank(str(event), bank.position)
        return Erasing(events=frozenset({event}))
    if item is not None:
        paths = tuple(paths_of_item(bank.log.read(types=("memories_extracted", "memory_proposed")), item))
        if not paths:
            raise NotInBank(item, bank.position)
        return Erasing(paths=paths)
    events = frozenset(entry.seq for entry in bank.events(run=run))
    if not events:
        raise NotInBank(str(run), bank.position)
    return Erasing(events=events, run=run)
