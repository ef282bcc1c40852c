"""The projection `rare_events`: where the log has the events of types that few are of.

They say how a bank is set up, and many acts ask for all of them. To find them by type, the whole log would be scanned.
The events themselves stay in the log.
"""

from __future__ import annotations

import sqlite3

from rbank_es.events import (
    ArtifactMaterialised,
    ConsolidationProposed,
    Event,
    OntologyRegistered,
    PolicySet,
    type_of,
)
from rbank_es.projections.projection import Insert, Projection, Table

_UPTO = "SELECT from_seq FROM rare_events WHERE type = ? AND from_seq <= ? ORDER BY from_seq"


def record_place(event: Event) -> tuple[Insert]:
    """Record the position of an event by its type."""
    return (Insert("rare_events", (type_of(event), event.seq)),)


def positions_of(connection: sqlite3.Connection, type_: str, upto: int) -> list[int]:
    """Return the positions of the events of a type up to one, in order."""
    return [position for (position,) in connection.execute(_UPTO, (type_, upto))]


RARE_EVENTS = Projection(
    name="rare_events",
    version=1,
    title="Positions of registrations, policies, artifacts and proposals about candidates",
    handlers=dict.fromkeys((ArtifactMaterialised, ConsolidationProposed, OntologyRegistered, PolicySet), record_place),
    tables=(Table(name="rare_events", columns="type TEXT NOT NULL", key=("type", "from_seq")),),
)
