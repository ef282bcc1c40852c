"""The differences between a bank as recorded and as supposed, as values, and those of two states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rbank_es.bank.bank_difference import Difference, ItemDifference
from rbank_es.events.memory_events import Action
from rbank_es.law import Pair, State
from rbank_es.law.canonical import counts


class DecisionDifference(Struct, frozen=True, kw_only=True):
    """A decision in force that would differ: action and targets; None where the candidate doesn't count, or isn't."""

    extraction: str
    place: int
    item: Annotated[str, Meta(description="id: the candidate's item")]
    title: str
    before: Annotated[
        tuple[Action, tuple[str, ...]] | None,
        Meta(description="JSON list: the action and its targets, as recorded; null: the candidate doesn't count"),
    ]
    after: Annotated[
        tuple[Action, tuple[str, ...]] | None,
        Meta(description="JSON list: the action and its targets, as supposed; null: the candidate wouldn't count"),
    ]


class HitsDifference(Struct, frozen=True, kw_only=True):
    """A recorded retrieval that would find other items, or the same in another order: ids, best first."""

    seq: Annotated[int, Meta(description="position in the log: the search")]
    run: Annotated[str | None, Meta(description="id: the run that searched; null: none")]
    mode: Annotated[
        Literal["auto", "tool"], Meta(description="name: who searched: auto, for the run's context; tool, the agent")
    ]
    before: Annotated[tuple[str, ...], Meta(description="JSON list: ids of the items that were found, best first")]
    after: Annotated[tuple[str, ...], Meta(description="JSON list: ids of the items that would be found, best first")]


class PromptDifference(Struct, frozen=True, kw_only=True):
    """A run that would be given other procedures at position `seq`: ids of the items chosen, and the injected text.

    `before` is None where it was erased; both are None in an answer that shows no prompts.
    """

    run: str
    seq: Annotated[int, Meta(description="position in the log: the context that was built")]
    items_before: Annotated[
        tuple[str, ...], Meta(description="JSON list: ids of the items that were chosen for the run")
    ]
    items_after: Annotated[tuple[str, ...], Meta(description="JSON list: ids of the items that would be chosen")]
    before: Annotated[
        str | None, Meta(description="text: the text that the run was given; null: erased, or no prompts are shown")
    ] = None
    after: Annotated[
        str | None, Meta(description="text: the text that the run would be given; null: no prompts are shown")
    ] = None


class ModelNeeds(Struct, frozen=True, kw_only=True):
    """Counts of the unknowns that only a model could settle."""

    runs: Annotated[
        int, Meta(description="number: runs that would be given or find something else, and so might behave otherwise")
    ] = 0
    items: Annotated[int, Meta(description="number: items that would be there and were drawn from such runs")] = 0
    extractions: Annotated[int, Meta(description="number: runs to extract from under another verdict")] = 0
    judgments: Annotated[int, Meta(description="number: judgments that might be others")] = 0
    drawn: Annotated[int, Meta(description="number: extractions from runs under another policy")] = 0
    proposals: Annotated[int, Meta(description="number: candidates about which a policy would have asked a model")] = 0


class Unknowable(Struct, frozen=True, kw_only=True):
    """Counts of what stays unknown, because texts were erased, or settings or searches aren't recorded."""

    retrievals: Annotated[int, Meta(description="number: searches of which it can't be told what they would find")] = 0
    prompts: Annotated[int, Meta(description="number: prompts of which it can't be told what they would be")] = 0


class WhatIf(Difference, frozen=True, kw_only=True):
    """What would differ under a supposition from `since_seq` to `position`: from the recorded bank to the supposed one,
    as both are at `position`; to the first order. What was never supported is no difference.

    `overdue` is the number of decisions and forgotten items that a correction is due to change without any supposition:
    above 0, the bank isn't canonical, and where decisions are made again, the differences hold what `correct` would do.
    `decided` counts the decisions that were made again, `retrieved` the recorded retrievals, of which `searched` were
    repeated: the others can't have found anything else. `supposed_seq` is the last position of the supposed log.
    """

    supposed_seq: Annotated[int, Meta(description="position in the log: the end of the log as it would be")]
    order: Annotated[
        Literal["first"], Meta(description="name: first: what agents, models and people did is taken as recorded")
    ] = "first"
    decisions: Annotated[
        tuple[DecisionDifference, ...], Meta(description="JSON list: decisions in force that would be others")
    ] = ()
    retrievals: Annotated[
        tuple[HitsDifference, ...], Meta(description="JSON list: recorded searches that would find other items")
    ] = ()
    prompts: Annotated[
        tuple[PromptDifference, ...], Meta(description="JSON list: runs that would be given other procedures")
    ] = ()
    needs: Annotated[ModelNeeds, Meta(description="JSON object: how much only a model could say")] = ModelNeeds()
    unknowable: Annotated[
        Unknowable,
        Meta(description="JSON object: what stays unknown: texts were erased, settings or searches aren't recorded"),
    ] = Unknowable()
    decided: Annotated[int, Meta(description="number: decisions that were made again")] = 0
    retrieved: Annotated[int, Meta(description="number: recorded searches behind `since_seq`")] = 0
    searched: Annotated[
        int,
        Meta(description="number: of those, searches that were repeated: the others can't have found anything else"),
    ] = 0
    overdue: Annotated[
        int,
        Meta(
            description="number: decisions and forgotten items that a correction would change without any supposition"
        ),
    ] = 0

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
                extraction=pair[0], place=pair[1], item=item.id, title=item.title, before=was, after=would
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
