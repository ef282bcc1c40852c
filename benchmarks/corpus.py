"""A synthetic bank, the same for the same seed.

Words are drawn independently, with their frequencies in the docstrings of this Python's standard library. So posting
lists have realistic sizes, but words don't occur together as in real texts. The mix and sizes of events follow recorded
runs: half of the events are tool calls, a sixth are model calls that carry nearly all of the bytes.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import Bank, Item
from rbank_es.events import (
    Decision,
    Event,
    Hit,
    ItemsLinked,
    JudgmentOverruled,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetrieved,
    NoteLogged,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
    ToolCalled,
)
from rbank_es.events.items import Polarity
from rbank_es.events.memory_events import Action
from rbank_es.events.run_events import VerdictValue

SEED = 20260131
TOOLS = ("sparql_select", "describe_class", "memory_search", "list_properties", "graph_sample")
PROSE_WORDS = 400_000
GROUP_RUNS = 20
CLOCK_START_US = 1_767_225_600_000_000
CLOCK_STEP_US = 1_000


@cache
def vocabulary() -> tuple[list[str], list[int]]:
    """Return words and their cumulated frequencies in the docstrings of the standard library."""
    counts: Counter[str] = Counter()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                counts.update(re.findall(r"[a-z]{2,}", (ast.get_docstring(node, clean=False) or "").lower()))
    words = sorted(counts)
    return words, list(accumulate(counts[word] for word in words))


class Corpus:
    """An endless sequence of an agent's runs."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._words, self._weights = vocabulary()
        self._prose = self.text(PROSE_WORDS)
        self._items: list[str] = []
        self._number = 0

    def text(self, words: int) -> str:
        """Return `words` words, each drawn independently."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=words))

    def _passage(self, chars: int) -> str:
        """Return a passage of about `chars` characters, cut from prose because that is faster than drawing words."""
        size = max(1, int(chars * self._random.uniform(0.6, 1.4)))
        start = self._random.randrange(len(self._prose) - size)
        return self._prose[start : start + size]

    @property
    def items(self) -> int:
        """The number of items that were learned so far."""
        return len(self._items)

    def queries(self, count: int) -> list[str]:
        """Return questions of 14 words."""
        return [self.text(14) for _ in range(count)]

    def events(self) -> Iterator[Event]:
        """Yield the events of all runs."""
        while True:
            yield from self.run()

    def run(self) -> list[Event]:
        """Return the events of the next run: 24 on average."""
        draw, run = self._random.random, f"run-{self._number:07d}"
        self._number += 1
        events: list[Event] = [
            RunStarted(run=run, ontology="units", executor="rlm", model="scripted-1", task=self._passage(420)),
            self._retrieval(run),
        ]
        for step in range(1, 5):
            events.append(self._model_call(run, step))
            events += [self._tool_call(run, step) for _ in range(3)]
        if self._items:
            events += [self._reading(run) for _ in range(1 + (draw() < 0.2))]
        success = draw() < 0.6
        events.append(RunFinished(run=run, outcome="submitted", iterations=4, answer=self._passage(60)))
        events.append(self._verdict(run, success))
        return events + self._learnt(run, success) + self._rare(run, success)

    def _retrieval(self, run: str) -> Event:
        ids = self._random.sample(self._items, k=min(1, len(self._items)))
        hits = tuple(Hit(id=item, rank=rank, score=-self._random.uniform(3, 20)) for rank, item in enumerate(ids, 1))
        return MemoriesRetrieved(run=run, k=1, policy="bm25-2", hits=hits, query=self._passage(170))

    def _tool_call(self, run: str, step: int) -> Event:
        return ToolCalled(
            run=run,
            tool=self._random.choice(TOOLS),
            step=step,
            chars=int(self._random.expovariate(1 / 300)),
            duration_s=round(self._random.random(), 4),
            arguments=f'{{"query":"{self._passage(90)}"}}',
        )

    def _model_call(self, run: str, step: int) -> Event:
        return LmCalled(
            run=run,
            role="agent",
            model="scripted-1",
            step=step,
            tokens_in=self._random.randrange(500, 5_000),
            tokens_out=self._random.randrange(50, 900),
            cost_usd=round(self._random.random() / 100, 6),
            request_key=f"{self._random.getrandbits(256):064x}",
            request=self._passage(4_500),
            response=self._passage(800),
        )

    def _reading(self, run: str) -> Event:
        return MemoriesRead(run=run, ids=(self._random.choice(self._items),), how="get", chars=400)

    def _verdict(self, run: str, success: bool) -> Event:
        reason = self._passage(130)
        return RunJudged(
            run=run, purpose="learning", verdict=_value(success), judge="j", judge_version="1", kind="lm", reason=reason
        )

    def lessons(self) -> list[Event]:
        """Return an extraction of items with its decisions, and now and then the end of an earlier item."""
        self._number += 1
        events = self._learnt(f"run-{self._number:07d}", self._random.random() < 0.6)
        ended = [MemoriesForgotten(ids=(self._random.choice(self._items),), policy="bounded-1")]
        return [*events, *ended] if self._random.random() < 0.25 else events

    def one_item(self) -> list[Event]:
        """Return an extraction of one item, which is added."""
        item = self._item("success")
        extraction = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        extracted = MemoriesExtracted(id=extraction, kind="manual", heads=(item.head,), candidates=(item.text,))
        decision = Decision(candidate=0, action="add", item=item.id)
        return [extracted, MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=(decision,))]

    def _learnt(self, run: str, success: bool) -> list[Event]:
        kind: Polarity = "success" if success else "failure"
        items = [self._item(kind) for _ in range(self._random.choice((2, 3, 3, 4)))]
        extraction = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        extracted = MemoriesExtracted(
            id=extraction,
            kind=kind,
            runs=(run,),
            relied=(Reliance(run=run, verdict=_value(success)),),
            heads=tuple(item.head for item in items),
            candidates=tuple(item.text for item in items),
        )
        decisions = tuple(self._decision(index, item) for index, item in enumerate(items))
        self._items += [decision.item for decision in decisions if decision.action != "skip"]
        return [extracted, MemoriesConsolidated(extraction=extraction, policy="dedup-1", decisions=decisions)]

    def _item(self, src: Polarity) -> Item:
        words = self.text(self._random.randint(50, 70)).split(" ")
        return Item.make(
            " ".join(words[:8]),
            " ".join(words[20:]),
            src,
            desc=" ".join(words[8:20]),
            tags=(words[0], words[-1]),
            domain="units",
        )

    def _decision(self, index: int, item: Item) -> Decision:
        draw = self._random.random()
        if draw < 0.88 or not self._items:
            return Decision(candidate=index, action="add", item=item.id)
        target = (self._random.choice(self._items),)
        action: Action = "skip" if draw < 0.94 else "supersede" if draw < 0.98 else "merge"
        return Decision(candidate=index, action=action, item=item.id, targets=target, reason="similar")

    def _rare(self, run: str, success: bool) -> list[Event]:
        draw = self._random.random()
        item, other = self._random.choice(self._items), self._random.choice(self._items)
        if draw < 0.25:
            return [MemoriesForgotten(ids=(item,), policy="bounded-1")]
        if draw < 0.30:
            return [MemoriesRestored(ids=(item,))]
        if draw < 0.40:
            return [self._overruling(run, not success)]
        if draw < 0.50:
            return [ItemsLinked(source=item, target=other, how="contradicts")]
        return [NoteLogged(run=run, note=f'{{"text":"{self._passage(80)}"}}')] if draw < 0.70 else []

    def _overruling(self, run: str, success: bool) -> Event:
        return JudgmentOverruled(
            run=run,
            purpose="learning",
            verdict=_value(success),
            judge="j",
            judge_version="1",
            kind="human",
            by="a person",
        )


def _value(success: bool) -> VerdictValue:
    return "success" if success else "failure"


def groups(size: int) -> Iterator[list[Event]]:
    """Yield the events of the corpus in groups, without end and without ids, which the log's writer gives."""
    events = (msgspec.structs.replace(event, id="") if event.id else event for event in Corpus().events())
    while True:
        yield list(islice(events, size))


