"""Items that are near to another, with the words of both and their difference: to a rejected one, because of which they
wait, or to an active one, to which a decision linked them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from rbank_es.events.items import Exchange, Item

if TYPE_CHECKING:
    from rbank_es.projections.view import View


class NearItem(Struct, frozen=True, kw_only=True):
    """An item to which another is near, its words, and what the other has in the place of some of them.

    `how`: near-rejected, near or contradicts.
    """

    item: str
    how: str
    title: str
    content: str
    differences: tuple[Exchange, ...]

    @property
    def sentence(self) -> str:
        """The relation in words."""
        from rbank_es.law.likeness import in_words  # its patterns take 25 ms, and few items are near to another

        relation = {"near-rejected": "near to the rejected item", "near": "near to"}.get(self.how, self.how)
        told = in_words(self.differences)
        return f"{relation} {self.item}{f': {told}' if told else ''}"


def rejected_near(view: View, row: dict[str, Any]) -> tuple[NearItem, ...]:
    """Return the rejected items because of which a pending item waits, given its row."""
    if row["state"] != "pending":
        return ()
    decided = view.rows("candidate_decisions", item=row["id"], pending=1)
    named = (id for each in decided if each["action"] == "add" for id in msgspec.json.decode(each["targets"]))
    return tuple(_near(view, row, id, "near-rejected") for id in dict.fromkeys(named))


def near_of(view: View, row: dict[str, Any], history: Iterable[Any]) -> tuple[NearItem, ...]:
    """Return the items to which decisions linked an item, given its row and the events about it, and those because of
    which it waits."""
    linked = dict.fromkeys(_linked(history, row["id"]))
    return (*rejected_near(view, row), *(_near(view, row, id, how) for id, how in linked))


def _linked(history: Iterable[Any], name: str) -> Iterator[tuple[str, str]]:
    for event in history:
        for decision in getattr(event, "decisions", ()):
            if decision.reason in ("near", "contradicts") and decision.item == name:
                yield from ((id, decision.reason) for id in decision.targets)


def _near(view: View, row: dict[str, Any], id: str, how: str) -> NearItem:
    from rbank_es.law.likeness import differences

    other = view.item(id) or {"title": "", "content": ""}
    before, after = (Item(id="", title=each["title"] or "", content=each["content"] or "") for each in (other, row))
    return NearItem(
        item=id, how=how, title=before.title, content=before.content, differences=differences(before, after)
    )
