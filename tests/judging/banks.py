"""Banks with items, for tests of judges."""

from __future__ import annotations

from rbank_es.bank import Bank
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item


def add(bank: Bank, *items: Item) -> None:
    """Give a bank items, as if by hand."""
    heads, candidates = tuple(item.head for item in items), tuple(item.text for item in items)
    extracted = bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=candidates)).events[0].id
    decisions = tuple(Decision(candidate=at, action="add", item=item.id) for at, item in enumerate(items))
    bank.append(MemoriesConsolidated(extraction=extracted, policy="append-1", decisions=decisions))
