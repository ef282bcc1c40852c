"""The result of a search: the items found with the figures that decided, those withheld, and the record of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from rbank_es.errors import BadPlugin
from rbank_es.events import Hit, MemoriesRetrieved, WithheldHit
from rbank_es.events.notebook_repr import Shown
from rbank_es.events.run_events import Nearness, Shortfall
from rbank_es.policies.retrieval_protocol import WordShare
from rbank_es.system.registry import package_of

if TYPE_CHECKING:
    from rbank_es.policies import Choice, ItemIndex, RetrievalPolicy

_FOUND = 'SELECT title, "desc", content, src, polarity FROM active_items WHERE item = ?'


class FoundItem(Shown, Struct, frozen=True, kw_only=True):
    """One item that a search found. `score` is the policy's (that of bm25-1 is below 0, lower is better).

    `rank` counts from 1; it is 0 where the item is withheld because its figure `withheld` is below the floor.
    `coverage` is the share of the query's idf that its words cover, `matched` those words with their shares; None and
    empty where the policy doesn't report them. `near` is how its domains relate to the question's, where that counts.
    """

    id: str
    title: str
    desc: str
    content: str
    src: str
    polarity: str
    score: float
    rank: int
    coverage: float | None = None
    matched: tuple[WordShare, ...] = ()
    near: Nearness | None = None
    withheld: Shortfall | None = None


class SearchResult(Struct, frozen=True, kw_only=True):
    """The items that a search gives, best first; those that the floor kept back; and the event that records both.

    The event is that of a search by the loop, without a run: whoever records it adds run, mode and call.
    """

    items: tuple[FoundItem, ...]
    withheld: tuple[FoundItem, ...]
    event: MemoriesRetrieved


def found_item(index: ItemIndex, match: Hit | WithheldHit, choice: Choice, policy: RetrievalPolicy) -> FoundItem:
    """Return an item of a choice with its words. Raises `BadPlugin` for one that is not active."""
    rows = index.rows(_FOUND, (match.id,))
    if not rows:
        raise BadPlugin(policy.label, f"it found {match.id!r}, which is no active item here", package_of(policy))
    ((title, desc, content, src, polarity),) = rows
    return FoundItem(
        id=match.id,
        title=title,
        desc=desc,
        content=content,
        src=src,
        polarity=polarity,
        score=match.score,
        rank=match.rank if isinstance(match, Hit) else 0,
        coverage=match.coverage,
        matched=choice.shares.get(match.id, ()),
        near=match.near,
        withheld=match.why if isinstance(match, WithheldHit) else None,
    )
