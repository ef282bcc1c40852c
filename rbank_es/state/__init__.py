"""The state of a bank: the pure fold over events, digests of states, and differences between two states."""

from rbank_es.state.bank_state import (
    BIRTHS,
    Due,
    ItemState,
    ItemStatus,
    Pair,
    RunState,
    StandingVerdict,
    State,
    active,
    counted_uses,
    items_of_task,
    outcomes,
    usage,
    wins,
)
from rbank_es.state.evolution import RELEVANT, RESOLVED, LiveState, evolve, fold

__all__ = [
    "BIRTHS",
    "Due",
    "Pair",
    "RELEVANT",
    "RESOLVED",
    "ItemState",
    "LiveState",
    "RunState",
    "ItemStatus",
    "State",
    "StandingVerdict",
    "active",
    "counted_uses",
    "evolve",
    "fold",
    "items_of_task",
    "outcomes",
    "usage",
    "wins",
]
