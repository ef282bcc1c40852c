"""Proposals: what tools proposed in a run becomes candidates once the run was judged.

What to do comes of successes alone. What to avoid comes of failures too: that is when an agent learns it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from rbank_es import limits
from rbank_es.events import MemoryProposed, RunFinished, ToolCalled
from rbank_es.events.items import JUDGE_SOURCES, Item, ItemText
from rbank_es.events.memory_events import ExtractionKind
from rbank_es.extraction.candidates import clean_tags, says_something
from rbank_es.extraction.extractors import Extraction
from rbank_es.extraction.judged_run import Judgment
from rbank_es.ontology.labels import without_controls
from rbank_es.policies import SuccessFailure

if TYPE_CHECKING:
    from rbank_es.bank import Bank

EXTRACTOR = "proposals-1"

BY_ITSELF = frozenset({"sparql_query"})
"""Tools that propose whatever finds something, with nobody vouching for it."""


def proposals_of(bank: Bank, run: str) -> tuple[MemoryProposed, ...]:
    """What was proposed in a run, in order, its words in place.

    Of queries that proposed themselves, those alone that the answer rests on: that were submitted with it, or whose
    handle is named as evidence. An agent that explores asks many others, and they found something, but not the answer.
    """
    proposed = bank.events(types={"memory_proposed"}, run=run, resolve=True)
    proposals = [event for event in proposed if isinstance(event, MemoryProposed)]
    if not any(event.by in BY_ITSELF for event in proposals):
        return tuple(proposals)
    grounds = _grounds(bank, run)
    return tuple(event for event in proposals if event.by not in BY_ITSELF or event.call in grounds)


def _grounds(bank: Bank, run: str) -> set[str | None]:
    """Ids of the calls that the answer of a run rests on; none where it didn't end."""
    events = list(bank.events(types={"tool_called", "run_finished"}, run=run))
    end = next((event for event in reversed(events) if isinstance(event, RunFinished)), None)
    calls = (event for event in events if isinstance(event, ToolCalled))
    return {call.call for call in calls if end is not None and _rests_on(bank, end, call)}


def _rests_on(bank: Bank, end: RunFinished, call: ToolCalled) -> bool:
    """Whether an answer names the handle of a call as evidence, or came with its query."""
    evidence, query = bank.text(end.evidence) or "", " ".join((bank.text(end.sparql) or "").split())
    if any(f'"{name}"' in evidence for name in (call.id, call.alias) if name):
        return True
    asked = _arguments(bank.text(call.arguments)).get("query")
    return isinstance(asked, str) and bool(query) and " ".join(asked.split()) == query


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:  # a preview of them, or none that were any
        return {}


def from_proposals(
    proposals: Iterable[MemoryProposed], judgment: Any, policy: SuccessFailure | None = None
) -> Extraction | None:
    """The candidates that a judged run proposed; None where it proposed nothing. Pure.

    Each item once, as it was proposed first; at most `limits.EXTRACTION_PROPOSALS`. Its kind is that of the items where
    all have one source, else `manual`. Of a run that was judged a failure, only what says what to avoid. Nothing, under
    a `grounded` policy, of a success that can't be learnt from. Left out are proposals without words (erased, or not
    resolved), those that break the limits of items, and those with a source that serves the judge.

    Raises `BadInput` as `Judgment.of`.
    """
    given, verdict, rule = list(proposals), Judgment.of(judgment), policy or SuccessFailure()
    if not given:
        return None
    runs = tuple(dict.fromkeys(event.run for event in given if event.run))
    blank = Extraction(kind="manual", runs=runs, judgment=verdict.event, extractor=EXTRACTOR)
    if rule.grounded and verdict.success and not verdict.learnable:
        return blank.without("ungrounded", verdict.reason or "it names what the ontology doesn't have")
    told = [event for event in given if verdict.success or event.head.polarity == "failure"]
    if not told:
        return blank.without("judged_a_failure", "what to do, as it was proposed in a failure, is not kept")
    fit: dict[str, Item] = {}
    for item in filter(None, map(_item, told)):
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
        len(item.title) <= limits.ITEM_TITLE_CHARS
        and len(item.desc) <= limits.ITEM_DESC_CHARS
        and len(item.content) <= limits.ITEM_CONTENT_CHARS
        and len(item.tags) <= limits.ITEM_TAGS
        and all(len(tag) <= limits.ITEM_TAG_CHARS for tag in item.tags)
    )
    return msgspec.structs.replace(item, tags=clean_tags(item.tags)) if fits and _is_clean(item) else None


def _is_clean(item: Item) -> bool:
    """Whether the words say something, title and description on one line, and hold no signs that can't be seen."""
    said = says_something(item.title) and says_something(item.content)
    on_one_line = all(len(text.splitlines()) <= 1 for text in (item.title, item.desc))
    texts = (item.title, item.desc, item.content)
    return said and on_one_line and all(without_controls(text) == text for text in texts)


def _kind(items: Iterable[Item]) -> ExtractionKind:
    sources = {item.src for item in items}
    kinds: tuple[ExtractionKind, ...] = get_args(ExtractionKind)
    for kind in kinds:
        if sources == {kind}:
            return kind
    return "manual"
