"""Forgetting policies: the active items that a bank evicts, as a pure function of state and policy."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, ClassVar

from msgspec import Meta

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import JUDGE_SOURCES
from rbank_es.policies.policy import Policy
from rbank_es.state import ItemState, State, usage

Items = Annotated[int, Meta(ge=0, le=limits.POLICY_ITEMS)]


class ForgettingPolicy(Policy, frozen=True, kw_only=True):
    """A rule that chooses which active items to give up."""

    kind: ClassVar[PolicyKind] = "forgetting"

    def to_forget(self, state: State) -> tuple[str, ...]:
        """Return the ids of the active items to forget, in the order in which they are given up."""
        raise NotImplementedError


class Never(ForgettingPolicy, frozen=True, kw_only=True):
    """Nothing is forgotten."""

    name: ClassVar[str] = "never"

    def to_forget(self, state: State) -> tuple[str, ...]:
        """Return no id."""
        return ()


class Bounded(ForgettingPolicy, frozen=True, kw_only=True):
    """At most `max_items` active items, and of each polarity never fewer than its floor (or all that there are).

    Items that serve the judge (principles, episodes) are neither counted nor forgotten.
    """

    name: ClassVar[str] = "bounded"

    max_items: Annotated[int, Meta(ge=1, le=limits.POLICY_ITEMS)] = 1_000
    floor_success: Items = 0
    floor_failure: Items = 0

    def __post_init__(self) -> None:
        floors = self.floor_success + self.floor_failure
        if floors > self.max_items:
            raise BadPolicy(
                f"forgetting policy bounded: the floors keep {floors:,} items, max_items allows {self.max_items:,}; "
                "lower the floors or raise max_items"
            )

    def to_forget(self, state: State) -> tuple[str, ...]:
        """Return the ids of the active items over `max_items`, in the order in which they are given up.

        First go those with the fewest wins, among these the fewest uses, then the least support, then the earliest
        born, then by id. An item that would take its polarity below the floor is passed over.
        """
        kept = [entry for entry in state.items.values() if entry.state == "active" and _is_for_agents(entry)]
        spare = Counter(entry.item.polarity for entry in kept)
        spare["success"] -= self.floor_success
        spare["failure"] -= self.floor_failure
        excess, given_up = len(kept) - self.max_items, list[str]()
        # Sorting needs the uses of all items, so it is left out while there is room.
        for entry in _by_worth(kept, state) if excess > 0 else ():
            if len(given_up) < excess and spare[entry.item.polarity] > 0:
                spare[entry.item.polarity] -= 1
                given_up.append(entry.item.id)
        return tuple(given_up)


def _is_for_agents(entry: ItemState) -> bool:
    return entry.item.src not in JUDGE_SOURCES


def _by_worth(entries: list[ItemState], state: State) -> list[ItemState]:
    used = usage(state)

    def worth(entry: ItemState) -> tuple[int, int, int, int, str]:
        uses, wins = used.get(entry.item.id, (0, 0))
        # The id comes last, because two machines must give up the same items.
        return wins, uses, entry.support, entry.born_seq, entry.item.id

    return sorted(entries, key=worth)
