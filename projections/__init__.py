"""Projections: pure functions from events to the rows of read models, which can be rebuilt at any time.

`PROJECTIONS` is their registry: a projection is one file. `ReadModels` keeps the rows of all projections in one SQLite
file per bank; `View` reads them, now or at an earlier position.
"""

from rbank_es.projections.projection import PROJECTIONS, Projection, all_projections, chosen_projections, view_texts

__all__ = ["PROJECTIONS", "Projection", "all_projections", "chosen_projections", "view_texts"]
