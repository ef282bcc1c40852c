"""Proposals of tools, which become candidates once their run is judged.

Strategies are taken from successes only; guardrails from failures too, because a failure shows an agent what to avoid.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from rbank_es import limits
from rbank_es.events import MemoryProposed, RunFinished, ToolCalled
from rbank_es.events.items import JUDGE_SOURCES, Item, ItemText
from rbank_es.events.memory_events import ExtractionKind
from rbank_es.extraction.candidates import Extraction, clean_tags, says_something
from rbank_es.extraction.judged_run import Judgment
from rbank_es.ontology.vocabulary import without_controls
from rbank_es.policies import SuccessFailure
from rbank_es.policies.admission import AGENT_WORDS, TOOL_QUERIES
from rbank_es.tools.runtime.tool_family import tools_named_as

if TYPE_CHECKING:
    from rbank_es.bank import Bank


def proposals_of(bank: Bank, run: str) -> tuple[MemoryProposed, ...]:
    """Return the proposals of a run in order, with their words.

    Queries that a tool proposed count only if the answer rests on them: they were submitted with it, or their handle is
    named as evidence. An agent that explores makes many others that find something, but not the answer.
    """
    proposed = bank.events(types={"memory_proposed"}, run=run, resolve=True)
    proposals = [event for event in proposed if isinstance(event, MemoryProposed)]
    # Read the calls, of which a run may have hundreds, only if a tool proposed a query.
    automatic = tools_named_as("proposers")
    if not any(event.by in automatic for event in proposals):
        return tuple(proposals)
    grounds = _grounds(bank, run)
    return tuple(event for event in proposals if event.by not in automatic or event.call in grounds)


def by_author(proposals: Iterable[MemoryProposed]) -> list[list[MemoryProposed]]:
    """Return proposals in the agent's own words, and those that tools made of its queries, without empty groups.

    An admission policy may hold back either.
    """
    automatic = tools_named_as("proposers")
    groups: tuple[list[MemoryProposed], list[MemoryProposed]] = ([], [])
    for event in proposals:
        groups[event.by in automatic].append(event)
    return [group for group in groups if group]


def _grounds(bank: Bank, run: str) -> set[str | None]:
    """Return the ids of the calls on which the answer of a run rests; none for an unfinished run."""
    events = list(bank.events(types={"tool_called", "run_finished"}, run=run))
    end = next((event for event in reversed(events) if isinstance(event, RunFinished)), None)
    calls = (event for event in events if isinstance(event, ToolCalled))
    return {call.call for call in calls if end is not None and _rests_on(bank, end, call)}


def _rests_on(bank: Bank, end: RunFinished, call: ToolCalled) -> bool:
    """Return whether an answer names the handle of a call as evidence, or was submitted with its query."""
    evidence, query = bank.text(end.evidence) or "", " ".join((bank.text(end.sparql) or "").split())
    if any(f'"{name}"' in evidence for name in (call.id, call.alias) if name):
        return True
    asked = _arguments(bank.text(call.arguments)).get("query")
    return isinstance(asked, str) and bool(query) and " ".join(asked.split()) == query


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:  # only a preview was recorded, or no valid arguments
        return {}


def from_proposals(
    proposals: Iterable[MemoryProposed], judgment: Any, policy: SuccessFailure | None = None
) -> Extraction | None:
    """Return the candidates that a judged run proposed; None if it proposed nothing. Pure.

    Each item counts once, as it was first proposed; at most `limits.EXTRACTION_PROPOSALS` are taken. The kind is the
    items' source if they share one, else `manual`. A failed run gives only guardrails; a verdict that may not be
    learned from (`Judgment.bar`) gives nothing. Left out are proposals without words (erased, or not resolved), beyond
    the limits of items, or with a source that serves the judge. Raises `BadInput` as `Judgment.of`.
    """
    given, verdict, rule = list(proposals), Judgment.of(judgment), policy or SuccessFailure()
    if not given:
        return None
    runs = tuple(dict.fromkeys(event.run for event in given if event.run))
    relied = tuple(verdict.relied(run) for run in runs)
    blank = Extraction(kind="manual", runs=runs, relied=relied, extractor=_extractor(given))
    barred = verdict.bar(grounded=rule.grounded)
    if barred is not None:
        return blank.without(*barred)
    taken = [event for event in given if verdict.verdict == "success" or event.head.polarity == "failure"]
    if not taken:
        return blank.without("judged_a_failure", "what to do, as it was proposed in a failure, is not kept")
    fit: dict[str, Item] = {}
    for item in filter(None, map(_item, taken)):
        fit.setdefault(item.id, item)
    items = tuple(fit.values())[: limits.EXTRACTION_PROPOSALS]
    distinct = len({event.head.id for event in given})
    if not items:
        return blank.without("no_usable_item", f"{distinct} proposals break the limits of items")
    left_out = f"{distinct - len(items)} of {distinct} proposals" if len(items) < distinct else ""
    return blank.holding(items, _kind(items), left_out)


def _extractor(proposals: Iterable[MemoryProposed]) -> str:
    automatic = tools_named_as("proposers")
    return TOOL_QUERIES if all(event.by in automatic for event in proposals) else AGENT_WORDS


def _item(event: MemoryProposed) -> Item | None:
    """Return the proposed item; None if a run may not propose it."""
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
    """Return whether title and content have words, title and description are single lines, and no text has controls."""
    has_words = says_something(item.title) and says_something(item.content)
    on_one_line = all(len(text.splitlines()) <= 1 for text in (item.title, item.desc))
    texts = (item.title, item.desc, item.content)
    return has_words and on_one_line and all(without_controls(text) == text for text in texts)


def _kind(items: Iterable[Item]) -> ExtractionKind:
    sources = {item.src for item in items}
    kinds: tuple[ExtractionKind, ...] = get_args(ExtractionKind)
    for kind in kinds:
        if sources == {kind}:
            return kind
    return "manual"
