"""The search for the events since which runs were given something else by the bank.

A bad run's own searches are repeated as of earlier positions, where they rank exactly as the bank ranked then. Of each
item that the run gained or lost since the good run began, a binary search over the positions at which memory or the
retrieval policy changed finds the event: see `change_search`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, BadPolicy
from rbank_es.events import type_of
from rbank_es.projections.view import View
from rbank_es.rerun.change_search import ChangeSearch, FoundChange, MemoryDifference
from rbank_es.rerun.given_memory import (
    GivenMemory,
    MemoryUse,
    given_at,
    given_recorded,
    memory_use,
    why_not_reproduced,
    why_unknown,
)
from rbank_es.rerun.recorded_prompt import RecordedAnswer, RecordedPrompts
from rbank_es.rerun.task_outcomes import Fall, Metric, Tally, TaskRun, decided_runs, falls, tallies
from rbank_es.system.progress import OnProgress

Outcome = Literal["changed", "same", "nothing", "unknown"]
"""changed: the run was given something else than when the good run began. same, nothing: it was given the same, or
nothing of the bank, so memory had no part. unknown: nobody can tell; the reason says why."""


class GivenCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One check: the items that the bank as of a position gives to a run, and whether all is as the run had it.

    `answers` are other recorded runs that had the very prompt which the run would have had then.
    """

    position: int
    items: tuple[str, ...]
    same: bool
    answers: tuple[RecordedAnswer, ...] = ()


class GivenChange(msgspec.Struct, frozen=True, kw_only=True):
    """The position of an event since which a run is given something else; `before` was checked last before it.

    `gained` and `lost` are ids of items. `guide`: the guide is another one. `words`: the same items come in another
    order or in other words. `steady`: no check contradicts that this change happened once, and for good.
    """

    position: int
    before: int
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    guide: bool = False
    words: bool = False
    steady: bool = True


