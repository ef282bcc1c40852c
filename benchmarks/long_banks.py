"""The cost of long banks beside short ones: a task of a loop, one run shown, a search, an item added.

The loop runs with a scripted model and the local interpreter, because a model's latency and a sandbox's start would
hide what the bank costs.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpus import SEED, Corpus, make_bank
from benchmarks.measure import Goal, Row, Samples, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank, Item
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.derived_ids import decisions_id
from rbank_es.extraction import consolidate
from rbank_es.loop import LoopSettings, Task, run_closed_loop
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.scripted_model import rendered

HOME = Path(__file__).parent.parent
RUN_EVENTS = 24
"""Events of a run of the corpus, on average."""
TURN = 12
"""Tasks of a turn, of which the first one waits for what the bank reads when it is opened."""
TURNS = 5
ADDED = 100
SEARCHED = 50
_CODE = (
    "count = len('a light on a rock'.split())\nSUBMIT(answer=f'{count} words', sparql='', evidence={'count': count})"
)


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for tasks of a loop, `show RUN`, `Bank.search` and items added."""
    yield from _tasks(place / "loop", sizes)
    yield from _adding(place, sizes)
    yield from _reading(place, sizes)


def _ratio(one: float, other: float) -> float:
    return other / one if one else 0.0


# ---------------------------------------------------------------- tasks of a loop


class Teachable:
    """A model that submits at once, and as an extractor returns an item that no other task gave."""

    def __init__(self, role: str, corpus: Corpus) -> None:
        self._role, self._corpus = role, corpus

    def complete(self, request: Any) -> Any:
        """Return the step, the verdict, or the item."""
        from dspy.lm15 import Message, Response, Usage

        fields: dict[str, Any] = {"reasoning": "Count.", "code": f"```python\n{_CODE}\n```"}
        if self._role == "extractor":
            words = self._corpus.text
            item = {"title": words(8), "description": words(10), "content": words(40)}
            fields = {"memory_items": [item], "why_none": ""}
        elif self._role == "judge":
            fields = {"verdict": "success", "confidence": "0.9", "reason": "The count is right."}
        usage = Usage(input_tokens=1_000, output_tokens=100)
        message = Message.assistant(rendered(fields))
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


