"""The effect of an erasure, as a value: the items that lose their words, beside the places of all texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import replace

from rbank_es.bank.bank_access import OpenBank
from rbank_es.bank.bank_difference import ITEM_COLUMNS, ActDifference, ItemDifference, ItemValues
from rbank_es.events import MemoriesExtracted
from rbank_es.log import Erasing, Erasure, Place
from rbank_es.system.redacted_locator import shown_locator


class BankErasure(ActDifference, frozen=True, kw_only=True):
    """What an erasure changed, or would change: the items that lose their words, and the places of all texts."""

    erasure: Erasure


def erase_from(bank: OpenBank, what: Erasing, reason: str, by: str | None, dry_run: bool) -> BankErasure:
    """Erase texts of a bank, or with `dry_run` only find them. Raises as `EventLog.erase`."""
    found = bank.log.erase(what, reason=reason, by=by, dry_run=dry_run, rebuild=bank.project)
    relatives = tuple(replace(each, place=shown_locator(each.place)) for each in found.relatives)
    since = found.appended.first - 1 if found.appended else bank.position
    last = since + bool(found.appended or (dry_run and found.places))  # one event records it
    return BankErasure(
        bank=bank.name,
        since_seq=since,
        position=last,
        items=tuple(_items(bank, found.places)),
        first_seq=last if last > since else None,
        last_seq=last if last > since else None,
        recorded=found.appended is not None,
        erasure=replace(found, relatives=relatives),
    )


def _items(bank: OpenBank, places: Collection[Place]) -> Iterator[ItemDifference]:
    """Yield the items whose own words are at some places, in order of id. Nothing else of them changes."""
    named = {(place.seq, place.path) for place in places if place.type == "memories_extracted"}
    if not named:
        return
    seqs, lost = [seq for seq, _ in named], set[tuple[str, int]]()
    for event in bank.log.read(types=("memories_extracted",), after=min(seqs) - 1, upto=max(seqs)):
        assert isinstance(event, MemoriesExtracted)
        lost |= {(event.id, at) for at in range(len(event.heads)) if (event.seq, f"candidates.{at}") in named}
    with bank.live() as view:
        rows = sorted(view.pick("items", (*ITEM_COLUMNS, "extraction", "place")))
    for *values, extraction, at in rows:
        # By the place, because another candidate of the same extraction may have the item's id.
        if (extraction, at) in lost:
            facts = msgspec.convert(dict(zip(ITEM_COLUMNS, values, strict=True)), ItemValues, strict=False)
            before, after = replace(facts, erased=False), replace(facts, erased=True)
            yield ItemDifference(id=values[0], title="", before=before, after=after)
