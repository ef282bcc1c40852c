"""Deciding about imported candidates: pure, by the consolidation policy that is in force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rbank_es.bank.decisions import Decider
from rbank_es.importers.units import Unit
from rbank_es.state import State


def plan(state: State, units: Iterable[Unit]) -> Iterator[Unit]:
    """The units with a `memories_consolidated` behind every extraction that has candidates.

    Each is decided in the state that those before it lead to. A bank without a consolidation policy gets all that is
    new, as under `append`. Raises `BadPolicy` if this release doesn't know the policy in force.
    """
    decider = Decider(state)
    for unit in units:
        yield Unit(decider.decided(unit.events), unit.size)
