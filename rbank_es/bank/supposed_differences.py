"""The differences between a bank as recorded and as supposed, as values, and those of two states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from rbank_es.bank.canonical import counts
from rbank_es.bank.difference import Difference, ItemDifference
from rbank_es.events.memory_events import Action
from rbank_es.state import Pair, State


class DecisionDifference(Struct, frozen=True, kw_only=True):
    """A decision in force that would differ: action and targets; None where the candidate doesn't count, or isn't."""

    extraction: str
    candidate: int
    item: str
    title: str
    before: tuple[Action, tuple[str, ...]] | None
    after: tuple[Action, tuple[str, ...]] | None


class HitsDifference(Struct, frozen=True, kw_only=True):
    """A recorded retrieval that would find other items, or the same in another order: ids, best first."""

    seq: int
    run: str | None
    mode: Literal["auto", "tool"]
    before: tuple[str, ...]
    after: tuple[str, ...]


class PromptDifference(Struct, frozen=True, kw_only=True):
    """A run that would be given other procedures at position `seq`: ids of the items chosen, and the injected text.

    `before` is None where it was erased; both are None where the caller gave no way to pack items.
    """

    run: str
    seq: int
    items_before: tuple[str, ...]
    items_after: tuple[str, ...]
    before: str | None = None
    after: str | None = None


class ModelNeeds(Struct, frozen=True, kw_only=True):
    """Counts of the unknowns that only a model could settle.

    runs         that would be given another prompt, find other items, or not read one that they read, and so might
                 behave otherwise
    items        that would be there and were drawn from such runs
    extractions  runs from which another lesson would be drawn, because their verdict would be another one
    judgments    of checks and models under another judging policy, or of a model that was shown what would be otherwise
    drawn        extractions from runs under another policy of extraction or selection
    proposals    candidates about which a policy would have asked a model
    """

    runs: int = 0
    items: int = 0
    extractions: int = 0
    judgments: int = 0
    drawn: int = 0
    proposals: int = 0


class Unknowable(Struct, frozen=True, kw_only=True):
    """Counts of what stays unknown, because texts were erased, or settings or searches aren't recorded."""

    retrievals: int = 0
    prompts: int = 0


class WhatIf(Difference, frozen=True, kw_only=True):
    """What would differ under a supposition from `since_seq` to `position`: from the recorded bank to the supposed one,
    as both are at `position`; to the first order. What was never supported is no difference.

    `overdue` is the number of decisions and forgotten items that a correction is due to change without any supposition:
    above 0, the bank isn't canonical, and where decisions are made again, the differences hold what `correct` would do.
    `decided` counts the decisions that were made again, `retrieved` the recorded retrievals, of which `searched` were
    repeated: the others can't have found anything else. `supposed_seq` is the last position of the supposed log.
    """

    supposed_seq: int
    order: Literal["first"] = "first"
    decisions: tuple[DecisionDifference, ...] = ()
    retrievals: tuple[HitsDifference, ...] = ()
    prompts: tuple[PromptDifference, ...] = ()
    needs: ModelNeeds = ModelNeeds()
    unknowable: Unknowable = Unknowable()
    decided: int = 0
    retrieved: int = 0
    searched: int = 0
    overdue: int = 0

    @property
    def differs(self) -> bool:
        """Whether anything would differ beyond what was supposed, or might, if a model were asked."""
        found = (self.decisions, self.items, self.retrievals, self.prompts)
        return any(found) or self.needs != ModelNeeds() or self.unknowable != Unknowable()


def is_difference(each: ItemDifference) -> bool:
    """Return whether a supposition makes a difference to an item: without support is as good as not there."""
    before, after = each.before, each.after
    if any(side is not None and side.state != "unsupported" for side in (before, after)):
        return True
    return before is not None and after is not None and before != after


def _in_force(state: State, pair: Pair) -> tuple[Action, tuple[str, ...]] | None:
    made = state.pairs.get(pair)
    return None if made is None or not counts(state, pair) else (made.action, made.targets)


def decision_differences(before: State, after: State) -> Iterator[DecisionDifference]:
    """Yield the candidates about which another decision is in force, in the order of their first decisions."""
    for pair in dict.fromkeys((*before.pairs, *after.pairs)):
        was, would = _in_force(before, pair), _in_force(after, pair)
        if was != would:
            item = (before if pair in before.candidates else after).candidates[pair].item
            yield DecisionDifference(
                extraction=pair[0], candidate=pair[1], item=item.id, title=item.title, before=was, after=would
            )


def drawn_from(state: State, since: Mapping[str, int]) -> set[str]:
    """Return the active items that rest on candidates drawn from runs."""
    found = set[str]()
    for extraction in (id for run in since for id in state.relying.get(run, ())):
        pairs: Iterable[Pair] = ((extraction, index) for index in range(state.extractions[extraction].size))
        for pair in pairs:
            if pair in state.pairs and counts(state, pair) and state.pairs[pair].action != "discard":
                item = state.pairs[pair].item
                if item in state.items and state.items[item].state == "active":
                    found.add(item)
    return found
