"""Judgments of runs: who judged, by which authority, and which one stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rbank_es.bank.bank import Bank
from rbank_es.events import Event, JudgmentOverruled, PolicySet, RunJudged
from rbank_es.state import fold

JUDGMENT_TYPES = frozenset({"run_judged", "judgment_overruled"})

AUTHORITIES: Mapping[int | None, str] = {
    5: "a person",
    4: "the right answer",
    3: "a check, sure",
    2: "a model",
    1: "a check",
    0: "undecided",
    None: "doesn't count",
}
"""The ranks of `rbank_es.state.validity.authority` in words."""


class RankedJudgment(NamedTuple):
    """A judgment with its authority's rank (None if it doesn't count), and whether it stands for its purpose."""

    event: RunJudged | JudgmentOverruled
    rank: int | None
    stands: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the event's own, with `rank`, `authority` and `stands`."""
        own = {name: getattr(self.event, name) for name in self.event.__struct_fields__ if name != "salt"}
        return own | {"rank": self.rank, "authority": AUTHORITIES[self.rank], "stands": self.stands}


def judgments_of(bank: Bank, run: str, position: int) -> list[RankedJudgment]:
    """Return all judgments of a run up to a position, in order."""
    judged = list(bank.events(point=position, run=run, types=JUDGMENT_TYPES))
    policies = list(bank.events(point=position, types={"policy_set"})) if judged else []
    standing = fold(_in_order([*judged, *policies])).verdicts
    made = []
    for event in judged:
        assert isinstance(event, RunJudged | JudgmentOverruled)
        # The same fold of this one judgment alone, so that no second rule says what counts.
        alone = fold([*_before(policies, event), event]).verdicts.get((run, event.purpose))
        holds = standing.get((run, event.purpose))
        made.append(
            RankedJudgment(event, None if alone is None else alone.rank, holds is not None and holds.seq == event.seq)
        )
    return made


def _in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.seq)


def _before(policies: list[Event], event: Event) -> list[Event]:
    return [each for each in policies if isinstance(each, PolicySet) and each.seq < event.seq]
