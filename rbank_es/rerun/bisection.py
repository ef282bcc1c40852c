"""The question `bisect`: the events since which runs were given something else by the bank.

A bad run's own searches are repeated as of earlier positions, where they rank exactly as the bank ranked then. Of each
item that the run gained or lost since the good run began, a binary search over the positions at which memory or the
retrieval policy changed finds the event: see `change_search`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from rbank_es import limits
from rbank_es.answers import BankReader, QuestionKind
from rbank_es.answers.shared.bisection_answer import (
    Bisection,
    BisectOutcome,
    BisectQuestion,
    ChangedItem,
    GivenChange,
    GivenCheck,
    RunBisection,
    SharedChange,
)
from rbank_es.bank import Bank
from rbank_es.bank.id_lookup import recorded_run
from rbank_es.errors import BadInput, BadPolicy
from rbank_es.events import type_of
from rbank_es.events.event_sentences import summary
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
from rbank_es.rerun.recorded_prompt import RecordedPrompts
from rbank_es.rerun.task_outcomes import Fall, TaskRun, decided_runs, falls, tallies


def find_bisect(reader: BankReader, question: BisectQuestion) -> Bisection:
    """Return the events since which bad runs were given something else than when a good run began.

    Without runs, those that `metric` chooses, by default `success`. Raises `NotInBank`, `AmbiguousId`; `BadInput` for
    bad runs without a good one, a run that is both, a good run that began after every bad one, a bad one before every
    good one, runs over different ontologies, and too many runs.
    """
    bank, view, upto = reader.bank, reader.view, reader.position
    assert isinstance(bank, Bank)  # every open bank with a log is one
    bad, good = (
        [recorded_run(reader.bank, each, reader.position) for each in runs] for runs in (question.bad, question.good)
    )
    if question.metric is not None and (bad or good):
        raise BadInput("give runs or a metric, not both: a metric chooses the runs")
    metric = question.metric or "success"
    judged = decided_runs(view, metric)
    if bad and not good:
        raise BadInput(f"name a good run too{_suggested(judged, bad)}: between them it is searched what changed")
    if bad or good:
        pairs = _pairs(bank, bad, good, upto)
    else:
        pairs = [_pair(bank, fall, upto) for fall in falls(judged)[: limits.BISECT_RUNS]]
    found: list[RunBisection] = []
    for number, (use, before) in enumerate(pairs):

        def on_check(number: int = number) -> None:
            if reader.progress is not None:
                reader.progress(number, len(pairs))

        found.append(_OneRun(bank, view, use, before, _most_found(found), on_check).answer())
    return Bisection(
        bank=reader.name,
        position=upto,
        ok=all(each.outcome != "unknown" for each in found),
        metric=metric,
        runs=tuple(found),
        changes=tuple(_shared(bank, view, found, judged)),
        needs_model=tuple(each.run for each in found if each.needs_model),
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

    def __init__(
        self, bank: Bank, view: View, use: MemoryUse, good: MemoryUse, hint: int | None,
        on_check: Callable[[], None],
    ) -> None:  # fmt: skip
        self.bank, self.view, self.use, self.good, self.hint, self.on_check = bank, view, use, good, hint, on_check
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
        self.on_check()
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
            checked_seq=self._position(found.place - 1),
            **msgspec.structs.asdict(found.difference),
            steady=found.steady,
        )

    def _answer(self, outcome: BisectOutcome, reason: str = "", *, changes: Sequence[GivenChange] = ()) -> RunBisection:
        checks = tuple(self._checks(outcome))
        return RunBisection(
            run=self.use.run,
            good=self.good.run,
            verdict=_verdict(self.view, self.use.run),
            good_verdict=_verdict(self.view, self.good.run),
            after_seq=self.after,
            upto_seq=self.upto,
            places=len(self.places),
            outcome=outcome,
            reason=reason,
            changes=tuple(changes),
            checks=checks,
            notes=tuple(self._notes(outcome, changes)),
            # Recorded runs that had a prompt from before answer without one.
            needs_model=outcome == "changed" and not any(each.answers for each in checks if not each.same),
        )

    def _checks(self, outcome: BisectOutcome) -> Iterator[GivenCheck]:
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

    def _notes(self, outcome: BisectOutcome, changes: Sequence[GivenChange]) -> Iterator[str]:
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


def _shared(bank: Bank, view: View, found: Sequence[RunBisection], judged: Sequence[TaskRun]) -> Iterator[SharedChange]:
    """Yield the events of all changes, those of most runs first, then the latest."""
    by_position: dict[int, list[tuple[str, GivenChange]]] = {}
    for each in found:
        for change in each.changes:
            by_position.setdefault(change.position, []).append((each.run, change))
    tasks = {each.run: each.task for each in judged}
    sources = _sources(view) if by_position else {}
    for position, given in sorted(by_position.items(), key=lambda pair: (-len(pair[1]), -pair[0])):
        event = bank.event_at(position)
        # A run that was named may be undecided; its task is not among the judged ones then.
        before, since = tallies(judged, {tasks[run] for run, _ in given if run in tasks}, position)
        changes = [change for _, change in given]
        gained = dict.fromkeys(item for change in changes for item in change.gained)
        lost = dict.fromkeys(item for change in changes for item in change.lost)
        yield SharedChange(
            position=position,
            id=event.id,
            type=type_of(event),
            recorded_at=event.at,
            summary=summary(event),
            runs=tuple(run for run, _ in given),
            items=tuple(_item(view, id, side is gained, sources) for side in (gained, lost) for id in side),
            before=before,
            since=since,
        )


def _sources(view: View) -> dict[str, list[str]]:
    """Return the runs that each extraction was drawn from: read once, because the view scans all edges."""
    found: dict[str, list[str]] = {}
    for edge in view.rows("lineage_edges", relation="drawn_from"):
        found.setdefault(edge["target"], []).append(edge["source"])
    return found


def _item(view: View, id: str, gained: bool, sources: Mapping[str, Sequence[str]]) -> ChangedItem:
    row = view.item(id) or {"title": "", "extraction": ""}
    drawn_from = tuple(sources.get(row["extraction"], ()))
    return ChangedItem(id=id, gained=gained, title=row["title"] or "", drawn_from=drawn_from)


QUESTION = QuestionKind(
    about="The events since which runs that went wrong were given something else by the bank.",
    question=BisectQuestion,
    answer=Bisection,
    find=find_bisect,
    rows="changes",
)
