"""Read models: each a pure function from events to rows, rebuildable from the log at any time.

`PROJECTIONS` is their registry: a projection is one file. `ReadModels` keeps them all in one SQLite file per bank,
`View` reads them, now or at an earlier position.
"""

from rbank_es.projections.projection import PROJECTIONS, Projection, all_projections, chosen_projections, view_names

__all__ = ["PROJECTIONS", "Projection", "all_projections", "chosen_projections", "view_names"]
