"""Deciding about imported candidates: pure, by the consolidation policy that is in force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from rbank_es.errors import BadPolicy
from rbank_es.events import Event, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.base import Candidate
from rbank_es.importers.base import Unit, derived_id
from rbank_es.items import Item, ItemText
from rbank_es.policies import Append, Dedup, consolidate, policy_of
from rbank_es.state import State, fold


def plan(state: State, units: Iterable[Unit]) -> Iterator[Unit]:
    """The units with a `memories_consolidated` behind every extraction that has candidates.

    Each is decided in the state that those before it lead to. A bank without a consolidation policy gets all that is
    new, as under `append`. Raises `BadPolicy` if this release doesn't know the policy in force.
    """
    policy = _policy(state)
    for unit in units:
        events: list[Event] = []
        for event in unit.events:
            events.append(event)
            if isinstance(event, MemoriesExtracted) and event.heads:
                events.append(_decided(policy, state, event))
                state = _after(state, events[-2:])
        yield Unit(tuple(events), unit.size)


def _policy(state: State) -> Append | Dedup:
    choice = state.policies.get("consolidation")
    policy = policy_of(choice) if choice is not None else Append()
    if not isinstance(policy, Append | Dedup):
        raise BadPolicy(f"{policy.label} is no consolidation policy")
    return policy


def _decided(policy: Append | Dedup, state: State, event: MemoriesExtracted) -> MemoriesConsolidated:
    candidates = [Item.join(head, _words(text)) for head, text in zip(event.heads, event.candidates, strict=True)]
    return MemoriesConsolidated(
        id=derived_id(event.id.encode(), "consolidated"),
        occurred_at=event.occurred_at,
        extraction=event.id,
        policy=policy.label,
        decisions=consolidate(policy, state, candidates),
    )


def _words(text: Candidate) -> ItemText | None:
    return text if isinstance(text, ItemText) else None


def _after(state: State, events: Iterable[Event]) -> State:
    """The state after events that are not appended yet; their positions stand in for those that they will have."""
    return fold((replace(event, seq=seq) for seq, event in enumerate(events, state.position + 1)), state)
