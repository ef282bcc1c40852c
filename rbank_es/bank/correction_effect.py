"""The effect of a correction, as a value: what it changed, and the runs and items that were misled."""

from __future__ import annotations

from rbank_es.bank.bank_difference import ActDifference
from rbank_es.events.run_events import VerdictValue
from rbank_es.law.misled_runs import MisledRun, TaintedItem, Vouched


class Correction(ActDifference, frozen=True, kw_only=True):
    """What a correction changed, or would change, and what it shows.

    verdicts    verdicts that were given, by run
    misled      runs that had been given items that left
    tainted     items that were drawn from such runs and are active or pending
    aside       extractions that were set aside because they were drawn from such runs
    stays       items that would have left, but for a person who vouched for them
    to_extract  runs from which nothing was drawn under the verdicts that stand now, with the rollouts that teach
                together with them; a model can do that
    decided     number of decisions that differ, which were recorded again
    """

    verdicts: dict[str, VerdictValue] = {}
    misled: tuple[MisledRun, ...] = ()
    tainted: tuple[TaintedItem, ...] = ()
    aside: tuple[str, ...] = ()
    stays: tuple[Vouched, ...] = ()
    to_extract: tuple[str, ...] = ()
    decided: int = 0