def _tasks(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the rows of tasks in a long bank, in turn with those in a new one, because others may use the machine."""
    settings = LoopSettings(
        lm=LmChoice(model="test/scripted"),
        extractor_lm=LmChoice(model="test/extractor"),
        judge="lm",
        judge_lm=LmChoice(model="test/judge"),
        unsafe_local=True,
    )
    lengths = [sizes.events // share for share in (100, 10, 1)]
    for length in lengths:
        make_bank(place / str(length), length).close()
    Bank.create(place / "new").close()
    corpus, numbers = Corpus(SEED + 3), itertools.count()
    turns = [
        {name: _turn(place / name, settings, corpus, numbers) for name in ("new", *map(str, lengths))}
        for _ in range(TURNS + 1)  # the first one, which makes read models and warms code, isn't counted
    ][1:]
    each = {name: median(median(turn[name][1:]) for turn in turns) for name in turns[0]}
    first = {name: median(turn[name][0] for turn in turns) for name in turns[0]}
    runs = f"after {' / '.join(f'{length // RUN_EVENTS:,}' for length in lengths)} runs"
    long = str(lengths[-1])
    yield Row(
        "long banks",
        f"a task of a loop, judged and learned from, {runs}; processor time",
        " / ".join(duration(each[str(length)]) for length in lengths),
        f"in a new bank {duration(each['new'])}",
        "local interpreter, scripted model",
        Goal("≤", 1.2, "x a new bank's"),
        median(median(turn[long][1:]) / median(turn["new"][1:]) for turn in turns),
    )
    yield Row(
        "long banks",
        f"the first task after opening, {runs}; processor time",
        " / ".join(duration(first[str(length)]) for length in lengths),
        f"in a new bank {duration(first['new'])}",
        goal=Goal("≤", 1, "s"),
        value=first[long],
    )


def _turn(place: Path, settings: LoopSettings, corpus: Corpus, numbers: Iterator[int]) -> list[float]:
    """Run some tasks in a bank that is opened for them; return the processor seconds of each."""
    import dspy

    asked = (f"How many words are in text {number}?" for number in itertools.islice(numbers, TURN))
    tasks = [Task(id=question, question=question) for question in asked]
    ends = [time.process_time()]
    with Bank.open(place) as bank:
        results = run_closed_loop(
            tasks, bank, settings,
            interpreters=dspy.LocalInterpreter,
            model_for=lambda role, choice: Teachable(role, corpus),
            on_result=lambda _: ends.append(time.process_time()),
        )  # fmt: skip
    assert all(result.added or result.supported for result in results)
    return [end - start for start, end in itertools.pairwise(ends)]


# ---------------------------------------------------------------- items


def _adding(place: Path, sizes: Sizes) -> Iterator[Row]:
    corpus = Corpus(SEED + 2)
    samples: dict[int, list[float]] = {}
    for count in (10, sizes.items):
        with bank_of(place / f"items-{count}", corpus, count) as bank:
            for _ in range(ADDED):  # the state is folded once, and the ids of the segment are collected
                consolidate(bank, [items_of(corpus, 1)[0]])
            samples[count] = [timed(partial(consolidate, bank, items_of(corpus, 1)))() for _ in range(ADDED)]
        shutil.rmtree(place / f"items-{count}")
    few, many = median(samples[10]), median(samples[sizes.items])
    yield Row(
        "long banks",
        f"an item added by the default policy to {sizes.items:,}, beside 10",
        duration(many),
        f"to 10 {duration(few)}",
        goal=Goal("≤", 1.2, "x to 10"),
        value=_ratio(few, many),
    )


def bank_of(place: Path, corpus: Corpus, count: int) -> Bank:
    """Make a bank of so many items, none near to another, and leave it open."""
    bank = Bank.create(place)
    for start in range(0, count, 500):
        items = items_of(corpus, min(500, count - start))
        heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
        extracted = bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=texts)).events[0]
        decisions = tuple(Decision(candidate=n, action="add", item=item.id) for n, item in enumerate(items))
        # By the id of a policy's own decisions: a correction has nothing to look at then.
        made = MemoriesConsolidated(
            id=decisions_id(extracted.id), extraction=extracted.id, policy="dedup-2", decisions=decisions
        )
        bank.append(made)
    return bank


def items_of(corpus: Corpus, count: int) -> list[Item]:
    """Return new items of 60 words."""

    def item() -> Item:
        words = corpus.text(60).split(" ")
        return Item.make(" ".join(words[:8]), " ".join(words[20:]), "success", desc=" ".join(words[8:20]))

    return [item() for _ in range(count)]


# ---------------------------------------------------------------- reading


def _reading(place: Path, sizes: Sizes) -> Iterator[Row]:
    lengths = [length for length in (10_000, 100_000, 1_000_000) if length <= sizes.events]
    shown: dict[int, Callable[[], float]] = {}
    for length in lengths:
        with make_bank(place / f"log-{length}", length) as bank:
            run = next(getattr(event, "run", "") for event in bank.events(after=length // 2, types={"run_started"}))
            bank.project()
            if length == lengths[-1]:
                yield _search(bank, sizes)
        shown[length] = timed(partial(_show, place / f"log-{length}", run))
        shown[length]()  # builds the index by run
    samples = interleave({str(length): turn for length, turn in shown.items()}, sizes.show_rounds)
    first, *others = (samples.median(str(length)) for length in lengths)
    for length, took in zip(lengths[1:], others, strict=True):
        yield Row(
            "long banks",
            f"rbank-es show RUN of {length:,} events, whole process, beside {lengths[0]:,}",
            duration(took),
            f"of {lengths[0]:,} {duration(first)}",
            goal=Goal("≤", 3, f"x of {lengths[0]:,}"),
            value=_ratio(first, took),
        )


def _show(place: Path, run: str) -> None:
    command = [str(Path(sys.executable).with_name("rbank-es")), "show", str(place), f"run:{run}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=HOME, env={**os.environ, "NO_COLOR": "1"})


def _search(bank: Bank, sizes: Sizes) -> Row:
    queries = Corpus(SEED + 1).queries(SEARCHED)
    with bank.as_of() as view:
        samples: Samples = interleave(
            {
                "bank": timed(lambda: [bank.search(query, 10) for query in queries]),
                "view": timed(lambda: [view.search(query, 10) for query in queries]),
            },
            sizes.search_rounds,
        )
    each = {name: duration(samples.median(name) / len(queries)) for name in samples.seconds}
    return Row(
        "long banks",
        f"Bank.search of a bank of {bank.position:,} events, nothing appended in between",
        each["bank"],
        f"in one view {each['view']}",
        goal=Goal("≤", 2, "x one view"),
        value=samples.ratio("bank", "view"),
    )
