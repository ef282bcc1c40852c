"""What a judging model is given besides the run: principles, and past cases, that the bank keeps for judges alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.events.items import Item

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.judging.run_outcome import RunOutcome

NONE = "none"
"""What stands where there is nothing: an empty field looks like a mistake."""


class Precedents(msgspec.Struct, frozen=True, kw_only=True):
    """Principles and past cases as a judging model reads them, each within its budget, and the ids of the items."""

    principles: str = NONE
    cases: str = NONE
    items: tuple[str, ...] = ()


def precedents_for(
    outcome: RunOutcome,
    bank: Bank,
    *,
    principles: int = limits.JUDGE_PRINCIPLES,
    cases: int = limits.JUDGE_CASES,
    point: str | int | None = None,
) -> Precedents:
    """The active principles and past cases that fit a run's task and query best, as of a point.

    They are items of the sources `principle` and `episode`, ranked by the bank's retrieval policy; agents never get
    them. Each kind takes at most `JUDGE_MEMORY_CHARS`: whole items, and of the first its beginning if it is longer.
    """
    words = f"{outcome.task}\n{outcome.sparql}"
    with bank.as_of(point) as view:
        found = {
            source: [hit.id for hit in view.search_for_judge(words, k, source)]
            for source, k in (("principle", principles), ("episode", cases))
        }
        position = view.position
    chosen = {source: _items(bank, ids, position) for source, ids in found.items()}
    return Precedents(
        principles=_packed(chosen["principle"]),
        cases=_packed(chosen["episode"]),
        items=tuple(item.id for items in chosen.values() for item in items),
    )


def _items(bank: Bank, ids: list[str], position: int) -> list[Item]:
    """The items that fit into the budget; always the first."""
    items = bank.get(ids, max_n=len(ids), point=position) if ids else []
    kept: list[Item] = []
    for item in items:
        if kept and len("\n".join(map(_line, [*kept, item]))) > limits.JUDGE_MEMORY_CHARS:
            break
        kept.append(item)
    return kept


def _packed(items: list[Item]) -> str:
    text = "\n".join(map(_line, items))
    return (text if len(text) <= limits.JUDGE_MEMORY_CHARS else text[: limits.JUDGE_MEMORY_CHARS - 1] + "…") or NONE


def _line(item: Item) -> str:
    """An item in one paragraph; its description stands in for a content that is empty."""
    body = " ".join((item.content or item.desc).split())
    return f"- {' '.join(item.title.split())}: {body}"
