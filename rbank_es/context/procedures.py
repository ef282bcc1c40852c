"""L2, procedures: items of earlier runs, chosen by the bank's retrieval policy and quoted within a budget."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.context.layer_text import LayerText
from rbank_es.errors import BadInput
from rbank_es.events import MemoriesRetrieved
from rbank_es.events.items import Item, Polarity
from rbank_es.policies.quoted_items import pack_items

if TYPE_CHECKING:
    from rbank_es.context.layer_sections import ContextRequest
    from rbank_es.projections.search_result import FoundItem
    from rbank_es.projections.view import View


def layer(request: ContextRequest, budget_chars: int) -> LayerText | None:
    """Pack the bank's procedures for the task: see `procedures`."""
    if request.bank is None:
        return None
    # One view for all searches, so that no append falls between them.
    with request.bank.as_of(request.position) as view:
        return procedures(
            view,
            request.task,
            run=request.run,
            domain=request.domain or (request.subject.id if request.subject is not None else None) or None,
            without_task=request.without_task,
            level=request.level,
            budget_chars=budget_chars,
        )


def procedures(
    view: View,
    task: str,
    *,
    run: str | None = None,
    domain: str | None = None,
    without_task: str | None = None,
    level: int | None = None,
    successes: int | None = None,
    failures: int | None = None,
    known: Collection[str] = (),
    budget_chars: int = limits.CONTEXT_L2_CHARS,
) -> LayerText:
    """Return the items that fit a task best, by the retrieval policy in force in a view: so many of each polarity.

    `successes` and `failures` are the policy's numbers unless given. `domain` is that of the task, whose items the
    policy may prefer; `level` is the task's, above which it may leave items out. Items drawn from runs of the task with
    the id `without_task` are left out; those with the ids `known` are found, and left out of the text. Nothing is
    written: appended before the memory changes, the returned searches are exact for `check(retrievals=True)`. Raises
    `BadInput` for a number below 0 or above `SEARCH_HITS` or a budget below 0, `BadPolicy`.
    """
    items: list[Item] = []
    retrievals: list[MemoriesRetrieved] = []
    policy = view.retrieval_policy()
    wanted: dict[Polarity, int] = {
        "success": policy.k_success if successes is None else successes,
        "failure": policy.k_failure if failures is None else failures,
    }
    if not 0 <= min(wanted.values()) <= max(wanted.values()) <= limits.SEARCH_HITS:
        chosen = " + ".join(map(str, wanted.values()))
        raise BadInput(f"can't choose {chosen} items; give 0 to {limits.SEARCH_HITS} of each")
    for polarity, k in wanted.items():
        if k:
            found = view.retrieve(
                task,
                k,
                polarity=polarity,
                domain=domain,
                without_task=without_task,
                level=level,
                unasked=True,
                policy=policy,
            )
            items += [_item(hit) for hit in found.items]
            retrievals.append(replace(found.event, run=run))
    unknown = [item for item in items if item.id not in known]
    return LayerText(pack_items(unknown, budget_chars, about=task), tuple(retrievals), tuple(items))


def _item(hit: FoundItem) -> Item:
    """Return an item with what is quoted of it."""
    # By the hit, because the view would have to prepare all its tables for the rest of the item.
    polarity: Polarity = "failure" if hit.polarity == "failure" else "success"
    return Item(id=hit.id, title=hit.title, desc=hit.desc, content=hit.content, polarity=polarity)
