"""Consolidating: what was extracted goes into the bank, with what becomes of it by the policy in force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rbank_es.bank import Bank
from rbank_es.bank.decisions import Latest, append_decided
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item
from rbank_es.extraction.extractors import Extraction
from rbank_es.state import BIRTHS


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """What became of extractions: their ids, and the decisions about each one's candidates.

    `decisions` stand in the order of the candidates, one extraction after the other. `first` and `last` are positions;
    `duplicate` tells that the extractions were in the bank already, and that nothing was decided anew.
    """

    extractions: tuple[str, ...]
    decisions: tuple[Decision, ...]
    first: int
    last: int
    duplicate: bool = False

    @property
    def added(self) -> tuple[str, ...]:
        """Ids of the items that came to life."""
        return tuple(decision.item for decision in self.decisions if decision.action in BIRTHS)


def consolidate(
    bank: Bank,
    extractions: Iterable[Extraction | MemoriesExtracted | Item],
    *,
    before: Sequence[Event] = (),
    latest: Latest | None = None,
) -> Consolidated:
    """Put extractions into the bank, each with a decision about every candidate, as one atomic group.

    The policy in force decides, in the state at the very position that is appended to; where other writers were faster,
    it decides again. Items that are given as they are become one extraction by hand. Extractions without candidates are
    recorded with their reason. An event with an id that the bank has already is not decided again.

    Args:
        bank: where they go.
        extractions: in the order in which they are decided about; at least one.
        before: events that are appended before them, in the same group: the judgment that they follow, for instance.
        latest: the state of the bank, kept by a caller that consolidates often.

    Raises `BadPolicy`, `DuplicateEvent`, `PositionConflict` (other writers were faster
    `limits.CONSOLIDATION_TRIES` times), and as `Bank.append`; nothing was appended then.
    """
    appended = append_decided(bank.log, [*before, *_events(extractions)], latest)
    decided = [event for event in appended.events if isinstance(event, MemoriesConsolidated)]
    return Consolidated(
        extractions=tuple(event.id for event in appended.events if isinstance(event, MemoriesExtracted)),
        decisions=tuple(decision for event in decided for decision in event.decisions),
        first=appended.first,
        last=appended.last,
        duplicate=appended.duplicate,
    )


def _events(extractions: Iterable[Extraction | MemoriesExtracted | Item]) -> list[MemoriesExtracted]:
    given = list(extractions)
    items = tuple(each for each in given if isinstance(each, Item))
    by_hand = [Extraction(kind="manual", items=items)] if items else []
    others = [each for each in given if not isinstance(each, Item)]
    return [each.event() if isinstance(each, Extraction) else each for each in (*others, *by_hand)]
