"""Proposals of tools, which become candidates once their run is judged, and of a model about candidates.

Of a tool's proposals, strategies are taken from successes only; guardrails from failures too, because a failure shows
an agent what to avoid. A model proposes which items of the bank each candidate repeats, improves or replaces. That is
recorded as `consolidation_proposed`, and the policy `merge` decides: see `rbank_es.policies.Merge`. Without a usable
answer, there are no such proposals, and the policy decides as `dedup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events import ConsolidationProposed, MemoriesExtracted, MemoryProposed, RunFinished, ToolCalled
from rbank_es.events.items import JUDGE_SOURCES, Item, ItemText, without_controls
from rbank_es.events.memory_events import ExtractionKind
from rbank_es.extraction.candidates import Extraction, clean_tags, one_line, read_answer, says_something
from rbank_es.extraction.extractors import PASSING
from rbank_es.extraction.judged_run import Judgment
from rbank_es.law import ConsolidationPolicy, Merge, MergeV2
from rbank_es.log.run_reader import read_run
from rbank_es.models.replies import ModelReply
from rbank_es.models.role_prompts import PROPOSALS, WHY_NONE, prompt_for
from rbank_es.policies import SuccessFailure, governing
from rbank_es.policies.admission import AGENT_WORDS, TOOL_QUERIES
from rbank_es.system.text_cuts import cut_words
from rbank_es.tools.shared.tool_family import tools_named_as

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.run_models import Lms


def proposals_of(bank: Bank, run: str) -> tuple[MemoryProposed, ...]:
    """Return the proposals of a run in order, with their words.

    Queries that a tool proposed count only if the answer rests on them: they were submitted with it, or their handle is
    named as evidence. An agent that explores makes many others that find something, but not the answer.
    """
    proposals = read_run(bank.log, run, types={"memory_proposed"}, resolve=True).proposals
    # Read the calls, of which a run may have hundreds, only if a tool proposed a query.
    automatic = tools_named_as("proposers")
    if not any(event.by in automatic for event in proposals):
        return proposals
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
    events = read_run(bank.log, run, types={"tool_called", "run_finished"})
    end = events.end
    return {call.call for call in events.calls if end is not None and _rests_on(bank, end, call)}


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


PROPOSER = "merge-proposer-1"
"""The author that the events name; `lm_called` has the model's name."""


class _Entry(msgspec.Struct):
    """A proposal in the model's answer."""

    candidate: int
    action: Literal["merge", "supersede", "skip"]
    targets: list[str]
    why: str = ""


Neighbours = Mapping[int, Sequence[Item]]
"""The items that are most like each candidate, by its index; none for those that have none."""


def propose_merges(
    bank: Bank, extractions: Iterable[MemoriesExtracted], lms: Lms, by: ConsolidationPolicy | None = None
) -> list[ConsolidationProposed]:
    """Ask the model in the role `extractor` about the candidates of extractions; return what it proposed.

    Nothing is asked unless the policy `by`, else the bank's, is `merge`, and nothing about candidates without similar
    items. The extractions must have ids, and words. Raises `LmFailed` if every later call would fail too.
    """
    policy = by or governing("consolidation", bank.policy_choice("consolidation"))
    if not isinstance(policy, Merge | MergeV2):
        return []
    made: list[ConsolidationProposed] = []
    for event in extractions:
        candidates = [
            Item.join(head, words) for head, words in zip(event.heads, event.candidates, strict=True)
            if isinstance(words, ItemText)
        ]  # fmt: skip
        found = {index: items for index, item in enumerate(candidates) if (items := _similar(bank, item))}
        if found and len(candidates) == len(event.heads):
            made += _asked(event.id, candidates, found, policy.targets_max, lms)
    return made


def _similar(bank: Bank, candidate: Item) -> list[Item]:
    """Return the items that a proposal about a candidate may name, those most like it first."""
    words = f"{candidate.title} {candidate.content}"
    hits = bank.search(words, limits.MERGE_NEIGHBOURS * 4, polarity=candidate.polarity, domain=candidate.domain)
    with bank.latest.at(bank.position) as basis:
        peers = basis.known.peers(candidate).among(hit.id for hit in hits if hit.id != candidate.id)
        return [basis.state.items[id].item for id in peers[: limits.MERGE_NEIGHBOURS]]


def _asked(
    extraction: str, candidates: Sequence[Item], found: Neighbours, most: int, lms: Lms
) -> list[ConsolidationProposed]:
    try:
        messages = prompt_for("merge", most).messages({"candidates": _listed(candidates, found)})
        text = lms.ask("extractor", messages, temperature=0.0)
    except LmFailed as failure:
        if failure.code not in PASSING:
            raise
        return []
    return read_proposals(text, extraction, found)


def read_proposals(text: ModelReply | str, extraction: str, found: Neighbours) -> list[ConsolidationProposed]:
    """Return the usable proposals in a model's answer, the first for each candidate; whatever it says raises nothing.

    A proposal names a candidate that was shown, and at least one item that was listed with it; others are left out.
    """
    made: dict[int, ConsolidationProposed] = {}
    for entry in read_answer(text, PROPOSALS, WHY_NONE).entries or ():
        try:
            # Not strict, because models write numbers as texts.
            read = msgspec.convert(entry, _Entry, strict=False)
        except msgspec.ValidationError:
            continue
        # The prompt numbers candidates from 1.
        index = read.candidate - 1
        listed = {item.id for item in found.get(index, ())}
        targets = tuple(id for id in dict.fromkeys(read.targets) if id in listed)
        if targets and index not in made:
            made[index] = ConsolidationProposed(
                extraction=extraction,
                candidate=index,
                action=read.action,
                targets=targets,
                by=PROPOSER,
                why=cut_words(one_line(read.why), limits.JUDGE_REASON_CHARS),
            )
    return list(made.values())


def _listed(candidates: Sequence[Item], found: Neighbours) -> str:
    return "\n\n".join(
        f"Candidate {index + 1}: {_shown(candidates[index])}\nItems:\n"
        + "\n".join(f"[{item.id}] {_shown(item)}" for item in items)
        for index, items in found.items()
    )


def _shown(item: Item) -> str:
    return f"{one_line(item.title)}: {cut_words(one_line(item.content), limits.MERGE_SHOWN_CHARS)}"