def make_bank(place: Path, events: int, policies: Mapping[str, Any] | None = None) -> Bank:
    """Return a bank of `events` events, not synced because it is only read. Its bytes follow from the seed.

    `policies` are tables of those that are set before the first run.
    """
    entropy = random.Random(SEED)
    clock = iter(range(CLOCK_START_US, 2**62, CLOCK_STEP_US))
    bank = Bank.create(place, entropy=entropy.randbytes, clock=lambda: next(clock), unsafe_no_sync=True)
    if policies:
        bank.set_policies(policies)
    corpus, left = Corpus(), events - bank.position
    for group in _grouped(corpus):
        bank.append(group[:left])
        left -= len(group)
        if left <= 0:
            break
    return bank


def make_item_bank(place: Path, items: int) -> Bank:
    """Return a bank that has learned about so many items, and holds nothing else; not synced."""
    entropy = random.Random(SEED)
    bank, corpus = Bank.create(place, entropy=entropy.randbytes, unsafe_no_sync=True), Corpus()
    while corpus.items < items:
        bank.append([event for _ in range(GROUP_RUNS) for event in corpus.lessons()])
    return bank


def _grouped(corpus: Corpus) -> Iterable[list[Event]]:
    while True:
        yield [event for _ in range(GROUP_RUNS) for event in corpus.run()]
