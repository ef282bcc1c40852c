"""Corrections: a verdict overruled on which a thousand items rest, in a large bank; and a bank in which nothing is due.

Half of the thousand items have a near duplicate from another run, which supported them: it is born in their place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.corpus import SEED, Corpus
from benchmarks.long_banks import bank_of, items_of
from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank, Item
from rbank_es.bank.decisions import append_decided
from rbank_es.events import MemoriesExtracted, Reliance, RunJudged, RunStarted
from rbank_es.state import active

DESCENDANTS = 1_000
BATCH = 250


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for an overruled verdict, and for a correction when nothing is due."""
    corpus = Corpus(SEED + 4)
    with bank_of(place / "bank", corpus, sizes.items) as bank:
        _learn_from_a_wrong_verdict(bank, corpus)
        yield _overruled(bank, sizes)
    yield _nothing_due(place / "bank", sizes)


def _learn_from_a_wrong_verdict(bank: Bank, corpus: Corpus) -> None:
    for run in ("wrong", "right"):
        judgment = RunJudged(run=run, purpose="learning", verdict="success", judge="lm", judge_version="1", kind="lm")
        bank.append([RunStarted(run=run), judgment])
    for _ in range(DESCENDANTS // BATCH):
        items = items_of(corpus, BATCH)
        _learn(bank, "wrong", items)
        # With one word less, each is near to the one before it.
        twins = [Item.make(item.title, item.content.rpartition(" ")[0], "success") for item in items[: BATCH // 2]]
        _learn(bank, "right", twins)


def _learn(bank: Bank, run: str, items: list[Item]) -> None:
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    relied = (Reliance(run=run, verdict="success"),)
    extracted = MemoriesExtracted(kind="success", runs=(run,), relied=relied, heads=heads, candidates=texts)
    append_decided(bank.log, bank.latest, [extracted])


def _overruled(bank: Bank, sizes: Sizes) -> Row:
    begin = time.perf_counter()
    made = bank.overrule("wrong", "failure", reason="measured")
    first = time.perf_counter() - begin
    # A few twins end in a word that negates, so they contradict and were added at once.
    assert len(made.left) == DESCENDANTS and len(made.came) > 0.45 * DESCENDANTS, (len(made.left), len(made.came))
    took = []
    for number in range(2 * sizes.correction_rounds):
        begin = time.perf_counter()
        bank.overrule("wrong", "failure" if number % 2 else "success", reason="measured")
        took.append(time.perf_counter() - begin)
    return Row(
        "corrections",
        f"a verdict overruled on which {DESCENDANTS:,} items rest, in a bank of {sizes.items:,} that is open",
        duration(median(took)),
        f"the first one, which indexes all candidates, {duration(first)}",
        goal=Goal("≤", 1, "s"),
        value=median(took),
    )


def _nothing_due(place: Path, sizes: Sizes) -> Row:
    def read() -> None:
        with Bank.open(place) as bank:
            assert sum(1 for _ in bank.log.read(resolve=("memories_extracted",)))

    def correct() -> None:
        with Bank.open(place) as bank:
            assert not bank.correct().correction

    def folded() -> None:
        with Bank.open(place) as bank:
            assert active(bank.state())

    with Bank.open(place) as bank:
        bank.project()
    contestants = {"read": timed(read), "correct": timed(correct), "fold": timed(folded)}
    samples = interleave(contestants, sizes.correction_rounds)
    return Row(
        "corrections",
        f"a bank of {sizes.items:,} items opened and corrected, nothing due, read models up to date",
        duration(samples.median("correct")),
        f"its state folded, as without read models, {duration(samples.median('fold'))}",
        f"its log read {duration(samples.median('read'))}",
        Goal("≤", 2, "x its log read"),
        samples.ratio("correct", "read"),
    )
