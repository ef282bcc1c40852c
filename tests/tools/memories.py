"""Banks with items in them, for tests of tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rbank_es.bank import Bank
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item

LONG = "Bind the class first, then its label. " * 60


def remember(bank: Bank, *items: Item, targets: Sequence[str] = (), how: Literal["add", "supersede"] = "add") -> None:
    """Make items active; with `how="supersede"`, in place of the targets."""
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    extraction = bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=texts)).events[0].id
    decisions = tuple(
        Decision(candidate=at, action=how, item=item.id, targets=tuple(targets)) for at, item in enumerate(items)
    )
    bank.append(MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=decisions))


def lamps(n: int, content: str = "Count them.") -> list[Item]:
    """Items about lamps, of both polarities, in two domains."""
    return [
        Item.make(
            f"Count the lamps, way {number}",
            f"{content} {number}",
            "failure" if number % 2 else "success",
            desc=f"Lamps are counted in way {number}.",
            domain="harbour" if number % 3 else "coast",
            role="planner" if number == 0 else None,
        )
        for number in range(n)
    ]
