"""Read models: each a pure function from events to rows, rebuildable from the log at any time.

`PROJECTIONS` is their registry: a projection is one file. `ReadModels` keeps them all in one SQLite file per bank,
`View` reads them, now or at an earlier position.
"""

from collections.abc import Collection
from functools import cache

from rbank_es.errors import BadInput, BadPlugin
from rbank_es.projections.engine import Projection
from rbank_es.registry import Registry

__all__ = ["PROJECTIONS", "Projection", "all_projections", "chosen_projections", "view_names"]

PROJECTIONS: Registry[Projection] = Registry(
    "projection",
    {
        "memory_index": "rbank_es.projections.memory_index:MEMORY_INDEX",
        "policies": "rbank_es.projections.policies_in_force:POLICIES_IN_FORCE",
        "usage": "rbank_es.projections.usage:USAGE",
        "runs": "rbank_es.projections.runs:RUNS",
        "leakage": "rbank_es.projections.leakage:LEAKAGE",
        "lineage": "rbank_es.projections.lineage:LINEAGE",
        "health": "rbank_es.projections.health:HEALTH",
    },
)
"""Every projection by name."""


def all_projections() -> tuple[Projection, ...]:
    """Return every projection, those of plugins last. Raises `BadPlugin` if two share a name, a table or a view."""
    return _checked(PROJECTIONS.names())


def chosen_projections(only: Collection[str] | None) -> tuple[Projection, ...]:
    """Return the projections with these names, each once; all for None. Raises `BadInput` for an unknown name."""
    if only is None:
        return all_projections()
    if not only:
        raise BadInput("no projection was named; leave the list out for all of them")
    return tuple(PROJECTIONS.get(name) for name in dict.fromkeys(only))


def view_names() -> tuple[str, ...]:
    """Return the names of all views, which people and programs read."""
    return tuple(view for projection in all_projections() for view in projection.views)


@cache
def _checked(names: tuple[str, ...]) -> tuple[Projection, ...]:
    owners: dict[str, str] = {}
    found = tuple(PROJECTIONS.get(name) for name in names)
    for name, projection in zip(names, found, strict=True):
        if projection.name != name:
            raise BadPlugin(name, f"it is registered as {name!r}, and calls itself {projection.name!r}")
        # All projections share one SQLite file.
        for thing in (*projection.schema, *projection.views):
            if owners.setdefault(thing, name) != name:
                raise BadPlugin(name, f"its table, index or view {thing!r} is one of {owners[thing]}; rename it")
    return found
