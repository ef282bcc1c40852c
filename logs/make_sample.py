"""Makes the sample bank: `python logs/make_sample.py [DIRECTORY]` (default: logs/sample, which is replaced).

The real closed loop runs the tasks of `sample_tasks.json` over the shipped ontology, the agent's code in the real
sandbox; `sample_script.toml` stands in for the model, and `sample_story.toml` tells what happens when. Between the
tasks people do to the bank what is written here. Clock and randomness are fixed, so the same release makes the same
bytes.
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
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRetracted,
    PolicySet,
    RunJudged,
)
from rbank_es.events.items import Item  # noqa: E402
from rbank_es.extraction.consolidation_step import consolidate  # noqa: E402
from rbank_es.loop.closed_loop import TaskResult, run_closed_loop, run_matts_parallel  # noqa: E402
from rbank_es.loop.guide import write_guide  # noqa: E402
from rbank_es.loop.settings import LoopSettings  # noqa: E402
from rbank_es.loop.tasks import Task, load_tasks  # noqa: E402
from rbank_es.models.choice import LmChoice  # noqa: E402
from rbank_es.ontology.loader import load_ontology  # noqa: E402
from rbank_es.policies import Bounded, Never, policy_of  # noqa: E402
from rbank_es.sandbox.pool import SandboxPool  # noqa: E402
from rbank_es.sparql.source import Source, open_source  # noqa: E402

STORY, TASKS, SCRIPT = HERE / "sample_story.toml", HERE / "sample_tasks.json", HERE / "sample_script.toml"
CURATOR = "curator"
BEGINNING = "2026-03-02T08:30:00Z"
PACE_S = (0.004, 0.06)
"""How far the clock goes on whenever it is read for a duration, between these."""


class Clock:
    """Stands still but when it is read or told the time. A log reads it by calling it, a loop reads `seconds`."""

    def __init__(self) -> None:
        self._now_us = 0
        self._dice = random.Random("pace")

    def __call__(self) -> int:
        """UTC microseconds since 1970."""
        self._now_us += 137
        return self._now_us

    def seconds(self) -> float:
        """Seconds since 1970."""
        self.tick(round(self._dice.uniform(*PACE_S), 6))
        return self._now_us / 1_000_000

    def set(self, time: str) -> None:
        """Set an ISO time."""
        self._now_us = int(datetime.fromisoformat(time).astimezone(UTC).timestamp()) * 1_000_000

    def tick(self, seconds: float) -> None:
        """Let time pass."""
        self._now_us += round(seconds * 1_000_000)


class Story:
    """Runs what the files tell, chapter by chapter, and does what people did in between."""

    def __init__(self, bank: Bank, source: Source, clock: Clock, told: Mapping[str, Any], **parts: Any) -> None:
        """`parts` are of the loop, as `run_closed_loop` takes them."""
        self.bank, self.source, self.clock, self.told = bank, source, clock, told
        self.results: dict[str, TaskResult] = {}
        self._tasks = {task.id: task for task in load_tasks(TASKS)}
        self._at = {task["id"]: task["at"] for chapter in told["chapter"] for task in chapter["tasks"]}
        self._parts = {
            "clock": clock.seconds,
            "origin": lambda: {"release": __version__, "commit": None},
            "at_once": False,
            **parts,
        }

    def tell(self) -> None:
        """Everything, in order."""
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
        """The script."""
        return LmChoice(model=f"script:{SCRIPT}")

    def write_guide(self) -> None:
        """An agent explores the ontology once."""
        write_guide(self.bank, LoopSettings(lm=self.model, iterations=6), self.source, **self._parts)

    def add(self, *events: Event) -> tuple[Event, ...]:
        """Append events as one group, half a minute later."""
        self.clock.tick(30)
        return self.bank.append(events).events

    def find(self, title: str) -> str:
        """Id of the item whose title begins so."""
        return next(id for id, entry in self.bank.state().items.items() if entry.item.title.startswith(title))

    def forget(self) -> None:
        """Let the forgetting policy in force end what it can spare."""
        state = self.bank.state()
        policy = policy_of(state.policies["forgetting"])
        assert isinstance(policy, Never | Bounded)
        ids = policy.to_forget(state)
        if ids:
            why = "The bank holds more items than the policy allows; these were worth least."
            self.add(MemoriesForgotten(ids=ids, policy=policy.label, why=why))


# ---------------------------------------------------------------- what people do between runs


def _overrule(story: Story) -> None:
    """An expert sees a run refused for what an earlier one was praised for, and overrules the praise."""
    result = story.results["lights-07"]
    verdicts = story.bank.events(types={"run_judged"}, run=result.run)
    [judged] = [event for event in verdicts if isinstance(event, RunJudged) and event.purpose == "learning"]
    [overruled] = story.add(
        JudgmentOverruled(
            run=result.run,
            purpose="learning",
            success=False,
            judge="expert",
            judge_version="1",
            kind="human",
            by=CURATOR,
            judgment=judged.id,
            reason="The tallest tower is Cormorant Rock, 49 metres; Kittiwake Head stands on a cliff.",
            why="The judge took the height of the light for the height of the building.",
        )
    )
    why = "It was learnt from a run that is a failure now, and says the wrong thing."
    story.add(MemoriesRetracted(ids=result.added, because=overruled.id, why=why))
    principle = Item.make(
        "The property must measure what the question asks for",
        "Before a verdict of success, read the comment of every property that the query compares. A number of the "
        "right unit is not enough: a tower and its light have different heights.",
        "principle",
        desc="For the judge: check what a property means.",
        domain=LIGHTS,
    )
    story.clock.tick(600)
    consolidate(story.bank, [_by_hand("manual", [principle], runs=(result.run,), judgment=overruled.id)])


def _supersede(story: Story) -> None:
    """The curator puts an item in clearer words; a person's decision, so no policy of the bank is named."""
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
    """The curator notes that what was learnt about towers contradicts what was retracted."""
    source, target = story.find("Tower height for buildings"), story.find("Compare how tall")
    story.add(ItemsLinked(source=source, target=target, how="contradicts", by=CURATOR))


