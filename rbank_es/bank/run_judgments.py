"""Judgments of runs: who judged, by which authority, and which one stands."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from rbank_es.bank.bank_access import OpenBank
from rbank_es.events import Event, JudgmentOverruled, RunJudged
from rbank_es.events.run_events import Purpose
from rbank_es.law import LiveState
from rbank_es.law.fold_memory import rank_of
from rbank_es.log.run_reader import read_run

JUDGMENT_TYPES = frozenset({"run_judged", "judgment_overruled"})


class RankedJudgment(NamedTuple):
    """A judgment with its authority's rank (None if it doesn't count), and whether it stands for its purpose."""

    event: RunJudged | JudgmentOverruled
    rank: int | None
    stands: bool


def judgments_of(
    bank: OpenBank, run: str, position: int | None = None, *, then: RunJudged | None = None
) -> list[RankedJudgment]:
    """Return all judgments of a run up to a position (default: the head), in order, as the last one `then` if given.

    `then` is one that isn't recorded yet: whether it would stand is known without recording it.
    """
    upto = bank.position if position is None else position
    judged = read_run(bank.log, run, upto, types=JUDGMENT_TYPES).judgments
    policies = bank.rare_events("policy_set", upto)
    known = merge(judged, policies, key=attrgetter("seq"))
    return ranked(known if then is None else chain(known, (then,)))


def ranked(events: Iterable[Event]) -> list[RankedJudgment]:
    """Return the judgments among events in order, each by the policies that were set before it.

    The fold says which of them stand, so no second rule does.
    """
    live, ranks = LiveState(), list[tuple[RunJudged | JudgmentOverruled, int | None]]()
    for event in events:
        if isinstance(event, RunJudged | JudgmentOverruled):
            ranks.append((event, rank_of(event, live.state.policies)))
        live.advance((event,))
    stands = {(run, purpose, verdict.seq) for (run, purpose), verdict in live.state.verdicts.items()}
    return [RankedJudgment(each, rank, (each.run, each.purpose, each.seq) in stands) for each, rank in ranks]


def standing(judged: Iterable[RankedJudgment], purpose: Purpose = "learning") -> RankedJudgment | None:
    """Return the one of a run's judgments that stands for a purpose, None if none does."""
    return next((each for each in judged if each.stands and each.event.purpose == purpose), None)
