"""Read models: each a pure function from events to rows, rebuildable from the log at any time.

`ALL` lists them. `ReadModels` keeps them in one SQLite file per bank, `View` reads them, now or at an earlier position.
"""

from rbank_es.errors import BadInput
from rbank_es.projections.engine import Projection
from rbank_es.projections.health import HEALTH
from rbank_es.projections.leakage import LEAKAGE
from rbank_es.projections.lineage import LINEAGE
from rbank_es.projections.memory_index import MEMORY_INDEX
from rbank_es.projections.policies_in_force import POLICIES
from rbank_es.projections.runs import RUNS
from rbank_es.projections.usage import USAGE

__all__ = ["ALL", "VIEWS", "Projection", "named"]

ALL: tuple[Projection, ...] = (MEMORY_INDEX, POLICIES, USAGE, RUNS, LEAKAGE, LINEAGE, HEALTH)
"""Every projection of this release."""

VIEWS: tuple[str, ...] = tuple(view for projection in ALL for view in projection.views)
"""The views with plain names, which people and programs read."""

_BY_NAME = {projection.name: projection for projection in ALL}


def named(name: str) -> Projection:
    """The projection with this name. Raises `BadInput` if there is none."""
    if name not in _BY_NAME:
        raise BadInput(f"no projection {name!r}; there are: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