def _bound(story: Story) -> None:
    """From here on the bank holds no more than so many items, at least 4 of them about failures."""
    policies = story.bank.state().policies
    bounded = dict(policies) | {"forgetting": Bounded(max_items=MOST, floor_success=6, floor_failure=4).choice}
    story.add(PolicySet(policies=tuple(bounded.values()), by=CURATOR, why="To keep searches sharp."))
    story.forget()


MOST = 28
"""Items that the bank may hold once its curator bounds it."""

ACTS: dict[str, Callable[[Story], None]] = {
    "overrule": _overrule,
    "supersede": _supersede,
    "link": _link,
    "guide": Story.write_guide,
    "bound": _bound,
    "forget": Story.forget,
}


def _by_hand(kind: Any, items: list[Item], *, extractor: str = CURATOR, **facts: Any) -> MemoriesExtracted:
    """Candidates that people wrote."""
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    return MemoriesExtracted(kind=kind, extractor=extractor, heads=heads, candidates=texts, **facts)


def item_of(told: Mapping[str, Any]) -> Item:
    """An item that was there before the first run, as the file tells it."""
    return Item.make(told["title"], told["content"].strip(), "seed", desc=told["desc"], tags=tuple(told["tags"]))


def make(place: Path, **parts: Any) -> Path:
    """Make the bank `sample` in a directory that doesn't exist yet: its log, and nothing derived. Returns `place`.

    `parts` are of the loop, as `run_closed_loop` takes them. Raises `SandboxUnavailable` where code can't run.
    """
    told = tomllib.loads(STORY.read_text(encoding="utf-8"))
    clock, dice = Clock(), random.Random("lights")
    clock.set(BEGINNING)
    with ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sample"
        source = stack.enter_context(closing(open_source(ontology=load_ontology(lights().ontology, id=LIGHTS))))
        if "interpreters" not in parts:
            parts["interpreters"] = stack.enter_context(SandboxPool(1))
        with Bank.create(made, purpose=told["purpose"], by=CURATOR, clock=clock, entropy=dice.randbytes) as bank:
            Story(bank, source, clock, told, **parts).tell()
            checked = bank.verify(retrievals=True).retrievals
            assert checked is not None and not checked.different and not checked.unverifiable
        place.mkdir(parents=True)
        for segment in sorted(made.glob("*.jsonl")):
            shutil.copyfile(segment, place / segment.name)
    return place


def main() -> None:
    """Make the sample where the command line says, in the place of the one that is there."""
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "sample"
    with tempfile.TemporaryDirectory(dir=place.resolve().parent) as beside:
        made = make(Path(beside) / "sample")
        if place.exists():
            shutil.rmtree(place)
        made.rename(place)
    print(f"{place}: {sum(file.stat().st_size for file in place.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
