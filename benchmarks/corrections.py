"""Corrections: a verdict overruled on which a thousand items rest, in a large bank; a bank in which nothing is due; the
memory of `verify`; and how many paraphrases of rejected lessons come back.

Half of the thousand items have a near duplicate from another run, which supported them: it is born in their place.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.corpus import SEED, Corpus, make_bank
from benchmarks.long_banks import bank_of, items_of
from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.paraphrases import paraphrases
from benchmarks.sizes import Sizes
from rbank_es import Bank, Item
from rbank_es.data import lights
from rbank_es.events import MemoriesExtracted, Reliance, RunJudged, RunStarted
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import DedupV2, active
from rbank_es.law.decisions import append_decided
from rbank_es.law.similar_items import KnownItems

# The command, then the peak memory of its process in KiB. Not `ru_maxrss`, because a child begins with its parent's.
_VERIFY = """
import sys
from rbank_es.cli.shared import main
main.main(["verify", sys.argv[1]])
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
DESCENDANTS = 1_000
BATCH = 250
PARAPHRASES = 1_000


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for an overruled verdict, for a correction when nothing is due, and for paraphrases."""
    corpus = Corpus(SEED + 4)
    with bank_of(place / "bank", corpus, sizes.items) as bank:
        _learn_from_a_wrong_verdict(bank, corpus)
    with Bank.open(place / "bank") as bank:
        yield _overruled(bank, sizes)
    yield _nothing_due(place / "bank", sizes)
    yield from _verified(place, [sizes.events // share for share in (100, 10, 1)])
    yield _come_back()


def _learn_from_a_wrong_verdict(bank: Bank, corpus: Corpus) -> None:
    for run in ("wrong", "right"):
        judgment = RunJudged(run=run, purpose="learning", verdict="success", judge="lm", judge_version="1", kind="lm")
        bank.append([RunStarted(run=run), judgment])
    for _ in range(DESCENDANTS // BATCH):
        items = items_of(corpus, BATCH)
        _learn(bank, "wrong", items)
        # In another case, each states the same as the one before it.
        twins = [Item.make(item.title, item.content.capitalize(), "success") for item in items[: BATCH // 2]]
        _learn(bank, "right", twins)


def _learn(bank: Bank, run: str, items: list[Item]) -> None:
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    relied = (Reliance(run=run, verdict="success"),)
    extracted = MemoriesExtracted(kind="success", runs=(run,), relied=relied, heads=heads, candidates=texts)
    append_decided(bank.log, bank.latest, [extracted])


def _overruled(bank: Bank, sizes: Sizes) -> Row:
    begin = time.perf_counter()
    with bank.latest.at(bank.log.position()):
        folded = time.perf_counter() - begin
    begin = time.perf_counter()
    made = bank.overrule("wrong", "failure", reason="measured")
    first = time.perf_counter() - begin
    assert len(made.left) == DESCENDANTS and len(made.came) == DESCENDANTS // 2, (len(made.left), len(made.came))
    took = []
    for number in range(2 * sizes.correction_rounds):
        begin = time.perf_counter()
        bank.overrule("wrong", "failure" if number % 2 else "success", reason="measured")
        took.append(time.perf_counter() - begin)
    return Row(
        "corrections",
        f"a verdict overruled on which {DESCENDANTS:,} items rest, in a bank of {sizes.items:,} that is open",
        duration(median(took)),
        f"the first one after opening it {duration(first)}, beside {duration(folded)} in which the log is folded",
        goal=Goal("≤", 1, "s"),
        value=median(took),
    )


def _nothing_due(place: Path, sizes: Sizes) -> Row:
    def read() -> None:
        with Bank.open(place) as bank:
            assert sum(1 for _ in bank.log.read(resolve=("memories_extracted",)))

    def correct() -> None:
        with Bank.open(place) as bank:
            assert not bank.correct().recorded

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


def _verified(place: Path, lengths: Sequence[int]) -> Iterator[Row]:
    """Yield the peak memory of `verify` by length of the log: with nothing due, and with one verdict that is."""
    peaks: dict[str, list[int]] = {"nothing due": [], "a correction due": []}
    for length in lengths:
        log = place / f"log-{length}"
        with make_bank(log, length) as bank:
            bank.correct()
            bank.project()
            judged = next(each for each in bank.events(after=length // 2) if isinstance(each, RunJudged))
            verdict: VerdictValue = "failure" if judged.verdict == "success" else "success"
            human = RunJudged(
                run=judged.run, purpose="learning", verdict=verdict, judge="j", judge_version="1", kind="human"
            )
            peaks["nothing due"].append(_verify_kib(log))
            bank.append(human)
            assert bank.state().due
            peaks["a correction due"].append(_verify_kib(log))
    for name, found in peaks.items():
        yield Row(
            "corrections",
            f"peak memory of verify, {name}, {' / '.join(f'{length:,}' for length in lengths)} events",
            " / ".join(f"{peak >> 10} MiB" for peak in found),
            goal=Goal("≤", 1.2, "x the smallest"),
            value=found[-1] / found[0],
        )


def _verify_kib(bank: Path) -> int:
    found = subprocess.run([sys.executable, "-c", _VERIFY, str(bank)], check=True, capture_output=True, text=True)
    return int(found.stdout.splitlines()[-1])


def _come_back() -> Row:
    made, back = comeback()
    shares = (f"{name} {back[name]:,} of {made[name]:,}" for name in ("order", "insertion", "synonyms", "deletion"))
    return Row(
        "corrections",
        f"template paraphrases of rejected lessons that come back, of {made.total():,}",
        f"{back.total():,} ({back.total() / made.total():.0%})",
        f"of one template alone: {', '.join(shares)}",
    )


def comeback() -> tuple[Counter[str], Counter[str]]:
    """Return how many paraphrases of the shipped lessons, all rejected, were made and how many come back by themselves,
    by template.

    Each is decided about alone, in a bank that has nothing else.
    """
    lessons = [
        Item.make(each["title"], each["content"], each["src"], polarity=each["polarity"])
        for each in json.loads(lights().seed.read_text(encoding="utf-8"))
    ]
    with Bank.create("memory:") as bank:
        for lesson in lessons:
            learned = bank.remember(lesson.title, lesson.content, src=lesson.src, polarity=lesson.polarity)
            bank.reject(learned.item, because="measured")
        known = KnownItems.of(bank.state())
    made, back = Counter[str](), Counter[str]()
    for name, item in paraphrases(lessons, PARAPHRASES, SEED):
        made[name] += 1
        decision = DedupV2().decide(0, item, known)
        back[name] += decision.action != "discard" and not decision.pending
    return made, back
