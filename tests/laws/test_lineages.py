"""No search returns an item that nothing and nobody stands for: tens of thousands of small banks, at every prefix.

The logs are random, not sensible: decisions name any item, writers are stale, corrections wrong or never completed. A
prefix of a log is what a crash leaves, also inside of a group.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.events import (
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    Reliance,
    RunJudged,
)
from rbank_es.events.items import Item
from rbank_es.state import LiveState
from tests.laws.bank_lives import RUNS, F, S, U, words_that_stand
from tests.strategies import stamped, uuid_of

WORDS = ("classes", "labels", "units", "dates")
ITEMS = tuple(Item.make(f"Ask for {word}", f"List {word} before a query", "success") for word in WORDS)
QUERY = "Which query would list what I ask for?"


class Lineage:
    """A random small log, of items that rest on verdicts and what befalls these."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.log: list[Event] = []
        self.pairs: list[tuple[str, int, str]] = []
        self.extracted = self.corrections = 0
        for run in RUNS:
            self.judged(run, "lm", S)
        self.learned()
        for _ in range(self.dice.randint(3, 7)):
            self.dice.choice(STEPS)(self)

    def id(self) -> str:
        """The id of an item."""
        return self.dice.choice(ITEMS).id

    def judged(self, run: str, kind: Any, verdict: Any) -> None:
        """A judge judges a run."""
        facts: dict[str, Any] = {"judge": "j", "judge_version": "1", "purpose": "learning"}
        if kind == "human":
            facts |= {"by": "somebody", "judgment": None, "reason": "x"}
        made = JudgmentOverruled if kind == "human" else RunJudged
        self.log.append(made(run=run, kind=kind, verdict=verdict, **facts))

    def judgment(self) -> None:
        """Somebody judges, most often a person, against the verdict."""
        self.judged(self.dice.choice(RUNS), self.dice.choice(("human", "human", "lm")), self.dice.choice((S, F, F, U)))

    def learned(self) -> None:
        """A writer learns one or two items from one or two runs, and decides about them as it likes."""
        self.extracted += 1
        id = uuid_of(self.extracted, kind=0xF)
        runs = self.dice.sample(RUNS, self.dice.randint(1, 2))
        kind: Any = "success" if len(runs) == 1 else self.dice.choice(("pattern", "contrastive"))
        relied = tuple(Reliance(run=run, verdict=self.dice.choice((S, S, S, F))) for run in runs)  # type: ignore[arg-type]
        items = self.dice.sample(ITEMS, self.dice.randint(1, 2))
        self.log.append(
            MemoriesExtracted(
                id=id,
                kind=kind,
                relied=relied,
                pending=self.dice.random() < 0.1,
                heads=tuple(item.head for item in items),
                candidates=tuple(item.text for item in items),
            )
        )
        self.pairs += [(id, index, item.id) for index, item in enumerate(items)]
        decisions = tuple(self.decision(index, item.id) for index, item in enumerate(items))
        self.log.append(MemoriesConsolidated(extraction=id, policy="any-1", decisions=decisions))

    def decision(self, index: int, item: str, extraction: str | None = None) -> Decision:
        """Any decision about a candidate."""
        action: Any = self.dice.choice(("add", "add", "add", "skip", "supersede", "merge", "discard"))
        targets = () if action in ("add", "discard") else (self.id(),)
        return Decision(candidate=index, action=action, item=item, targets=targets, extraction=extraction)

    def acted(self) -> None:
        """A person acts on an item, or a policy forgets it."""
        ids = (self.id(),)
        self.log.append(
            self.dice.choice(
                (
                    MemoriesRetracted(ids=ids, how="rejected"),
                    MemoriesRetracted(ids=ids, how="withdrawn"),
                    MemoriesRestored(ids=ids),
                    MemoriesRestored(ids=ids, how="supported"),
                    MemoriesAdmitted(ids=ids),
                    MemoriesForgotten(ids=ids, policy="any-1"),
                    ContextBuilt(run="later", items=ids, chars=0),
                )
            )
        )

    def undone(self) -> None:
        """A person takes a decision back, or that, or sets an extraction aside."""
        extraction, index, _ = self.dice.choice(self.pairs)
        run, verdict = self.dice.choice(RUNS), self.dice.choice((S, F))
        aside = MemoriesRetracted(how="tainted", extractions=(extraction,), run=run, verdict=verdict)  # type: ignore[arg-type]
        undone = DecisionUndone(extraction=extraction, candidate=index, lifted=self.dice.random() < 0.4)
        self.log.append(self.dice.choice((undone, undone, aside)))

    def corrected(self) -> None:
        """Decisions are made again, in a correction that may never be completed."""
        self.corrections += 1
        name = uuid_of(self.corrections, kind=0xC)
        rows = [self.decision(index, item, pair) for pair, index, item in self.dice.sample(self.pairs, 1)]
        again = MemoriesConsolidated(again=True, correction=name, policy="canonical-1", decisions=tuple(rows))
        back = MemoriesRestored(ids=(self.id(),), how="supported", correction=name)
        self.log += [again, back][: self.dice.randint(1, 2)]
        if self.dice.random() < 0.7:
            self.log.append(CorrectionCompleted(correction=name, rule=1))


STEPS: tuple[Callable[[Lineage], None], ...] = (
    *(Lineage.judgment,) * 3,
    *(Lineage.learned,) * 2,
    Lineage.acted,
    Lineage.acted,
    Lineage.undone,
    Lineage.corrected,
)


@pytest.mark.slow
def test_in_10_000_random_lineages_no_prefix_has_an_active_item_that_nothing_and_nobody_stands_for() -> None:
    tried, seen = 0, Counter[str]()
    for seed in range(10_000):
        log, live = stamped(Lineage(seed).log), LiveState()
        for position, event in enumerate(log, 1):
            live.advance([event])
            standing, rejected = words_that_stand(log[:position])
            for id, entry in live.state.items.items():
                if entry.state == "active":
                    assert id not in rejected, (seed, position, id)
                    assert id in standing or entry.vouched, (seed, position, id)
                seen[entry.state] += 1
            seen["prefixes"] += 1
        tried += 1
    assert tried == 10_000 and seen["prefixes"] > 100_000
    assert min(seen[state] for state in ("active", "unsupported", "rejected", "withdrawn", "superseded")) > 500, seen


@pytest.mark.slow
def test_in_200_random_lineages_no_search_as_of_any_position_finds_what_nothing_and_nobody_stands_for() -> None:
    found = 0
    for seed in range(200):
        with Bank.create("memory:") as bank:
            begun = bank.position + len(RUNS) + 2  # the first decisions
            bank.append(Lineage(seed).log)
            bank.project()
            log = list(bank.events(resolve=True))
            for position in range(begun, len(log) + 1):
                standing, rejected = words_that_stand(log[:position])
                vouched = vouched_in(log[:position])
                for hit in bank.search(QUERY, 9, point=position):
                    assert hit.id not in rejected and (hit.id in standing or hit.id in vouched), (seed, position)
                    found += 1
    assert found > 500


def vouched_in(log: list[Event]) -> set[str]:
    """The items for which a person's word stands."""
    vouched = set[str]()
    for event in log:
        if isinstance(event, MemoriesRestored) and event.how == "vouched":
            vouched |= set(event.ids)
        elif isinstance(event, MemoriesRetracted):
            vouched -= set(event.ids)
    return vouched
