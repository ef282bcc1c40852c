"""The check that a bank is canonical: that its decisions are those that today's verdicts lead to."""

from __future__ import annotations

from msgspec import Struct

from rbank_es.bank.bank_access import OpenBank
from rbank_es.errors import LogError, ProjectionError
from rbank_es.log import EventLog
from rbank_es.projections.read_models import ReadModels
from rbank_es.system.progress import OnProgress


class CanonicalCheck(Struct, frozen=True, kw_only=True):
    """The distance of a bank from its canonical form.

    `decided` is the number of decisions that were made again: all of them if `refolded`, else those that may differ
    since the last correction. `decisions` and `forgotten` are the numbers that differ, of decisions and of items that
    are forgotten wrongly, or wrongly not. `causes` are ids of events that no correction has answered, the
    first `limits.CORRECTION_CAUSES` of them.
    """

    refolded: bool
    decided: int
    decisions: int
    forgotten: int
    causes: tuple[str, ...]

    @property
    def canonical(self) -> bool:
        """Whether nothing differs."""
        return not (self.decisions or self.forgotten)


NOTHING_DUE = CanonicalCheck(refolded=False, decided=0, decisions=0, forgotten=0, causes=())
"""The result where no decision may differ since the last correction."""


def check_canonical(bank: OpenBank, *, every: bool, progress: OnProgress | None = None) -> CanonicalCheck:
    """Compare a bank at its head with its canonical form: what is due, or `every` decision, made again.

    `progress` is called with the number of candidates done and their total.
    """
    if not every and shows_nothing_due(bank):
        return NOTHING_DUE
    with bank.latest.at(bank.log.position()) as basis:
        state, reconciler = basis.state, bank.latest.reconciler
        found = reconciler.refold(state, progress) if every else reconciler.canon(state)
        return CanonicalCheck(
            refolded=every,
            decided=found.decided,
            decisions=len(found.decisions),
            forgotten=len(found.forgotten) + len(found.remembered),
            causes=state.due.causes,
        )


def shows_nothing_due(bank: OpenBank) -> bool:
    """Return whether read models show that no correction is due; False where they are far behind, and where the state
    is in memory: it answers at once, and folding the log takes ten times as long as reading it.
    """
    return bank.latest.is_empty() and _is_nothing_due(bank.log, bank.read_models())


_BEHIND = 10
"""Read models that lack more than one event in so many are left alone: a fold of the log takes less."""


def _is_nothing_due(log: EventLog, models: ReadModels) -> bool:
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
        # Read models may lag, be damaged or be refused: then the decisions are made again, which needs none.
        return False
