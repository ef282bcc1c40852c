"""The answer to the question `bisect`, which `rbank_es.rerun.bisection` finds: that needs what is above this floor."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion

Metric = Literal["success", "score"]
"""`success`: the standing verdict for learning. `score`: the standing verdict by the right answer, which only measures.
"""

BisectOutcome = Literal["changed", "same", "nothing", "unknown"]
"""changed: the run was given something else than when the good run began. same, nothing: it was given the same, or
nothing of the bank, so memory had no part. unknown: nobody can tell; the reason says why."""


class Tally(msgspec.Struct, frozen=True):
    """The number of successes among the runs that were decided: a success or a failure."""

    successes: int
    decided: int


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A run that had a prompt, and its standing verdict for learning; None if it was not judged."""

    run: str
    verdict: str | None = None


class GivenCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One check: the items that the bank as of a position gives to a run, and whether all is as the run had it.

    `answers` are other recorded runs that had the very prompt which the run would have had then.
    """

    position: int
    items: tuple[str, ...]
    same: bool
    answers: tuple[RecordedAnswer, ...] = ()


class GivenChange(msgspec.Struct, frozen=True, kw_only=True):
    """The position of an event since which a run is given something else; `checked_seq` was checked last before it.

    `gained` and `lost` are ids of items. `guide`: the guide is another one. `words`: the same items come in another
    order or in other words. `steady`: no check contradicts that this change happened once, and for good.
    """

    position: int
    checked_seq: int
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    guide: bool = False
    words: bool = False
    steady: bool = True


class RunBisection(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one bad run, in comparison with the bank just before its good run began.

    Searched were the positions after `after_seq` and up to `upto_seq`; memory changed at `places` of them. `checks` are
    in the order in which they were made.
    """

    run: str
    good: str
    verdict: str | None
    good_verdict: str | None
    after_seq: int
    upto_seq: int
    places: int = 0
    outcome: BisectOutcome
    reason: str = ""
    changes: tuple[GivenChange, ...] = ()
    checks: tuple[GivenCheck, ...] = ()
    notes: tuple[str, ...] = ()
    needs_model: bool = False


class ChangedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that bad runs are given since a change, or no more, with the runs that it was drawn from."""

    id: str
    gained: bool
    title: str
    drawn_from: tuple[str, ...]


class SharedChange(msgspec.Struct, frozen=True, kw_only=True):
    """An event since which bad runs are given something else: its facts, those runs, what they gained and lost.

    `before` and `since` count the successes of the same tasks, by the runs that began before the event and after it.
    """

    position: int
    id: str
    type: str
    recorded_at: str
    summary: str
    runs: tuple[str, ...]
    items: tuple[ChangedItem, ...]
    before: Tally
    since: Tally

    @property
    def gained(self) -> tuple[str, ...]:
        """The ids of the items that runs are given since then."""
        return tuple(each.id for each in self.items if each.gained)

    @property
    def lost(self) -> tuple[str, ...]:
        """The ids of the items that runs are given no more."""
        return tuple(each.id for each in self.items if not each.gained)


class Bisection(BankAnswer, frozen=True, kw_only=True):
    """The answers for all bad runs as of a position, and the events that explain them, those of most runs first.

    `ok`: there is an answer for every bad run. `needs_model`: those of which only a model could tell more.
    """

    ok: bool
    metric: Metric
    changes: tuple[SharedChange, ...]
    runs: tuple[RunBisection, ...]
    needs_model: tuple[str, ...]


class BisectQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which runs went wrong, and which went well."""

    bad: Annotated[
        tuple[str, ...],
        Meta(description="Runs that went wrong; each is compared with the latest good run that began before it."),
    ] = ()
    good: Annotated[tuple[str, ...], Meta(description="Runs that went well.")] = ()
    metric: Annotated[
        Metric | None,
        Meta(description="Instead of runs: the tasks that succeeded and then failed, by verdict or by right answer."),
    ] = None
