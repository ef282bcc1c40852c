"""Searching the bank from a tool: what was found, at which position, and the event that tells it.

A recorded retrieval can be made again on the bank as it was just before its event. So a search reads one position, and
its event must follow right behind: whoever returns `Retrieval.event` in a reply returns `Retrieval.position` too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import LogError, ProjectionError
from rbank_es.events import Hit, MemoriesRetrieved
from rbank_es.items import Polarity
from rbank_es.tools.desk import Desk
from rbank_es.tools.encoding import text_of
from rbank_es.tools.reply import ToolError

if TYPE_CHECKING:
    from rbank_es.projections.search import Found
    from rbank_es.projections.view import View


class Retrieval(NamedTuple):
    """What a search found, best first; the event that tells it; the bank's position that was searched."""

    hits: tuple[Found, ...]
    event: MemoriesRetrieved
    position: int


def found(
    desk: Desk,
    query: str,
    k: int,
    *,
    polarity: str | None = None,
    domain: str | None = None,
    role: str | None = None,
) -> Retrieval:
    """Search the bank by the retrieval policy in force, for the call that is being made.

    `k` is cut to what the limits allow; an empty filter is none. Items of sources `principle` and `episode` are never
    found. Raises `ToolError` and `BadSearch` for a filter that can't be, `BadPolicy` if the policy in force is not
    known to this release.
    """
    wanted, words = min(max(1, k), limits.SEARCH_HITS), text_of(query)
    domain, role = _name("domain", domain), _name("role", role)
    with looking(desk.bank) as view:
        policy = view.retrieval_policy()
        hits = view.search(words, wanted, polarity=polarity or None, domain=domain, role=role, policy=policy)
    event = MemoriesRetrieved(
        run=desk.run,
        mode="tool",
        k=wanted,
        polarity=cast("Polarity | None", polarity or None),  # the search refuses any other
        domain=domain,
        role=role,
        policy=policy.label,
        call=desk.call,
        hits=tuple(Hit(id=hit.id, rank=hit.rank, score=hit.score) for hit in hits),
        query=words,
    )
    return Retrieval(tuple(hits), event, view.position)


@contextmanager
def looking(bank: Bank) -> Iterator[View]:
    """A view of the bank as it is now; `view.position` says where that is."""
    position: int | None = None
    with suppress(ProjectionError, LogError, OSError):
        # Read models that are up to date are read where they lie; else a copy would be made in memory.
        position = bank.project().position
    with bank.as_of(position) as view:
        yield view


def _name(name: str, value: str | None) -> str | None:
    if value is not None and len(value) > limits.NAME_CHARS:
        raise ToolError("bad_arguments", f"{name} has {len(value):,} characters", "give an id, or leave it out")
    return text_of(value) if value else None
