"""The support of an item: the verdicts that its extractions relied on, the words of people, and its possible ends.

It is computed by the fold itself, over the events that concern the item, so that no second rule says what stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from rbank_es.bank.open_bank import OpenBank
from rbank_es.bank.run_judgments import JUDGMENT_TYPES
from rbank_es.events import Event, MemoriesConsolidated, MemoriesExtracted, MemoriesRetracted, type_of
from rbank_es.state import Pair, State, fold
from rbank_es.state.bank_state import PairState
from rbank_es.state.validity import witnesses_of

ITEM_TYPES = frozenset(
    {
        "consolidation_proposed",
        "context_built",
        "correction_completed",
        "decision_undone",
        "items_linked",
        "memories_admitted",
        "memories_consolidated",
        "memories_extracted",
        "memories_forgotten",
        "memories_read",
        "memories_restored",
        "memories_retracted",
        "memories_retrieved",
        "memory_proposed",
        "policy_set",
    }
)
"""Types of events that can concern an item, judgments of its runs apart."""

_FOLDED_ONLY = frozenset({"correction_completed", "policy_set"})
"""Of these, those that name no item; the fold needs them."""

CONTRADICTS = "contradicts"


class Relied(Struct, frozen=True, kw_only=True):
    """A verdict that an extraction relied on, the one that stands `now` (None for none), and whether it `holds`."""

    run: str
    verdict: str
    now: str | None
    holds: bool


class Ground(Struct, frozen=True, kw_only=True):
    """A candidate with an item's id: its extraction, what that relied on, and whether it carries the item.

    `landed` is the item on which the decision in force puts it, None if it puts it nowhere. `aside` are the verdicts
    because of which a person set the extraction aside. `copy_of` are the extractions of which it is a copy, with which
    it falls where they are known here.
    """

    extraction: str
    candidate: int
    seq: int
    kind: str
    pending: bool
    relied: tuple[Relied, ...]
    aside: tuple[Relied, ...]
    copy_of: tuple[str, ...]
    stands: bool
    undone: bool
    landed: str | None
    carries: bool


class ItemAct(Struct, frozen=True, kw_only=True):
    """An act of a person on an item, at a position: rejected, withdrawn, vouched or admitted."""

    act: str
    seq: int
    by: str | None
    why: Any


class ItemSupport(Struct, frozen=True, kw_only=True):
    """The support of an item, and its possible end in a sentence (`ends`; empty if it has ended)."""

    grounds: tuple[Ground, ...]
    acts: tuple[ItemAct, ...]
    vouched: bool
    domains: tuple[str, ...]
    superseded_by: tuple[str, ...]
    contradicts: tuple[str, ...]
    ends: str


def support_of(bank: OpenBank, name: str, position: int) -> tuple[ItemSupport, list[Event]]:
    """Return the support of an item of the bank at a position, and the events that concern it, oldest first."""
    state, history = _folded(bank, name, position)
    record, entry = state.records.get(name), state.items.get(name)
    pairs = record.pairs if record is not None else ()
    grounds = tuple(_ground(state, pair, name) for pair in pairs)
    support = ItemSupport(
        grounds=grounds,
        acts=tuple(_acts(history, name)),
        vouched=entry is not None and entry.vouched,
        domains=entry.domains if entry is not None else (),
        superseded_by=entry.superseded_by if entry is not None else (),
        contradicts=tuple(dict.fromkeys(_contradicting(history, name))),
        ends=_ends(
            [each for each in grounds if not each.copy_of or not state.extractions.keys() >= set(each.copy_of)],
            entry.state if entry is not None else "",
            vouched=entry is not None and entry.vouched,
        ),
    )
    return support, [event for event in history if type_of(event) not in _FOLDED_ONLY]


def _folded(bank: OpenBank, name: str, position: int) -> tuple[State, list[Event]]:
    """Return the state as far as it concerns an item, and the events that concern it, in order."""
    kept: dict[int, Event] = {}
    extractions: set[str] = set()
    others: list[Event] = []
    for event in bank.events(point=position, types=ITEM_TYPES):
        if names_item(event, name) or type_of(event) in _FOLDED_ONLY:
            kept[event.seq] = event
            extractions |= _extractions(event, name)
        elif getattr(event, "extraction", None) or getattr(event, "extractions", ()):
            others.append(event)
    # What was undone or set aside names an extraction only.
    kept |= {event.seq: event for event in others if _concerns(event, extractions)}
    found = dict(_words(bank, extractions, position))
    originals = {id for event in found.values() for each in event.copy_of for id in each}
    found |= dict(_words(bank, originals - extractions, position))
    runs = {each.run for event in found.values() for each in event.relied}
    runs |= {event.run for event in kept.values() if isinstance(event, MemoriesRetracted) and event.run}
    judged = {event.seq: event for run in runs for event in bank.events(point=position, run=run, types=JUDGMENT_TYPES)}
    state = fold([event for _, event in sorted((kept | found | judged).items())], position=position)
    return state, [event for _, event in sorted((kept | judged).items())]


def _words(bank: OpenBank, extractions: Iterable[str], position: int) -> Iterator[tuple[int, MemoriesExtracted]]:
    """Yield the extractions with these ids, with their texts, as the fold needs them."""
    for id in extractions:
        seq = bank.log.seq_of_id(id)
        if seq is None or seq > position:
            continue
        for event in bank.events(after=seq - 1, point=seq, resolve=True):
            if isinstance(event, MemoriesExtracted):
                yield seq, event


def _extractions(event: Any, name: str) -> set[str]:
    """Return the ids of the extractions by which an event concerns an item."""
    if isinstance(event, MemoriesExtracted):
        return {event.id}
    if isinstance(event, MemoriesConsolidated):
        named = (each for each in event.decisions if name in (each.item, *each.targets))
        return {each.extraction or event.extraction or "" for each in named} - {""}
    return set()


def _concerns(event: Any, extractions: set[str]) -> bool:
    return getattr(event, "extraction", None) in extractions or bool(
        extractions.intersection(getattr(event, "extractions", ()))
    )


def names_item(event: Event, name: str) -> bool:
    """Return whether an event names an item: as candidate, in a decision, as injected, found, read, linked or ended."""
    return name in _items_named(event)


def _items_named(event: Any) -> Iterator[str]:
    for field in ("ids", "items", "targets"):
        yield from getattr(event, field, ())
    for field in ("source", "target"):
        yield getattr(event, field, "")
    for head in (*getattr(event, "heads", ()), *([event.head] if hasattr(event, "head") else ())):
        yield head.id
    yield from (hit.id for hit in getattr(event, "hits", ()))
    for decision in getattr(event, "decisions", ()):
        yield from (decision.item, *decision.targets)


# ---------------------------------------------------------------- grounds and acts


def _ground(state: State, pair: Pair, name: str) -> Ground:
    extraction, known = state.extractions[pair[0]], state.pairs[pair]
    landed = _landed(known)
    return Ground(
        extraction=pair[0],
        candidate=pair[1],
        seq=extraction.seq,
        kind=extraction.kind,
        pending=extraction.pending,
        relied=tuple(_relied(state, run, verdict) for run, verdict in extraction.relied),
        aside=tuple(_relied(state, run, verdict) for run, verdict in extraction.aside),
        copy_of=known.originals,
        stands=bool(witnesses_of(pair, state)) or (known.undone and extraction.stands),
        undone=known.undone,
        landed=landed,
        carries=landed == name and bool(witnesses_of(pair, state)),
    )


def _landed(known: PairState) -> str | None:
    if known.action == "discard":
        return None
    return known.targets[0] if known.action == "skip" and known.targets else known.item


def _relied(state: State, run: str, verdict: str) -> Relied:
    found = state.verdicts.get((run, "learning"))
    now = None if found is None else found.verdict
    return Relied(run=run, verdict=verdict, now=now, holds=now in (None, verdict))


_ACTS = {"memories_admitted": "admitted", "memories_restored": "vouched"}


def _acts(history: Iterable[Any], name: str) -> Iterator[ItemAct]:
    """Yield the acts of people on an item; returns that follow from verdicts are none."""
    for event in history:
        tag, how = type_of(event), getattr(event, "how", "")
        if tag not in (*_ACTS, "memories_retracted") or how in ("supported", "tainted") or name not in event.ids:
            continue
        yield ItemAct(act=_ACTS.get(tag, how), seq=event.seq, by=event.by, why=event.why)


def _contradicting(history: Iterable[Any], name: str) -> Iterator[str]:
    for event in history:
        if getattr(event, "how", "") == CONTRADICTS:
            yield from {event.source, event.target} - {name}
        for decision in getattr(event, "decisions", ()):
            named = (decision.item, *decision.targets)
            if decision.reason == CONTRADICTS and name in named:
                yield from (each for each in named if each != name)


# ---------------------------------------------------------------- what would end it


def _ends(grounds: Iterable[Ground], state: str, *, vouched: bool) -> str:
    """Return the possible end in a sentence; the grounds are without copies, which end with what they are copies of."""
    if state not in ("active", "pending"):
        return ""
    if vouched:
        return "no verdict ends it, because a person vouched for it: only reject, retract, or a later decision does"
    carrying = [each for each in grounds if each.carries]
    if any(not each.relied for each in carrying):
        return "no verdict ends it, because it was not drawn from a judged run: only reject, retract or undo does"
    ends = list(dict.fromkeys(map(_end_of, carrying)))
    if len(ends) == 1:
        return f"it ends if {ends[0]}"
    return f"it ends if all of these happen: {'; '.join(ends)}" if ends else ""


def _end_of(ground: Ground) -> str:
    """Return in words the change of verdicts by which an extraction ceases to stand."""
    holding = [each for each in ground.relied if each.holds]
    if ground.kind == "contrastive":
        return " or ".join(
            f"none of {', '.join(runs)} is a {verdict} any more"
            for verdict in ("success", "failure")
            if (runs := [each.run for each in holding if each.verdict == verdict])
        )
    if ground.kind == "pattern":
        return f"fewer than two of {', '.join(each.run for each in holding)} are successes"
    return " or ".join(f"{each.run} is no longer a {each.verdict}" for each in holding)
