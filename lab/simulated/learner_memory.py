"""The memory of a simulated learner: a bank in memory, with every event by `Bank` and every decision by its policies.

A run is recorded as the loop records one, with `simulated` set. Its lessons are found by the bank's own policy in an
index in memory, as `what-if` finds them, because read models on disk would make grids of many simulations slow. Tests
compare sampled simulations with those in banks on disk, to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from msgspec.structs import replace

from rbank_es import __version__
from rbank_es.bank import Bank
from rbank_es.bank.correction_effect import Correction
from rbank_es.bank.verdict_acts import Ruling
from rbank_es.bank.verdict_review import doubts_at
from rbank_es.context.layer_text import LayerText
from rbank_es.events import (
    ContextBuilt,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRetrieved,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.items import Item, Polarity
from rbank_es.events.run_events import LayerUse
from rbank_es.lab.simulated.solver import SimulatedOutcome
from rbank_es.lab.simulated.world import MOVES, SimulatedTask
from rbank_es.law import State, counted_uses_of, items_of_task
from rbank_es.law.decisions import append_decided
from rbank_es.law.misled_runs import verdict_on
from rbank_es.policies import Filters, changed, default_policies, retrieval_policy
from rbank_es.policies.quoted_items import pack_items
from rbank_es.projections.in_memory_items import ActiveItems

SIMULATED = "SIMULATED"
"""The mark of everything that no model and no person did."""

JUDGE, EXTRACTOR, PERSON = "simulated", "simulated-1", "simulated person"

Tables = Mapping[str, Mapping[str, Any]]
"""Policies by kind, as `Bank.set_policies` takes them."""


class LearnerMemory:
    """The bank of one simulation."""

    def __init__(self, bank: Bank) -> None:
        """Take a bank with its policies in force. Close it with the memory."""
        self.bank = bank
        self._index = ActiveItems(self._outcomes)
        self._policy = retrieval_policy(bank.policy_choice("retrieval"))

    @classmethod
    def create(cls, policies: Tables, place: str = "memory:") -> Self:
        """Make a bank under the default policies, changed by tables."""
        # The studies were made under the first versions; what they say of them must come out again.
        usual = changed(default_policies(), {"consolidation": {"version": 1}})
        return cls(Bank.create(place, policies=changed(usual, policies), purpose=f"{SIMULATED} learner"))

    def close(self) -> None:
        """Drop the index and release the bank."""
        self._index.close()
        self.bank.close()

    def found(self, question: str, without_task: str | None = None) -> LayerText:
        """Return the items that a run of this question would be given, without those drawn from runs of a task.

        Nothing is recorded.
        """
        wanted: dict[Polarity, int] = {"success": self._policy.k_success, "failure": self._policy.k_failure}
        state = self._state()
        without = items_of_task(state, without_task) if without_task is not None else frozenset[str]()
        retrievals = [self._retrieved(question, polarity, k, without) for polarity, k in wanted.items() if k]
        items = [state.items[hit.id].item for each in retrievals for hit in each.hits]
        return LayerText(pack_items(items, about=question), tuple(retrievals))

    def _retrieved(self, question: str, polarity: Polarity, k: int, without: frozenset[str]) -> MemoriesRetrieved:
        filters = Filters(polarity=polarity, without=without, unasked=True)
        choice = self._policy.choose(question, k, filters, self._index)
        return MemoriesRetrieved(
            k=k,
            polarity=polarity,
            unasked=True,
            policy=self._policy.label,
            hits=choice.hits,
            withheld=choice.withheld,
            floor=choice.floor,
            fallback=choice.fallback,
            query=question,
        )

    def run(self, task: SimulatedTask, given: LayerText, outcome: SimulatedOutcome, verdict: Polarity) -> None:
        """Record a run, from its beginning to its verdict. Its id is that of its task."""
        run, chars = task.id, len(given.packed.text)
        layer = LayerUse(layer="L2", chars=chars, budget=given.packed.budget_chars, truncated=given.packed.truncated)
        started = RunStarted(
            run=run,
            task_id=task.id,
            family=f"family-{task.family}",
            executor=JUDGE,
            simulated=True,
            layers=("L2",),
            task=task.question,
            release=__version__,
        )
        self.bank.append(
            [
                started,
                *(replace(each, run=run) for each in given.retrievals),
                ContextBuilt(
                    run=run, chars=chars, layers=(layer,), items=given.packed.items, texts=(given.packed.text,)
                ),
                RunFinished(run=run, outcome="submitted", iterations=1, answer=MOVES[outcome.move]),
                RunJudged(run=run, purpose="learning", verdict=verdict, judge=JUDGE, judge_version="1", kind="lm"),
            ]
        )

    def learn(self, run: str, verdict: Polarity, item: Item) -> None:
        """Record the lesson that was drawn from a run under a verdict, with the bank's decision about it."""
        relied = (Reliance(run=run, verdict=verdict),)
        drawn = MemoriesExtracted(
            kind=verdict, runs=(run,), relied=relied, extractor=EXTRACTOR, heads=(item.head,), candidates=(item.text,)
        )
        self._changed(append_decided(self.bank.log, self.bank.latest, [drawn]).events)

    def doubtful(self) -> tuple[str, ...]:
        """Return the runs whose verdicts the bank proposes for a check, the most urgent first."""
        return tuple(each.run for each in doubts_at(self.bank, self.bank.position))

    def overrule(self, verdicts: Mapping[str, Polarity]) -> Correction:
        """Record verdicts of a person, by run, and correct what was learned."""
        rulings = [Ruling(run, verdict, SIMULATED, PERSON) for run, verdict in verdicts.items()]
        made = self.bank.overrule_many(rulings)
        self._changed(None)
        return made

    def restore(self, items: Iterable[str]) -> None:
        """Record that a person vouches for items."""
        for item in items:
            self.bank.restore(item, because=SIMULATED, by=PERSON)
        self._changed(None)

    def active(self) -> int:
        """Return the number of active items."""
        with self.bank.latest.at(self.bank.position) as basis:
            return basis.known.active

    def _changed(self, events: Iterable[Event] | None) -> None:
        """Index what events may have changed; None where any item may have changed."""
        items = self._state().items
        ids = dict.fromkeys(items) if events is None else _named(events)
        self._index.update((id, items.get(id)) for id in ids)

    def _state(self) -> State:
        with self.bank.latest.at(self.bank.position) as basis:
            return basis.state

    def _outcomes(self, item: str) -> tuple[int, int]:
        state = self._state()
        verdicts = [verdict_on(state, run) for run in counted_uses_of(state, item)]
        return verdicts.count("success"), verdicts.count("failure")


def _named(events: Iterable[Event]) -> dict[str, None]:
    """Return the items that decisions and forgetting in a group concern."""
    named: dict[str, None] = {}
    for event in events:
        if isinstance(event, MemoriesConsolidated):
            for decision in event.decisions:
                named |= dict.fromkeys((decision.item, *decision.targets))
        elif isinstance(event, MemoriesForgotten):
            named |= dict.fromkeys(event.ids)
    return named
