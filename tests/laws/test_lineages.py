"""No search returns an item that nothing and nobody stands for: thousands of small lives, at every prefix.

The logs are random, not sensible: decisions name any item, writers are stale, corrections wrong or never completed. A
prefix of a log is what a crash leaves, also inside of a group. 25 lives share a bank, event by event in turn, so that
one search asks for the items of all. `LINEAGES=10000`, with `--timeout=0`, tries so many in two minutes.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import pytest

from rbank_es import Bank, limits
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
from rbank_es.policies import changed, default_policies
from tests.effort import examples
from tests.laws.bank_lives import RUNS, F, S, U, words_that_stand
from tests.laws.plain_bank import recorded
from tests.pools import uuid_of

WORDS = ("classes", "labels", "units", "dates")
QUERY = "Which query would list what I ask for?"
TOGETHER = limits.SEARCH_HITS // len(WORDS)
"""Lineages of one bank: a search can return the items of all."""
FLOORLESS = {"retrieval": {"coverage": 0, "share_of_best": 0}}
LINEAGES = int(os.environ.get("LINEAGES", examples(2_000)))


class Lineage:
    """A random small log, of items that rest on verdicts and what befalls these."""

    def __init__(self, seed: int) -> None:
        self.seed, self.dice = seed, random.Random(seed)
        self.runs = tuple(f"{run} of {seed}" for run in RUNS)
        self.items = tuple(
            Item.make(f"Ask for {word}", f"List {word} before query {seed}", "success") for word in WORDS
        )
        self.log: list[Event] = []
        self.pairs: list[tuple[str, int, str]] = []
        self.extracted = self.corrections = 0
        for run in self.runs:
            self.judged(run, "lm", S)
        self.learned()
        for _ in range(self.dice.randint(3, 7)):
            self.dice.choice(STEPS)(self)

    def id(self) -> str:
        """The id of an item."""
        return self.dice.choice(self.items).id

    def judged(self, run: str, kind: Any, verdict: Any) -> None:
        """A judge judges a run."""
        facts: dict[str, Any] = {"judge": "j", "judge_version": "1", "purpose": "learning"}
        if kind == "human":
            facts |= {"by": "somebody", "judgment": None, "reason": "x"}
        made = JudgmentOverruled if kind == "human" else RunJudged
        self.log.append(made(run=run, kind=kind, verdict=verdict, **facts))

    def judgment(self) -> None:
        """Somebody judges, most often a person, against the verdict."""
        self.judged(
            self.dice.choice(self.runs), self.dice.choice(("human", "human", "lm")), self.dice.choice((S, F, F, U))
        )

    def learned(self) -> None:
        """A writer learns one or two items from one or two runs, and decides about them as it likes."""
        self.extracted += 1
        id = uuid_of(self.seed, kind=0xF00 + self.extracted)
        runs = self.dice.sample(self.runs, self.dice.randint(1, 2))
        kind: Any = "success" if len(runs) == 1 else self.dice.choice(("pattern", "contrastive"))
        relied = tuple(Reliance(run=run, verdict=self.dice.choice((S, S, S, F))) for run in runs)  # type: ignore[arg-type]
        items = self.dice.sample(self.items, self.dice.randint(1, 2))
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
                    ContextBuilt(run=f"later of {self.seed}", items=ids, chars=0),
                )
            )
        )

    def undone(self) -> None:
        """A person takes a decision back, or that, or sets an extraction aside."""
        extraction, index, _ = self.dice.choice(self.pairs)
        run, verdict = self.dice.choice(self.runs), self.dice.choice((S, F))
        aside = MemoriesRetracted(how="tainted", extractions=(extraction,), run=run, verdict=verdict)  # type: ignore[arg-type]
        undone = DecisionUndone(extraction=extraction, candidate=index, lifted=self.dice.random() < 0.4)
        self.log.append(self.dice.choice((undone, undone, aside)))

    def corrected(self) -> None:
        """Decisions are made again, in a correction that may never be completed."""
        self.corrections += 1
        name = uuid_of(self.seed, kind=0xC00 + self.corrections)
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
def test_no_search_at_any_prefix_of_random_lineages_finds_what_nothing_and_nobody_stands_for() -> None:
    seen = Counter[str]()
    for first in range(0, LINEAGES, TOGETHER):
        with Bank.create("memory:", policies=changed(default_policies(), FLOORLESS)) as bank:
            _tried([Lineage(seed).log for seed in range(first, min(first + TOGETHER, LINEAGES))], bank, seen)
    print(f"\n{seen.pop('lineages'):,} lineages, {seen.pop('prefixes'):,} prefixes, hits and states: {dict(seen)}")
    kinds = ("hits", "active", "unsupported", "rejected", "withdrawn", "superseded")
    assert min(seen[kind] for kind in kinds) > LINEAGES / 20


def _tried(lives: list[list[Event]], bank: Bank, seen: Counter[str]) -> None:
    """Compare what a bank of several lives finds with the plain definition, after each event of all."""
    begun = bank.position
    rounds = [[(life, event) for life, event in enumerate(each) if event] for each in zip_longest(*lives)]
    bank.append([event for each in rounds for _, event in each])
    bank.project()
    events = iter(list(bank.events(resolve=True))[begun:])
    prefixes: list[list[Event]] = [[] for _ in lives]
    active: dict[int, set[str]] = {}
    for each in rounds:
        for life, _ in each:
            prefixes[life].append(event := next(events))
            active[life] = _stood_for(prefixes[life], seen)
        hits = bank.at(event.seq).search(QUERY, limits.SEARCH_HITS)
        assert {hit.id for hit in hits} == set().union(*active.values()), event.seq
        seen["hits"] += len(hits)
    seen["lineages"] += len(lives)


def _stood_for(log: Sequence[Event], seen: Counter[str]) -> set[str]:
    """The active items by the plain definition, of which each has standing words of its own or a person's word."""
    states = {id: entry.state for id, entry in recorded(log).items()}
    active = {id for id, state in states.items() if state == "active"}
    standing, rejected = words_that_stand(list(log))
    assert active <= (standing | vouched_in(log)) - rejected, log[-1]
    seen.update(states.values())
    seen["prefixes"] += 1
    return active


def vouched_in(log: Sequence[Event]) -> set[str]:
    """The items for which a person's word stands."""
    vouched = set[str]()
    for event in log:
        if isinstance(event, MemoriesRestored) and event.how == "vouched":
            vouched |= set(event.ids)
        elif isinstance(event, MemoriesRetracted):
            vouched -= set(event.ids)
    return vouched
