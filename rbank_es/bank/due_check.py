"""The quick answer to whether a correction is due: from read models that are at the head, or nearly, without a fold."""

from __future__ import annotations

from rbank_es.errors import LogError, ProjectionError
from rbank_es.log import EventLog
from rbank_es.projections.read_models import ReadModels

_BEHIND = 10
"""Read models that lack more than one event in so many are left alone: a fold of the log takes less."""


def is_nothing_due(log: EventLog, models: ReadModels) -> bool:
    """Return whether the read models show that nothing is due; False if they can't be read, or are far behind.

    They are brought up to the head first, as a search does.
    """
    position = log.position()
    done = min((point.position for point in models.checkpoints().values()), default=0)
    if (position - done) * _BEHIND > position:
        return False
    try:
        with models.caught_up(log) as view:
            return view.position >= position and not view.rows("due")
    except (LogError, OSError, ProjectionError):
        return False
