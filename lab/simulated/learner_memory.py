"""The memory of a simulated learner in a real bank: every event by `Bank`, every decision by the bank's own policies.

A run is recorded as the loop records one, with `simulated` set, and its lessons are found as layer L2 of a context
finds them. Only the scores by the right answers come last of all, because a review of verdicts would learn from them
which verdicts are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from msgspec.structs import replace

from rbank_es import __version__
from rbank_es.bank import Bank
from rbank_es.bank.correction import Correction
from rbank_es.bank.verdict_acts import Ruling
from rbank_es.bank.verdict_review import doubts_at
from rbank_es.context.layer_text import LayerText
from rbank_es.context.procedures import procedures
from rbank_es.events import ContextBuilt, Event, MemoriesExtracted, Reliance, RunFinished, RunJudged, RunStarted
from rbank_es.events.items import Item, Polarity
from rbank_es.events.run_events import LayerUse
from rbank_es.lab.simulated.solver import SimulatedOutcome
from rbank_es.lab.simulated.world import MOVES, SimulatedTask
from rbank_es.law.decisions import append_decided
from rbank_es.policies import changed, default_policies

SIMULATED = "SIMULATED"
"""The mark of everything that no model and no person did."""

JUDGE, GOLD, EXTRACTOR, PERSON = "simulated", "simulated-gold", "simulated-1", "simulated person"
_SCORES = 1_000
"""Scores that are appended at once."""

Tables = Mapping[str, Mapping[str, Any]]
"""Policies by kind, as `Bank.set_policies` takes them."""


NO_FACTS: Mapping[str, Any] = {}


class LearnerMemory:
    """The bank of one simulation."""

    def __init__(self, bank: Bank, facts: Mapping[str, Any] = NO_FACTS) -> None:
        """Take a bank with its policies in force. Close it with the memory.

        `facts` are those that each run of a trial names: fields of `run_started`, such as trial and suite.
        """
        self.bank = bank
        self._facts: dict[str, Any] = {"release": __version__, **facts}
        self._right: dict[str, bool] = {}

    @classmethod
    def create(cls, place: str, policies: Tables) -> Self:
        """Make a bank at a place under the default policies, changed by tables. It isn't synced to disk."""
        # The studies were made under the first versions; what they say of them must come out again.
        usual = changed(default_policies(), {"consolidation": {"version": 1}})
        chosen = changed(usual, policies)
        options: dict[str, Any] = {} if place.startswith("memory:") else {"unsafe_no_sync": True}
        return cls(Bank.create(place, policies=chosen, purpose=f"{SIMULATED} learner", **options))

    def close(self) -> None:
        """Record the scores and release the bank."""
        self.record_scores()
        self.bank.close()

    def record_scores(self) -> None:
        """Record the scores of all runs by the right answers."""
        suite = self._facts.get("suite")
        scores = [_scored(run, right, suite) for run, right in self._right.items()]
        for start in range(0, len(scores), _SCORES):
            self.bank.append(scores[start : start + _SCORES])

    def found(self, question: str, without_task: str | None = None) -> LayerText:
        """Return the items that a run of this question would be given, without those drawn from runs of a task.

        Nothing is recorded.
        """
        self.bank.project()
        with self.bank.as_of() as view:
            return procedures(view, question, without_task=without_task)

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
            **self._facts,
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
        self._right[run] = outcome.right

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
        """Take notice of events that may have changed items; None where any item may have changed."""


def _scored(run: str, right: bool, suite: str | None) -> RunJudged:
    verdict: Polarity = "success" if right else "failure"
    return RunJudged(
        run=run, purpose="scoring", verdict=verdict, judge=GOLD, judge_version="1", kind="gold", suite=suite
    )
