"""Proposals: what tools proposed in a run becomes candidates once the run was judged a success."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

from rbank_es import limits
from rbank_es.events import MemoryProposed
from rbank_es.events.memory import ExtractionKind
from rbank_es.extraction.attempts import Judgment
from rbank_es.extraction.extracting import Extraction
from rbank_es.items import JUDGE_SOURCES, Item, ItemText
from rbank_es.policies import SuccessFailure

if TYPE_CHECKING:
    from rbank_es.bank import Bank

EXTRACTOR = "proposals-1"


def proposals_of(bank: Bank, run: str) -> tuple[MemoryProposed, ...]:
    """What was proposed in a run, in order, its words in place."""
    events = bank.events(types={"memory_proposed"}, run=run, resolve=True)
    return tuple(event for event in events if isinstance(event, MemoryProposed))


def from_proposals(
    proposals: Iterable[MemoryProposed], judgment: Any, policy: SuccessFailure | None = None
) -> Extraction | None:
    """The candidates that a judged run proposed; None where it proposed nothing. Pure.

    Each item once, as it was proposed first; at most `limits.EXTRACTION_PROPOSALS`. Its kind is that of the items where
    all have one source, else `manual`. Nothing comes of a run that was judged a failure, nor under a `grounded` policy
    of one that can't be learnt from. Left out are proposals without words (erased, or not resolved), those that break
    the limits of items, and those with a source that serves the judge.

    Raises `BadInput` as `Judgment.of`.
    """
    given, verdict, rule = list(proposals), Judgment.of(judgment), policy or SuccessFailure()
    if not given:
        return None
    runs = tuple(dict.fromkeys(event.run for event in given if event.run))
    blank = Extraction(kind="manual", runs=runs, judgment=verdict.event, extractor=EXTRACTOR)
    if not verdict.success:
        return blank.without("judged_a_failure", "nothing that was proposed in it is kept")
    if rule.grounded and not verdict.learnable:
        return blank.without("ungrounded", verdict.reason or "it names what the ontology doesn't have")
    fit: dict[str, Item] = {}
    for item in filter(None, map(_item, given)):
        fit.setdefault(item.id, item)
    items = tuple(fit.values())[: limits.EXTRACTION_PROPOSALS]
    distinct = len({event.head.id for event in given})
    if not items:
        return blank.without("no_usable_item", f"{distinct} proposals break the limits of items")
    left_out = f"{distinct - len(items)} of {distinct} proposals" if len(items) < distinct else ""
    return blank.holding(items, _kind(items), left_out)


def _item(event: MemoryProposed) -> Item | None:
    """The item as it was proposed, if it is one that a run may propose."""
    words = event.candidate
    if not isinstance(words, ItemText) or event.head.src in JUDGE_SOURCES:
        return None
    item = Item.join(event.head, words)
    fits = (
        0 < len(item.title.strip()) <= len(item.title) <= limits.ITEM_TITLE_CHARS
        and 0 < len(item.content.strip()) <= len(item.content) <= limits.ITEM_CONTENT_CHARS
        and len(item.desc) <= limits.ITEM_DESC_CHARS
        and len(item.tags) <= limits.ITEM_TAGS
        and all(len(tag) <= limits.ITEM_TAG_CHARS for tag in item.tags)
    )
    return item if fits else None


def _kind(items: Iterable[Item]) -> ExtractionKind:
    sources = {item.src for item in items}
    kinds: tuple[ExtractionKind, ...] = get_args(ExtractionKind)
    for kind in kinds:
        if sources == {kind}:
            return kind
    return "manual"
