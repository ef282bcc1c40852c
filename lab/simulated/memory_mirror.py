"""The mirror of a simulated learner's memory: the same bank in memory, for grids of many simulations.

It differs from `LearnerMemory` in two things: the log is in memory (the engine `memory:`), and items are found by an
index in memory instead of read models on disk. The events, the decisions, the corrections and the policy that ranks are
the same code, so its results are equal to the last digit. Tests compare sampled simulations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from rbank_es.bank import Bank
from rbank_es.context.layer_text import LayerText
from rbank_es.events import Event, MemoriesConsolidated, MemoriesForgotten, MemoriesRetrieved
from rbank_es.events.items import Polarity
from rbank_es.lab.simulated.learner_memory import LearnerMemory, Tables
from rbank_es.law import State, counted_uses_of
from rbank_es.law.misled_runs import verdict_on
from rbank_es.policies import Filters, retrieval_policy
from rbank_es.policies.packed_items import pack_items
from rbank_es.projections.active_items import ActiveItems


class MirrorMemory(LearnerMemory):
    """The bank of one simulation, in memory alone."""

    def __init__(self, bank: Bank) -> None:
        """Take a bank in memory."""
        super().__init__(bank)
        self._index = ActiveItems(self._outcomes)
        self._policy = retrieval_policy(bank.policy_choice("retrieval"))

    @classmethod
    def begin(cls, policies: Tables) -> Self:
        """Make a bank in memory under the default policies, changed by tables."""
        return cls.create("memory:", policies)

    def close(self) -> None:
        """Drop the bank."""
        self._index.close()
        self.bank.close()

    def found(self, question: str, without_task: str | None = None) -> LayerText:
        """Return the items that a run of this question would be given, without those drawn from runs of a task."""
        wanted: dict[Polarity, int] = {"success": self._policy.k_success, "failure": self._policy.k_failure}
        without = _of_task(self._state(), without_task) if without_task is not None else frozenset[str]()
        retrievals = [self._retrieved(question, polarity, k, without) for polarity, k in wanted.items() if k]
        state = self._state()
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

    def _changed(self, events: Iterable[Event] | None) -> None:
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


def _of_task(state: State, task: str) -> frozenset[str]:
    """Return the items that candidates drawn from runs of a task brought or landed on."""
    own = {id for id, known in state.extractions.items() if any(state.runs[run].task_id == task for run in known.runs)}
    return frozenset(
        item
        for item, record in state.records.items()
        if any(pair[0] in own for pair in (*record.pairs, *record.landed))
    )


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
