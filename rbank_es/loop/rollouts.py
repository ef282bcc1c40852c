"""Rollouts: several runs of one task side by side, the best of them, and the measures of their differences.

pass@1      the share of the decided rollouts that succeeded: the mean of a single run
pass@k      whether any succeeded; unknown where none did and some are undecided, because one of those may have
best of n   whether the selected one did: success first, then undecided, then the fewest iterations, the lowest index
diversity   how much the submitted queries differ, 0 to 1: the mean of 1 - difflib's ratio over all pairs; of the
            answers unless all submitted a query; None for fewer than two rollouts
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events.run_events import VerdictValue
from rbank_es.log import ANY, Appended, EventLog, Expected, LogWrapper
from rbank_es.log.run_reader import RunEvents
from rbank_es.policies import BestOf
from rbank_es.system.daemon_threads import first_error, run_threads

if TYPE_CHECKING:
    from rbank_es.events import Event


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """One of several runs of a task. `verdict` is the one for learning, `scored` that for scoring."""

    index: int
    run: str
    outcome: str
    verdict: VerdictValue | None = None
    scored: VerdictValue | None = None
    iterations: int = 0
    answer: str = ""
    sparql: str = ""


def rollout_of(bank: Bank, run: RunEvents, verdict: VerdictValue | None, scored: VerdictValue | None) -> Rollout:
    """Return a run that has ended as a rollout, given the verdicts that stand. Its steps have to be read too."""
    started, end = run.started, run.end
    assert started is not None and end is not None, "the run has not ended"
    return Rollout(
        index=started.rollout_index or 0,
        run=run.run,
        outcome=end.outcome,
        verdict=verdict,
        scored=scored,
        iterations=run.iterations,
        answer=bank.text(end.answer) or "",
        sparql=bank.text(end.sparql) or "",
    )


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of several rollouts of one task: see the top of this module. None is unknown."""

    rollouts: int
    best: str
    pass_at_1: float | None = None
    pass_at_k: bool | None = None
    best_of_n: bool | None = None
    scored_pass_at_1: float | None = None
    scored_pass_at_k: bool | None = None
    scored_best_of_n: bool | None = None
    diversity: float | None = None
    diversity_of: Literal["sparql", "answer"] | None = None


def spread_of(rollouts: Sequence[Rollout], policy: BestOf | None = None) -> Spread:
    """Return the statistics of the rollouts of one task, with the best by a selection policy, the default unless given.

    Raises ValueError for none.
    """
    best = (policy or BestOf()).best(rollouts)
    judged = [won for one in rollouts if (won := _won(one.verdict)) is not None]
    scored = [won for one in rollouts if (won := _won(one.scored)) is not None]
    diversity, of = diversity_of(rollouts)
    return Spread(
        rollouts=len(rollouts),
        best=best.run,
        pass_at_1=_share(judged),
        pass_at_k=_any(judged, len(rollouts)),
        best_of_n=_won(best.verdict),
        scored_pass_at_1=_share(scored),
        scored_pass_at_k=_any(scored, len(rollouts)),
        scored_best_of_n=_won(best.scored),
        diversity=diversity,
        diversity_of=of,
    )


def _won(verdict: VerdictValue | None) -> bool | None:
    """Return whether a verdict is a win; None for one that is neither a win nor a loss."""
    return None if verdict in (None, "undecided") else verdict == "success"


def _any(decided: Sequence[bool], rollouts: int) -> bool | None:
    return True if any(decided) else False if len(decided) == rollouts else None


def _share(verdicts: Sequence[bool]) -> float | None:
    return sum(verdicts) / len(verdicts) if verdicts else None


def diversity_of(rollouts: Sequence[Rollout]) -> tuple[float | None, Literal["sparql", "answer"] | None]:
    """Return how much rollouts differ, 0 (all alike) to 1, and the texts compared; None for fewer than two.

    White space doesn't count.
    """
    if len(rollouts) < 2:
        return None, None
    of: Literal["sparql", "answer"] = "sparql" if all(one.sparql.strip() for one in rollouts) else "answer"
    texts = [" ".join((one.sparql if of == "sparql" else one.answer).split()) for one in rollouts]
    # Sort, because difflib's ratio depends on the order of two texts, and that in which rollouts ended is chance.
    pairs = [*combinations(sorted(text[: limits.ROLLOUT_COMPARED_CHARS] for text in texts), 2)]
    # autojunk would ignore characters that make up over 1 % of a long text: nearly all of them.
    return sum(1 - SequenceMatcher(None, *pair, autojunk=False).ratio() for pair in pairs) / len(pairs), of


# ---------------------------------------------------------------- side by side


class RolloutStopped(BaseException):
    """Raised in the thread of a rollout: the loop was interrupted, and nothing more may be recorded."""


class StoppableLog(LogWrapper):
    """A log that a rollout's thread appends to until it is stopped: from then on, appends raise `RolloutStopped`."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._mutex = threading.Lock()
        self._is_stopped = False

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """Append as the log does, until it is stopped."""
        # Held during the append, so that `stop` returns when none is under way.
        with self._mutex:
            if self._is_stopped:
                raise RolloutStopped
            return super().append(events, expected=expected)

    def stop(self) -> None:
        """Refuse all later appends; one that runs now is waited for."""
        with self._mutex:
            self._is_stopped = True

    def close(self) -> None:
        """Leave the log open, because it belongs to the caller."""


def side_by_side(bank: Bank, works: Sequence[Callable[[Bank], None]]) -> None:
    """Call several functions at once, each in a thread with the caller's context variables and its own bank.

    Returns when all have returned. Raises the first of their errors, in the order of `works`; the others are in its
    notes. An interruption of the caller is raised at once: from then on nothing is recorded, and each thread ends at
    its next append.
    """
    logs = [StoppableLog(bank.log) for _ in works]
    banks = [Bank(log, bank.name) for log in logs]
    errors: list[BaseException | None] = [None] * len(works)

    def work(at: int) -> None:
        try:
            works[at](banks[at])
        except BaseException as error:
            errors[at] = error
        finally:
            banks[at].close()

    try:
        run_threads([partial(work, at) for at in range(len(works))])
    except BaseException:
        for log in logs:
            log.stop()
        raise
    if failed := [error for error in errors if error is not None]:
        raise first_error(failed)
