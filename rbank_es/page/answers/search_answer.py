"""The answer `search`: the items that the bank's own ranking finds, as of the position."""

from __future__ import annotations

from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.page.answers.page_question import PageQuestion, cut
from rbank_es.projections.search_result import FoundItem


def search_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the hits of the query `q`, best first, and those that the policy's floor kept back."""
    policy = asked.view.retrieval_policy()
    wanted = asked.number("k", policy.k, 1, limits.SEARCH_HITS)
    found = asked.view.retrieve(asked.needed("q"), wanted, domain=asked.text("domain"))
    return {
        "hits": [_hit(hit) for hit in found.items],
        "withheld": [_hit(hit) for hit in found.withheld],
        "note": f"ranked by {policy.label}, as agents are given items at this position",
    }


def _hit(hit: FoundItem) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(hit)
    return {**facts, "title": cut(hit.title), "desc": cut(hit.desc), "content": cut(hit.content)}
