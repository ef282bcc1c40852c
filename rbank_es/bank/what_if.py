"""The bank as it would be under a supposition: decisions, items, uses, retrievals and prompts that would differ.

First order: what agents, models and people did is taken as recorded, and a model is never asked. Where its answer would
be needed to say more, that is counted. Nothing is written to the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.absorbed_events import words_of
from rbank_es.bank.bank_difference import Difference, RunDifference, RunValues, difference, difference_as
from rbank_es.bank.supposed_differences import (
    HitsDifference,
    ModelNeeds,
    PromptDifference,
    Unknowable,
    WhatIf,
    decision_differences,
    drawn_from,
    is_difference,
)
from rbank_es.bank.supposed_history import HISTORY_TYPES, SupposedHistory, is_same_policy
from rbank_es.bank.supposed_log import SupposedLog
from rbank_es.bank.supposition import Supposition, supposition_of
from rbank_es.errors import BadInput
from rbank_es.events import (
    ContextBuilt,
    Erased,
    Event,
    MemoriesExtracted,
    MemoriesRead,
    MemoriesRetrieved,
    Ref,
    RunJudged,
    RunStarted,
    Text,
    WordsEmbedded,
)
from rbank_es.events.items import Item, Polarity
from rbank_es.events.run_events import LayerUse, VerdictValue
from rbank_es.law import State, counted_uses_of, fold, items_above, items_of_task
from rbank_es.law.decision_timeline import TIMELINE_TYPES, DecisionTimeline
from rbank_es.law.lessons_to_draw import lessons_to_draw
from rbank_es.law.misled_runs import verdict_on
from rbank_es.log.run_reader import RunEvents, read_run
from rbank_es.policies import Filters, RetrievalPolicy, retrieval_policy
from rbank_es.policies.admission import origin_of
from rbank_es.policies.bm25_1 import Bm25V1
from rbank_es.policies.bm25_2 import Bm25V2
from rbank_es.policies.bm25_3 import Bm25V3
from rbank_es.policies.quoted_items import pack_items
from rbank_es.projections.in_memory_items import ActiveItems
from rbank_es.system.progress import OnProgress

if TYPE_CHECKING:
    from rbank_es.log import EventLog

_BY_WORDS = (Bm25V1, Bm25V2, Bm25V3)
"""Policies that rank by words alone where no setting weighs outcomes; others may also by what uses have proven."""

_EXPECTED = 1_000
"""Events whose words are read at once, some time before they are searched for."""

_VECTORS = frozenset({"words_embedded"})
_READ = HISTORY_TYPES | _VECTORS | {"memories_retrieved"}
_RESOLVED = _VECTORS | {"memories_extracted", "memories_retrieved"}


class WhatIfQuestion(Struct, frozen=True, kw_only=True):
    """A question in the words of the asker: tables of policies, verdicts by run, items and runs left out."""

    policies: Mapping[str, Any] = {}
    verdicts: Mapping[str, VerdictValue] = {}
    without: tuple[str, ...] = ()


def what_if(
    bank: str,
    log: EventLog,
    question: WhatIfQuestion,
    since: int,
    until: int,
    *,
    into: Path | None = None,
    force: bool = False,
    progress: OnProgress | None = None,
) -> WhatIf:
    """Return what would differ in a bank of this name and log if a supposition held from a position to another.

    With `into`, write the read models. `progress` is called with a position and the last one. Raises `BadInput` for
    positions in the wrong order, and as `supposition_of`, `rebuild`.
    """
    if since > until:
        raise BadInput(
            f"nothing lies between position {since:,} and position {until:,}: name an earlier point, or a later --until"
        )
    supposition = Supposition(policies=question.policies)
    if question.verdicts or question.without:  # else nothing has to be looked up, and policies are checked on the way
        final = fold(log.read(upto=until, types=HISTORY_TYPES, resolve=_RESOLVED), position=until)
        supposition = supposition_of(final, question.policies, question.verdicts, question.without)
    comparison = _Comparison(bank, log, supposition, since, until)
    try:
        comparison.run(progress)
        if into is not None:
            _write(comparison.supposed_log(), into, force, progress)
        return comparison.result()
    finally:
        comparison.index.close()


def _write(log: SupposedLog, into: Path, force: bool, progress: OnProgress | None) -> None:
    from rbank_es.projections.read_models import rebuild

    # Read models ask no more of a log than a supposed one has.
    rebuild(into, cast("EventLog", log), on_batch=progress, replace=force)


class _Comparison:
    """The recorded history of a bank beside the supposed one."""

    def __init__(self, bank: str, log: EventLog, supposition: Supposition, since: int, until: int) -> None:
        self.bank, self.log, self.supposition = bank, log, supposition
        self.since, self.until = since, until
        self.index = ActiveItems(self._outcomes)
        self.retrievals: list[HitsDifference] = []
        self.prompts: list[PromptDifference] = []
        self.retrieved = self.searched = self.lost_retrievals = self.lost_prompts = self.judgments = self.drawn = 0
        self._unindexed: dict[str, None] | None = None
        self._differing, self._wordless = set[str](), set[str]()
        self._given_otherwise: dict[str, int] = {}
        self._chosen: dict[str, dict[Polarity | None, tuple[MemoriesRetrieved, tuple[str, ...] | None]]] = {}
        self._tasks: dict[str, RunStarted] = {}
        self._policies: dict[int, tuple[object, RetrievalPolicy]] = {}
        timeline = DecisionTimeline()
        timeline.take(log.read(upto=since, types=TIMELINE_TYPES), since)
        state = fold(log.read(upto=since, types=HISTORY_TYPES, resolve=_RESOLVED), position=since)
        self.history = SupposedHistory(state, timeline, supposition)

    def run(self, progress: OnProgress | None) -> None:
        """Go through both histories, and compare what was given to agents."""
        history = self.history
        first = next(self.log.read(upto=self.until, types={"policy_set"}), None)
        # A new bank's policies are its second event.
        history.begin(unborn=first is not None and self.since < first.seq <= 2)
        self._watch()
        self._take_vectors()
        events = self.log.read(after=self.since, upto=self.until, types=_READ, resolve=_RESOLVED)
        while batch := list(islice(events, _EXPECTED)):
            if progress is not None:
                progress(batch[0].seq, self.until)
            if history.is_otherwise:
                self.index.expect(text for event in batch for text in _searched_texts(event))
            for event in batch:
                self._take(event)
        history.end(self.until)
        self._watch()

    def _take(self, event: Event) -> None:
        """Go on with the next event of both histories."""
        if isinstance(event, WordsEmbedded):
            self.index.vectors.take(event)
        elif isinstance(event, MemoriesRetrieved):
            counts = not self.supposition.is_without(event)
            self.retrieved += counts
            if counts and self.history.is_otherwise:
                self._retrieve(event)
        else:
            self.history.take(event)
            if self.history.is_otherwise:
                self._watch()
                self._look_at(event)

    def _take_vectors(self) -> None:
        """Take the vectors known when the supposition begins, or all of them where it brings another retrieval policy.

        Whoever had ranked by vectors would have had them in time: they say nothing but what words mean.
        """
        upto = None if "retrieval" in self.supposition.policies else self.since
        for event in self.log.read(upto=upto, types=_VECTORS, resolve=_VECTORS):
            if isinstance(event, WordsEmbedded):
                self.index.vectors.take(event)

    # ---------------------------------------------------------------- what was given to agents

    def _watch(self) -> None:
        """Note the items that are active in one history only, or otherwise, and those whose words can't be searched."""
        if not self.history.is_otherwise:
            return
        recorded, supposed = self.history.recorded.state, self.history.supposed
        if self._unindexed is None:
            self._unindexed = dict.fromkeys(supposed.items)
            self._wordless.update(id for id, entry in supposed.items.items() if _is_wordless(supposed, id))
        for id in self.history.changed:
            self._unindexed[id] = None
            same = _searched(recorded, id) == _searched(supposed, id)
            (self._differing.discard if same else self._differing.add)(id)
            (self._wordless.add if _is_wordless(supposed, id) else self._wordless.discard)(id)

    def _look_at(self, event: Event) -> None:
        if self.supposition.is_without(event):
            return
        if isinstance(event, RunStarted):
            self._tasks[event.run] = event
        elif isinstance(event, ContextBuilt):
            self._inject(event)
        elif isinstance(event, MemoriesRead):
            if not self._differing.isdisjoint(event.ids):
                self._given_otherwise.setdefault(event.run, event.seq)
        elif isinstance(event, RunJudged):
            judges = event.purpose == "learning" and event.kind in ("check", "lm")
            self.judgments += judges and (self._is_other("judging") or not self._differing.isdisjoint(event.precedents))
        elif isinstance(event, MemoriesExtracted):
            other = self._is_other("extraction") or (origin_of(event) == "rollouts" and self._is_other("selection"))
            self.drawn += other and origin_of(event) in ("run", "rollouts")

    def _is_other(self, kind: Any) -> bool:
        recorded, supposed = self.history.recorded.state.policies, self.history.supposed.policies
        return not is_same_policy(kind, recorded.get(kind), supposed.get(kind))

    def _retrieve(self, event: MemoriesRetrieved) -> None:
        """Repeat a recorded retrieval on the supposed bank."""
        found = self._found(event)
        before = tuple(hit.id for hit in event.hits)
        if found is None:
            self.lost_retrievals += 1
        elif found != before:
            self.retrievals.append(
                HitsDifference(seq=event.seq, run=event.run, mode=event.mode, before=before, after=found)
            )
        if event.mode == "auto" and event.run is not None:
            self._chosen.setdefault(event.run, {})[event.polarity] = event, found

    def _found(self, event: MemoriesRetrieved) -> tuple[str, ...] | None:
        """Return the ids that a recorded retrieval would find; None where they can't be known."""
        other, recorded = self._is_other("retrieval"), self._policy(self.history.recorded.state)
        by_words = type(recorded) in _BY_WORDS and not recorded.weighs_outcomes
        by_words = by_words and recorded.level_bound(event.level) is None
        if not self._differing and not other and by_words:
            return tuple(hit.id for hit in event.hits)
        # By a policy that wasn't in force: its settings aren't recorded.
        if recorded.label != event.policy:
            return None
        k = event.k
        supposed = self._policy(self.history.supposed)
        if other and k == _usual(recorded, event):
            k = _usual(supposed, event)
        return self._search(event.query, k, self._filters(event))

    def _search(self, query: Text, k: int, filters: Filters) -> tuple[str, ...] | None:
        words = self.log.text(query) if isinstance(query, Ref) else query
        if self._wordless or not isinstance(words, str):
            return None
        self.searched += 1
        assert self._unindexed is not None
        items = self.history.supposed.items
        self.index.update((id, items.get(id)) for id in self._unindexed)
        self._unindexed.clear()
        policy, k = self._policy(self.history.supposed), min(k, limits.SEARCH_HITS)
        return tuple(hit.id for hit in policy.choose(words, k, filters, self.index).hits)

    def _filters(self, event: MemoriesRetrieved) -> Filters:
        return Filters(
            polarity=event.polarity,
            role=event.role,
            ontology=event.ontology,
            without=self._left_out(event.without_task, event.level),
            unasked=event.unasked,
        )

    def _left_out(self, task: str | None, level: int | None) -> frozenset[str]:
        """Return the items that a search in the supposed bank leaves out, for a task and for the level of one."""
        state = self.history.supposed
        bound = self._policy(state).level_bound(level)
        own = frozenset[str]() if task is None else items_of_task(state, task)
        return own if bound is None else own | items_above(state, bound)

    def _outcomes(self, item: str) -> tuple[int, int]:
        """Return wins and losses of an item in the supposed bank."""
        state = self.history.supposed
        verdicts = [verdict_on(state, run) for run in counted_uses_of(state, item)]
        return verdicts.count("success"), verdicts.count("failure")

    def _policy(self, state: State) -> RetrievalPolicy:
        choice = state.policies.get("retrieval")
        # The record is kept beside its policy, because the id of an object that is gone may be given again.
        known = self._policies.get(id(choice))
        if known is None or known[0] is not choice:
            known = self._policies[id(choice)] = choice, retrieval_policy(choice)
        return known[1]

    # ---------------------------------------------------------------- prompts

    def _inject(self, event: ContextBuilt) -> None:
        """Choose the procedures of a run again, and compare the texts that it would be given."""
        layer = next(((number, use) for number, use in enumerate(event.layers) if use.layer == "L2"), None)
        chosen = self._chosen.pop(event.run, {})
        started = self._tasks.pop(event.run, None)
        recorded = [id for retrieved, _ in chosen.values() for id in (hit.id for hit in retrieved.hits)]
        if not self._differing.isdisjoint(set(event.items).difference(recorded)):
            # The run was given it by a search that is not recorded, so its hits under the supposition are unknown.
            self._given_otherwise.setdefault(event.run, event.seq)
            self.lost_prompts += 1
            return
        if layer is None:
            return
        some = next((retrieved for retrieved, _ in chosen.values()), None)
        query: Text = some.query if some is not None else started.task if started is not None else ""
        found = self._procedures(chosen, some, started, query)
        if found is None:
            self.lost_prompts += 1
            return
        before, after = self.history.recorded.state.items, self.history.supposed.items
        were = [before[id].item for id in recorded if id in before]
        would = [after[id].item for id in found]
        if were != would:
            self._compare(event, *layer, tuple(recorded), tuple(found), would, query)

    def _procedures(
        self,
        chosen: Mapping[Polarity | None, tuple[MemoriesRetrieved, tuple[str, ...] | None]],
        some: MemoriesRetrieved | None,
        started: RunStarted | None,
        query: Text,
    ) -> list[str] | None:
        """Return the ids of the items that a context would be given; None where they can't be known."""
        found: list[str] = []
        if some is not None:
            filters = self._filters(some)
        elif started is not None:
            filters = Filters(ontology=started.ontology, without=self._left_out(None, started.level))
        else:
            filters = Filters()
        before, after = self._policy(self.history.recorded.state), self._policy(self.history.supposed)
        polarities: tuple[Polarity, ...] = ("success", "failure")
        for polarity in polarities:
            if polarity in chosen:
                hits = chosen[polarity][1]
            elif _given(before, polarity) == 0 < _given(after, polarity):
                hits = self._search(query, _given(after, polarity), replace(filters, polarity=polarity, role=None))
            else:
                hits = ()
            if hits is None:
                return None
            found += hits
        return found

    def _compare(
        self,
        event: ContextBuilt,
        place: int,
        use: LayerUse,
        recorded: tuple[str, ...],
        found: tuple[str, ...],
        items: Sequence[Item],
        query: Text,
    ) -> None:
        given = event.texts[place] if place < len(event.texts) else ""
        before = self.log.text(given) if isinstance(given, Ref) else given
        text = None if isinstance(before, Erased) else before
        about = self.log.text(query) if isinstance(query, Ref) else query
        budget = limits.CONTEXT_L2_CHARS if use.budget is None else use.budget
        after = pack_items(items, budget, about=about if isinstance(about, str) else "").text
        if text is None:
            self.lost_prompts += 1
        # A budget may hide what differs.
        if text != after:
            facts = {"items_before": recorded, "items_after": found}
            self.prompts.append(PromptDifference(run=event.run, seq=event.seq, before=text, after=after, **facts))

    # ---------------------------------------------------------------- the result

    def supposed_log(self) -> SupposedLog:
        """Return the log that the bank would have."""
        return SupposedLog(self.log, self.since, self.until, self.history.made, self.supposition)

    def result(self) -> WhatIf:
        """Return the differences between the final states, and those of single decisions, retrievals and prompts."""
        # What no correction has looked at in the recorded bank, as `verify` finds it.
        before, after, canon = self.history.recorded.state, self.history.supposed, self.history.overdue()
        found = difference(self.bank, before, after)
        items = tuple(each for each in found.items if is_difference(each))
        return difference_as(
            WhatIf,
            replace(found, since_seq=self.since, position=self.until, items=items, runs=self._runs(found)),
            supposed_seq=self.supposed_log().position(),
            decisions=tuple(decision_differences(before, after)),
            retrievals=tuple(self.retrievals),
            prompts=tuple(self.prompts),
            needs=self._needs(before, after),
            unknowable=Unknowable(retrievals=self.lost_retrievals, prompts=self.lost_prompts),
            decided=self.history.decided,
            retrieved=self.retrieved,
            searched=self.searched,
            overdue=len(canon.decisions) + len(canon.forgotten) + len(canon.remembered),
        )

    def _runs(self, found: Difference) -> tuple[RunDifference, ...]:
        """Return the runs that differ with their ends, which neither history has."""

        def ended(side: RunValues | None, run: RunEvents) -> RunValues | None:
            outcome = None if run.end is None else run.end.outcome
            return side and replace(side, outcome=outcome, iterations=run.iterations)

        read = ((each, read_run(self.log, each.run, self.until)) for each in found.runs)
        return tuple(replace(each, before=ended(each.before, run), after=ended(each.after, run)) for each, run in read)

    def _needs(self, before: State, after: State) -> ModelNeeds:
        since = dict(self._given_otherwise)
        given = [(each.run, each.seq) for each in self.retrievals] + [(each.run, each.seq) for each in self.prompts]
        for run, seq in given:
            if run is not None:
                since[run] = min(since.get(run, seq), seq)
        turned = sorted(
            run
            for run in {run for run, purpose in (*before.verdicts, *after.verdicts) if purpose == "learning"}
            if run not in self.supposition.runs and verdict_on(before, run) != verdict_on(after, run)
        )
        return ModelNeeds(
            runs=len(since),
            items=len(drawn_from(after, since)),
            extractions=len({run for each in lessons_to_draw(after, turned) for run in each.runs}),
            judgments=self.judgments,
            drawn=self.drawn,
            proposals=self.history.unproposed,
        )


def _usual(policy: RetrievalPolicy, event: MemoriesRetrieved) -> int:
    """Return how many hits a policy gives where the caller names no number."""
    return policy.k if event.polarity is None else _given(policy, event.polarity)


def _given(policy: RetrievalPolicy, polarity: Polarity) -> int:
    return policy.k_success if polarity == "success" else policy.k_failure


def _searched_texts(event: Event) -> Iterator[str]:
    """Yield the texts of an event whose words a search reads: those of candidates, and a query."""
    if isinstance(event, MemoriesExtracted):
        for candidate in event.candidates:
            yield from words_of(candidate)
    elif isinstance(event, MemoriesRetrieved):
        yield from words_of(event.query)


def _searched(state: State, id: str) -> tuple[object, ...] | None:
    """Return of an item what a search depends on; None where it isn't found at all."""
    entry = state.items.get(id)
    return None if entry is None or entry.state != "active" else (entry.item, entry.domains)


def _is_wordless(state: State, id: str) -> bool:
    entry = state.items.get(id)
    return entry is not None and entry.state == "active" and entry.erased
