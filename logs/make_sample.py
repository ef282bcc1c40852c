"""Makes the sample bank: `python logs/make_sample.py [DIRECTORY]` (default: logs/sample, which is replaced).

The real closed loop runs the tasks of `sample_tasks.json` over the shipped ontology, with the agent's code in the real
sandbox. `sample_script.toml` stands in for the model; `sample_story.toml` gives the order and the times. The acts of
people between tasks are functions here. Clock and randomness are fixed, so that a release always makes the same bytes.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from rbank_es import __version__  # noqa: E402
from rbank_es.bank import Bank  # noqa: E402
from rbank_es.data import LIGHTS, lights  # noqa: E402
from rbank_es.events import (  # noqa: E402
    Decision,
    Event,
    ItemsLinked,
    MemoriesConsolidated,
    MemoriesExtracted,
    PolicyChoice,
)
from rbank_es.events.items import Item  # noqa: E402
from rbank_es.extraction.candidates import consolidate  # noqa: E402
from rbank_es.law import Dedup  # noqa: E402
from rbank_es.loop.closed_loop import TaskResult, run_closed_loop, run_matts_parallel  # noqa: E402
from rbank_es.loop.guide_run import write_guide  # noqa: E402
from rbank_es.loop.settings import LoopSettings  # noqa: E402
from rbank_es.loop.tasks import Task, load_tasks, suite_digest  # noqa: E402
from rbank_es.models.model_choice import LmChoice  # noqa: E402
from rbank_es.ontology.loader import load_ontology  # noqa: E402
from rbank_es.policies import Bm25V2, default_policies  # noqa: E402
from rbank_es.sandbox.sandbox_pool import SandboxPool  # noqa: E402
from rbank_es.sparql.data_source import Source, open_source  # noqa: E402

STORY, TASKS, SCRIPT = HERE / "sample_story.toml", HERE / "sample_tasks.json", HERE / "sample_script.toml"
CURATOR = "curator"
BEGINNING = "2026-03-02T08:30:00Z"
PACE_S = (0.004, 0.06)
"""Bounds of the seconds by which the clock advances when it is read for a duration."""


class Clock:
    """A clock that advances only when it is read or set. A log calls it; a loop reads `seconds`."""

    def __init__(self) -> None:
        self._now_us = 0
        self._dice = random.Random("pace")

    def __call__(self) -> int:
        """Return UTC microseconds since 1970."""
        self._now_us += 137
        return self._now_us

    def seconds(self) -> float:
        """Return seconds since 1970."""
        self.tick(round(self._dice.uniform(*PACE_S), 6))
        return self._now_us / 1_000_000

    def set(self, time: str) -> None:
        """Set the clock to an ISO time."""
        self._now_us = int(datetime.fromisoformat(time).astimezone(UTC).timestamp()) * 1_000_000

    def tick(self, seconds: float) -> None:
        """Advance the clock."""
        self._now_us += round(seconds * 1_000_000)


class Story:
    """The story of the sample: runs of the loop, chapter by chapter, and the acts of people in between."""

    def __init__(self, bank: Bank, source: Source, clock: Clock, told: Mapping[str, Any], **parts: Any) -> None:
        """Keep the parts of the story; `parts` go to `run_closed_loop`."""
        self.bank, self.source, self.clock, self.told = bank, source, clock, told
        self.results: dict[str, TaskResult] = {}
        self._tasks = {task.id: task for task in load_tasks(TASKS)}
        self._at = {task["id"]: task["at"] for chapter in told["chapter"] for task in chapter["tasks"]}
        self._parts = {
            "clock": clock.seconds,
            "origin": lambda: {"release": __version__, "commit": None},
            "at_once": False,
            "suite": suite_digest(self._tasks.values()),
            **parts,
        }

    def tell(self) -> None:
        """Record the whole story, in order."""
        consolidate(self.bank, [_by_hand("seed", [item_of(seed) for seed in self.told["seed"]], extractor="seeds-1")])
        for chapter in self.told["chapter"]:
            self._run(chapter)
            self.clock.tick(1800)
            if "then" in chapter:
                ACTS[chapter["then"]](self)

    def _run(self, chapter: Mapping[str, Any]) -> None:
        settings = LoopSettings(lm=self.model, **chapter.get("settings", {}))
        tasks = [self._tasks[task["id"]] for task in chapter["tasks"]]
        if "rollouts" in chapter:
            [task] = tasks
            self._began(task, 1, 1)
            k = chapter["rollouts"]
            done = [run_matts_parallel(task, self.bank, settings, self.source, k=k, **self._parts)]
        else:
            done = run_closed_loop(tasks, self.bank, settings, self.source, on_task=self._began, **self._parts)
        self.results |= {result.task: result for result in done}

    def _began(self, task: Task, _number: int, _of: int) -> None:
        self.clock.set(self._at[task.id])

    @property
    def model(self) -> LmChoice:
        """The script that stands in for the model."""
        return LmChoice(model=f"script:{SCRIPT}")

    def write_guide(self) -> None:
        """Have an agent write a guide to the ontology."""
        write_guide(self.bank, LoopSettings(lm=self.model, iterations=6), self.source, **self._parts)

    def add(self, *events: Event) -> tuple[Event, ...]:
        """Append events as one group, half a minute later."""
        self.clock.tick(30)
        return self.bank.append(events).events

    def find(self, title: str) -> str:
        """Return the id of the item whose title begins with a text."""
        return next(id for id, entry in self.bank.state().items.items() if entry.item.title.startswith(title))


# ---------------------------------------------------------------- what people do between runs


def _overrule(story: Story) -> None:
    """Overrule a success as an expert who saw a later run fail for the same claim; write down what a judge must know.

    What rested on the verdict leaves the bank with it; nothing else is done by hand.
    """
    run = story.results["lights-07"].run
    why = (
        "The tallest tower is Cormorant Rock, 49 metres; Kittiwake Head stands on a cliff. The judge took the height "
        "of the light for the height of the building."
    )
    story.clock.tick(30)
    story.bank.overrule(run, "failure", reason=why, by=CURATOR)
    story.clock.tick(600)
    story.bank.remember(
        "The property must measure what the question asks for",
        "Before a verdict of success, read the comment of every property that the query compares. A number of the "
        "right unit is not enough: a tower and its light have different heights.",
        src="principle",
        desc="For the judge: check what a property means.",
        domain=LIGHTS,
    )


def _supersede(story: Story) -> None:
    """Supersede an item by clearer words of the curator; no policy is named, because a person decided."""
    old = story.find("Names of lights are in lt:name")
    new = Item.make(
        "Match things by lt:name; labels belong to the schema",
        "Classes, properties, areas and statuses have an rdfs:label. Match lights and keepers by lt:name, whole and in "
        'its own spelling: ?light lt:name "Cormorant Rock". Nothing found by name means: look at one instance, then '
        "try again.",
        "failure",
        desc="rdfs:label finds no light and no keeper.",
        tags=("names", "labels"),
        domain=LIGHTS,
    )
    [extracted] = story.add(_by_hand("manual", [new]))
    decision = Decision(candidate=0, action="supersede", item=new.id, targets=(old,), reason="clearer-words")
    story.add(MemoriesConsolidated(extraction=extracted.id, policy="by-hand-1", decisions=(decision,)))


def _link(story: Story) -> None:
    """Link the item about towers to the retracted one that it contradicts."""
    source, target = story.find("Tower height for buildings"), story.find("Compare how tall")
    story.add(ItemsLinked(source=source, target=target, how="contradicts", by=CURATOR))


def _bound(story: Story) -> None:
    """Bound the bank to `MOST` items, at least 4 of them about failures."""
    story.clock.tick(30)
    bounded = {"name": "bounded", "max_items": MOST, "floor_success": 6, "floor_failure": 4}
    story.bank.set_policies({"forgetting": bounded}, by=CURATOR, why="To keep searches sharp.")


MOST = 28
"""Items that the bank may hold once its curator bounds it."""

ACTS: dict[str, Callable[[Story], None]] = {
    "overrule": _overrule,
    "supersede": _supersede,
    "link": _link,
    "guide": Story.write_guide,
    "bound": _bound,
}


def _by_hand(kind: Any, items: list[Item], *, extractor: str = CURATOR, **facts: Any) -> MemoriesExtracted:
    """Return candidates that people wrote."""
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    return MemoriesExtracted(kind=kind, extractor=extractor, heads=heads, candidates=texts, **facts)


def item_of(told: Mapping[str, Any]) -> Item:
    """Return an item of the story that the bank has before its first run."""
    return Item.make(told["title"], told["content"].strip(), "seed", desc=told["desc"], tags=tuple(told["tags"]))


def make(place: Path, **parts: Any) -> Path:
    """Make the bank `sample` in a directory that doesn't exist yet: its log, and nothing derived. Return `place`.

    `parts` go to `run_closed_loop`. Raises `SandboxUnavailable` if code can't run.
    """
    told = tomllib.loads(STORY.read_text(encoding="utf-8"))
    clock, dice = Clock(), random.Random("lights")
    clock.set(BEGINNING)
    with ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sample"
        source = stack.enter_context(closing(open_source(load_ontology(lights().ontology, id=LIGHTS))))
        if "interpreters" not in parts:
            parts["interpreters"] = stack.enter_context(SandboxPool(1))
        with Bank.create(
            made, purpose=told["purpose"], by=CURATOR, policies=_policies(), clock=clock, entropy=dice.randbytes
        ) as bank:
            Story(bank, source, clock, told, **parts).tell()
            checked = bank.check(retrievals=True).retrievals
            assert checked is not None and not checked.different and not checked.unverifiable
        place.mkdir(parents=True)
        for segment in sorted(made.glob("*.jsonl")):
            shutil.copyfile(segment, place / segment.name)
    return place


def _policies() -> list[PolicyChoice]:
    """Return the policies of a new bank, but for two: its script names lessons that the default floor withholds, and
    its story shows what dedup-1 takes for near duplicates."""
    chosen = {choice.kind: choice for choice in (Bm25V2(coverage=0.25).choice, Dedup().choice)}
    return [chosen.get(choice.kind, choice) for choice in default_policies()]


def main() -> None:
    """Make the sample at the place that the command line names, and replace the one there."""
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "sample"
    with tempfile.TemporaryDirectory(dir=place.resolve().parent) as beside:
        made = make(Path(beside) / "sample")
        if place.exists():
            shutil.rmtree(place)
        made.rename(place)
    print(f"{place}: {sum(file.stat().st_size for file in place.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
