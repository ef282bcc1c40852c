"""The state of a bank: the pure fold over events, digests of states, and differences between two states.

The names below are imported on first use, because a search or an append needs few of them.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
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
        counted_uses_of,
        items_above,
        items_of_task,
        outcomes,
        top_tenth,
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
    "counted_uses_of",
    "evolve",
    "fold",
    "items_above",
    "items_of_task",
    "outcomes",
    "top_tenth",
    "usage",
    "wins",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        ".bank_state": (
            "BIRTHS",
            "Due",
            "ItemState",
            "ItemStatus",
            "Pair",
            "RunState",
            "StandingVerdict",
            "State",
            "active",
            "counted_uses",
            "counted_uses_of",
            "items_above",
            "items_of_task",
            "outcomes",
            "top_tenth",
            "usage",
            "wins",
        ),
        ".evolution": (
            "RELEVANT",
            "RESOLVED",
            "LiveState",
            "evolve",
            "fold",
        ),
    },
)