class RunBisection(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one bad run, in comparison with the bank just before its good run began.

    Searched were the positions after `after` and up to `upto`; memory changed at `places` of them. `checks` are in the
    order in which they were made.
    """

    run: str
    good: str
    verdict: str | None
    good_verdict: str | None
    after: int
    upto: int
    places: int = 0
    outcome: Outcome
    reason: str = ""
    changes: tuple[GivenChange, ...] = ()
    checks: tuple[GivenCheck, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def needs_model(self) -> bool:
        """Whether only a model could tell how the run would have gone with other memory: no check has an answer."""
        return self.outcome == "changed" and not any(check.answers for check in self.checks if not check.same)


class SharedChange(msgspec.Struct, frozen=True, kw_only=True):
    """An event since which bad runs are given something else: its facts, those runs, what they gained and lost.

    `before` and `since` count the successes of the same tasks, by the runs that began before the event and after it.
    """

    position: int
    id: str
    type: str
    at: str
    runs: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    before: Tally
    since: Tally


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    """The answers for all bad runs as of a position, and the events that explain them, those of most runs first."""

    position: int
    metric: Metric
    runs: tuple[RunBisection, ...]
    changes: tuple[SharedChange, ...]

    @property
    def answered(self) -> bool:
        """Whether there is an answer for every bad run."""
        return all(each.outcome != "unknown" for each in self.runs)

    @property
    def needs_model(self) -> tuple[str, ...]:
        """The bad runs of which only a model could tell how they would have gone."""
        return tuple(each.run for each in self.runs if each.needs_model)


def bisect_runs(
    bank: Bank,
    bad: Sequence[str] = (),
    good: Sequence[str] = (),
    *,
    metric: Metric | None = None,
    point: str | int | None = None,
    progress: OnProgress | None = None,
) -> Bisection:
    """Find the events since which bad runs were given something else than when a good run began. The bank is only read.

    Args:
        bank: holds the runs.
        bad: ids of runs that went wrong; each is compared with the latest good run that began before it.
        good: ids of runs that went well.
        metric: instead of runs: the tasks that succeeded and then failed by this metric; see `task_outcomes`.
        point: the point up to which the bank is read; None means its head.
        progress: called with the number of bad runs done, and their number.

    Raises:
        NotInBank: there is no such run up to the point.
        BadInput: no bad or no good run; a run that is both; a good run that began after every bad one, or a bad one
            before every good one; runs over different ontologies; too many runs.
    """
    upto = bank.resolve(point)
    # First the read models, because each view of models that are behind would be of a copy of its own.
    bank.live().close()
    with bank.as_of(upto) as view:
        judged = decided_runs(view, metric or "success")
        wanted = falls(judged)[: limits.BISECT_RUNS] if metric is not None else []
        if metric is not None and (bad or good):
            raise BadInput("give runs or a metric, not both: a metric chooses the runs")
        if bad and not good:
            raise BadInput(f"name a good run too{_suggested(judged, bad)}: between them it is searched what changed")
        pairs = [_pair(bank, fall, upto) for fall in wanted] if metric is not None else _pairs(bank, bad, good, upto)
        found: list[RunBisection] = []
        for number, (use, before) in enumerate(pairs):
            if progress is not None:
                progress(number, len(pairs))
            found.append(_OneRun(bank, view, use, before, _most_found(found)).answer())
        return Bisection(
            position=upto, metric=metric or "success", runs=tuple(found), changes=tuple(_shared(bank, found, judged))
        )


def _suggested(judged: Sequence[TaskRun], bad: Sequence[str]) -> str:
    """Return the latest success before the first bad run, in words; empty if there is none."""
    begun = min((each.seq for each in judged if each.run in bad), default=0)
    earlier = [each.run for each in judged if each.success and each.seq < begun]
    return f", such as {earlier[-1]}, the latest success before" if earlier else ""


def _pair(bank: Bank, fall: Fall, upto: int) -> tuple[MemoryUse, MemoryUse]:
    return memory_use(bank, fall.bad, upto), memory_use(bank, fall.good, upto)


def _pairs(bank: Bank, bad: Sequence[str], good: Sequence[str], upto: int) -> list[tuple[MemoryUse, MemoryUse]]:
    """Return each bad run with the latest good run that began before it. Raises `BadInput` for runs that contradict."""
    if not bad or not good:
        raise BadInput("name at least one bad and one good run, or a metric: between them it is searched what changed")
    if both := set(bad) & set(good):
        raise BadInput(f"{min(both)} is named as bad and as good; leave one out")
    if len(set(bad)) + len(set(good)) > limits.BISECT_RUNS:
        raise BadInput(f"more than {limits.BISECT_RUNS} runs; name fewer: a few of each are enough")
    failed, passed = ([memory_use(bank, run, upto) for run in dict.fromkeys(runs)] for runs in (bad, good))
    pairs = [(use, _latest_before(use, passed)) for use in failed]
    for before in passed:
        if not any(_began_before(before, use) for use in failed):
            raise BadInput(
                f"the good run {before.run} began after every bad run; leave it out, or swap --bad and --good to see "
                "what changed since they went wrong"
            )
    return pairs


def _began_before(good: MemoryUse, bad: MemoryUse) -> bool:
    # Rollouts of one group begin with one memory, so their order in the log says nothing.
    group = good.started.rollout_group
    return good.position < bad.position or (group is not None and group == bad.started.rollout_group)


def _latest_before(use: MemoryUse, passed: Iterable[MemoryUse]) -> MemoryUse:
    earlier = [before for before in passed if _began_before(before, use)]
    if not earlier:
        raise BadInput(f"no good run began before the bad run {use.run}; name one that did")
    before = max(earlier, key=lambda each: each.position)
    if before.started.ontology != use.started.ontology:
        raise BadInput(
            f"{use.run} is over {use.started.ontology or 'no ontology'} and {before.run} over "
            f"{before.started.ontology or 'none'}; name runs over one ontology, because others prove nothing"
        )
    return before


def _most_found(found: Iterable[RunBisection]) -> int | None:
    """Return the position that explains most runs so far: the first to try for the next run."""
    counted = Counter(change.position for each in found for change in each.changes)
    return counted.most_common(1)[0][0] if counted else None


class _OneRun:
    """The search for one bad run, in comparison with the bank just before its good run began."""

    def __init__(self, bank: Bank, view: View, use: MemoryUse, good: MemoryUse, hint: int | None) -> None:
        self.bank, self.view, self.use, self.good, self.hint = bank, view, use, good, hint
        self.upto = use.last_position
        # Rollouts of one group have one memory, whichever of them is recorded first.
        self.after = min(good.position, use.position)
        self.places: list[int] = []
        self.spans: dict[str, list[tuple[int, int | None]]] = {}
        self.search = ChangeSearch(0, self._given_at)

    def answer(self) -> RunBisection:
        """Return the answer for the run."""
        try:
            if reason := why_unknown(self.bank, self.use):
                return self._answer("unknown", reason)
            if not self.use.asks_memory:
                return self._answer("nothing", "it asked nothing of the bank")
            return self._searched()
        except BadPolicy as error:
            # An answer for this run alone: the search goes on for the others.
            return self._answer("unknown", f"{error}")

    def _searched(self) -> RunBisection:
        self.places = list(self._changed_at())
        self.search = ChangeSearch(len(self.places), self._given_at)
        # First as of its own time: where the record doesn't come out again, earlier positions would prove nothing.
        own = self.search.at(self.search.last)
        if reason := why_not_reproduced(self.bank, self.use, own, self.view.position):
            return self._answer("unknown", reason)
        changes = self.search.changes(self._guesses) if self.places else []
        if changes:
            return self._answer("changed", changes=[self._change(each) for each in changes])
        return self._answer("nothing" if own.same_as(GivenMemory()) else "same")

    def _changed_at(self) -> Iterable[int]:
        """Return the positions at which memory changed, the guide included where the run is given one."""
        with self.bank.as_of(self.upto) as view:
            places = set(view.memory_changes(self.after))
        # A guide is an artifact and not an item, so `memory_changes` leaves it out.
        if self.use.is_of_loop and "L3" in self.use.layers:
            made = self.bank.log.read(after=self.after, upto=self.upto, types={"artifact_materialised"})
            places |= {each.seq for each in made}
        return sorted(places)

    def _position(self, place: int) -> int:
        if place == self.search.last:
            return self.upto
        return self.after if place < 0 else self.places[place]

    def _given_at(self, place: int) -> GivenMemory:
        return given_at(self.bank, self.use, self._position(place))

    def _guesses(self, difference: MemoryDifference, low: GivenMemory, high: GivenMemory) -> list[int]:
        """Return the place that explains most runs so far, and where items that came or left began or ended."""
        # For a lost item, what came too: the number of hits is limited, so a newcomer can displace it.
        came = dict.fromkeys((*difference.gained, *(item for item in high.items if item not in low.items)))
        left = dict.fromkeys((*difference.lost, *(item for item in low.items if item not in high.items)))
        # The last span alone: an earlier one ended again before the run.
        began = [begin for item in came for begin, _ in self._spans(item)[-1:]]
        ended = [end for item in left for _, end in self._spans(item)[-1:]]
        return [self.places.index(each) for each in (self.hint, *began, *ended) if each in self.places]

    def _spans(self, item: str) -> list[tuple[int, int | None]]:
        if item not in self.spans:
            with self.bank.as_of(self.upto) as view:
                self.spans[item] = view.active_spans(item)
        return self.spans[item]

    def _change(self, found: FoundChange) -> GivenChange:
        return GivenChange(
            position=self.places[found.place],
            before=self._position(found.place - 1),
            **msgspec.structs.asdict(found.difference),
            steady=found.steady,
        )

    def _answer(self, outcome: Outcome, reason: str = "", *, changes: Sequence[GivenChange] = ()) -> RunBisection:
        return RunBisection(
            run=self.use.run,
            good=self.good.run,
            verdict=_verdict(self.view, self.use.run),
            good_verdict=_verdict(self.view, self.good.run),
            after=self.after,
            upto=self.upto,
            places=len(self.places),
            outcome=outcome,
            reason=reason,
            changes=tuple(changes),
            checks=tuple(self._checks(outcome)),
            notes=tuple(self._notes(outcome, changes)),
        )

    def _checks(self, outcome: Outcome) -> Iterator[GivenCheck]:
        own = self.search.given.get(self.search.last)
        if own is None:
            return
        comparable = outcome != "unknown" and self._quoted_alike(own)
        # In other words than were recorded, no prompt could equal a recorded one.
        prompts = RecordedPrompts(self.bank, self.view, self.use) if comparable else None
        for place, given in self.search.given.items():
            yield GivenCheck(
                position=self._position(place),
                items=given.items,
                same=given.same_as(own),
                answers=prompts.with_memory(given) if prompts is not None else (),
            )

    def _quoted_alike(self, own: GivenMemory) -> bool:
        """Return whether this release quotes the items of the run as they were quoted to it."""
        recorded = given_recorded(self.use)
        return not self.use.is_of_loop or (own.procedures, own.guide) == (recorded.procedures, recorded.guide)

    def _notes(self, outcome: Outcome, changes: Sequence[GivenChange]) -> Iterator[str]:
        use, good, own = self.use, self.good, self.search.given.get(self.search.last)
        if use.started.task != good.started.task:
            yield f"{good.run} had another task: it only marks the time"
        for run, side, contrary in ((use.run, "bad", "success"), (good.run, "good", "failure")):
            if _verdict(self.view, run) == contrary:
                yield f"{run} counts as {side} here, though its verdict is {contrary}"
        if outcome == "unknown":
            return
        if differs := [name for name in _BESIDES if getattr(use.started, name) != getattr(good.started, name)]:
            yield f"not only memory may differ from {good.run}: also {', '.join(differs)}"
        if own is not None and not self._quoted_alike(own):
            yield "this release quotes the same items in other words than recorded"
        if own is not None and (erased := self._erased()):
            yield f"items whose words were erased are left out: {erased} of them could have been given before"
        if not self.search.complete:
            yield f"the search ended after {limits.BISECT_CHECKS} checks: other changes may be missing"
        if not all(change.steady for change in changes):
            yield "what it is given changed more than once: an event named is one of those, maybe not the only one"

    def _erased(self) -> int:
        """Return the number of items whose words were erased and that were active between both runs."""
        spans = [self.view.active_spans(row["id"]) for row in self.view.rows("items", erased=1)]
        return sum(
            any(begin <= self.upto and (end is None or end > self.after) for begin, end in each) for each in spans
        )


def _verdict(view: View, run: str) -> str | None:
    row = view.run(run)
    return None if row is None else row["verdict"]


_BESIDES = ("executor", "model", "mode", "layers", "budgets", "iterations_max", "release")
"""Facts of a run that may be the cause as well as memory."""


def _shared(bank: Bank, found: Sequence[RunBisection], judged: Sequence[TaskRun]) -> Iterator[SharedChange]:
    """Yield the events of all changes, those of most runs first, then the latest."""
    by_position: dict[int, list[tuple[str, GivenChange]]] = {}
    for each in found:
        for change in each.changes:
            by_position.setdefault(change.position, []).append((each.run, change))
    tasks = {each.run: each.task for each in judged}
    for position, given in sorted(by_position.items(), key=lambda pair: (-len(pair[1]), -pair[0])):
        event = bank.event_at(position)
        # A run that was named may be undecided; its task is not among the judged ones then.
        before, since = tallies(judged, {tasks[run] for run, _ in given if run in tasks}, position)
        yield SharedChange(
            position=position,
            id=event.id,
            type=type_of(event),
            at=event.at,
            runs=tuple(run for run, _ in given),
            gained=tuple(dict.fromkeys(item for _, change in given for item in change.gained)),
            lost=tuple(dict.fromkeys(item for _, change in given for item in change.lost)),
            before=before,
            since=since,
        )
