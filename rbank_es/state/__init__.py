"""The state of a bank: the pure fold over events, digests of states, and differences between two states."""

from rbank_es.state.bank_state import (
    BIRTHS,
    RELEVANT,
    RESOLVED,
    ItemState,
    ItemStatus,
    RunState,
    StandingVerdict,
    State,
    active,
    evolve,
    fold,
    usage,
    wins,
)

__all__ = [
    "BIRTHS",
    "RELEVANT",
    "RESOLVED",
    "ItemState",
    "RunState",
    "ItemStatus",
    "State",
    "StandingVerdict",
    "active",
    "evolve",
    "fold",
    "usage",
    "wins",
]
