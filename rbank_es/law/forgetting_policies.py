"""Forgetting policies: the active items that a bank evicts, as a pure function of state and policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Annotated, ClassVar

from msgspec import Meta

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import JUDGE_SOURCES
from rbank_es.law.bank_state import ItemState, Order, State, outcomes, usage
from rbank_es.policies.policy_registry import Policy
from rbank_es.system.proportion import proven_share

Items = Annotated[int, Meta(ge=0, le=limits.POLICY_ITEMS)]

Worth = tuple[float, int]
"""What an item's uses speak for, compared in order; the least is given up first."""

_UNUSED: Worth = (0, 0)


class ForgettingPolicy(Policy, frozen=True, kw_only=True):
    """A rule that chooses which active items to give up."""

    kind: ClassVar[PolicyKind] = "forgetting"

    def overflows(self, active: int) -> bool:
        """Return whether a bank with so many active items for agents may have to give some up."""
        raise NotImplementedError

    def to_forget(self, state: State) -> tuple[str, ...]:
        """Return the ids of the active items to forget, in the order in which they are given up.

        It may look at active items, their uses and the verdicts on the runs that used them: in a correction there is
        nothing else in the state.
        """
        raise NotImplementedError

    def behind_decisions(self, active: int, state: Callable[[], State]) -> tuple[str, ...]:
        """Return the ids of the items to forget behind decisions that leave so many active items for agents.

        `state` returns the state after them; it is asked only where there may be one to forget.
        """
        return self.to_forget(state()) if self.overflows(active) else ()


class Never(ForgettingPolicy, frozen=True, kw_only=True):
    """Nothing is forgotten."""

    name: ClassVar[str] = "never"

    def overflows(self, active: int) -> bool:
        """Return False."""
        return False

    def to_forget(self, state: State) -> tuple[str, ...]:
        """Return no id."""
        return ()


class Bounded(ForgettingPolicy, frozen=True, kw_only=True):
    """At most `max_items` active items, and of each polarity never fewer than its floor (or all that there are).

    Newborn items go last: an item that no run could be given yet has no win, whatever its worth. Items that serve the
    judge (principles, episodes) are neither counted nor forgotten.
    """

    name: ClassVar[str] = "bounded"

    max_items: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.POLICY_ITEMS,
            description="Active items that the bank keeps at most. Default: 1,000, our own choice.",
        ),
    ] = 1_000
    floor_success: Annotated[
        Items, Meta(description="Strategies below which none is forgotten. Default: 0, no floor.")
    ] = 0
    floor_failure: Annotated[
        Items, Meta(description="Guardrails below which none is forgotten. Default: 0, no floor.")
    ] = 0
    grace: Annotated[
        Items,
        Meta(
            description="Items of the last so many consolidations that added any are newborn: they go after all "
            "others. Default: 10, our own choice; a run is given one strategy and one guardrail, so an item needs "
            "several runs to be tried."
        ),
    ] = 10

    def __post_init__(self) -> None:
        floors = self.floor_success + self.floor_failure
        if floors > self.max_items:
            raise BadPolicy(
                f"forgetting policy {self.name}: the floors keep {floors:,} items, max_items allows "
                f"{self.max_items:,}; lower the floors or raise max_items"
            )

    def overflows(self, active: int) -> bool:
        """Return whether there are more than `max_items`."""
        return active > self.max_items

    def to_forget(self, state: State) -> tuple[str, ...]:
        """Return the ids of the active items over `max_items`, in the order in which they are given up.

        First go those that aren't newborn, among these the least worth, then the least support, then those decided on
        first. An item that would take its polarity below the floor is passed over.
        """
        kept = [entry for entry in state.items.values() if entry.state == "active" and _is_for_agents(entry)]
        excess, given_up = len(kept) - self.max_items, list[str]()
        # Sorting needs the uses of all items, so it is left out while there is room.
        if excess <= 0:
            return ()
        spare = Counter(entry.item.polarity for entry in kept)
        spare["success"] -= self.floor_success
        spare["failure"] -= self.floor_failure
        worth, newborn_since = self.worth(state), _newborn_since(kept, self.grace)

        def place(entry: ItemState) -> tuple[bool, Worth, int, Order]:
            # The order of first decisions comes last, because two machines must give up the same items.
            newborn = entry.rank[0] >= newborn_since
            return newborn, worth.get(entry.item.id, _UNUSED), entry.support, entry.rank

        for entry in sorted(kept, key=place):
            if len(given_up) < excess and spare[entry.item.polarity] > 0:
                spare[entry.item.polarity] -= 1
                given_up.append(entry.item.id)
        return tuple(given_up)

    def worth(self, state: State) -> dict[str, Worth]:
        """Return the worth of each item that was ever used: wins, then uses."""
        return {item: (wins, uses) for item, (uses, wins) in usage(state).items()}


class LeastProven(Bounded, frozen=True, kw_only=True):
    """As `bounded`, but the item whose win rate is proven least goes first, by the lower end of its Wilson interval.

    So an item that won 3 of 3 decided uses outlasts one that won 4 of 20. One without a decided use is proven least.
    """

    name: ClassVar[str] = "utility"

    def worth(self, state: State) -> dict[str, Worth]:
        """Return the worth of each item that was ever used: the win rate that is proven, then uses."""
        decided = outcomes(state)
        return {item: (proven_share(decided[item][0], sum(decided[item])), n) for item, (n, _) in usage(state).items()}


def _is_for_agents(entry: ItemState) -> bool:
    return entry.item.src not in JUDGE_SOURCES


def _newborn_since(entries: list[ItemState], grace: int) -> float:
    """Return the position of the first decision from which on items are newborn; infinity where none is."""
    births = sorted({entry.rank[0] for entry in entries})
    return births[-min(grace, len(births))] if grace else inf
