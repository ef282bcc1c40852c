"""Makes the sample bank: `python logs/make_sample.py [DIRECTORY]` (default: logs/sample, which is replaced).

The story is in `sample_story.toml`, the graph that it is about in `sample_lights.ttl`; both are invented. What tools
return, what is retrieved, what is added, skipped and forgotten is computed. Clock and randomness are fixed, so the
same release makes the same bytes.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from sample_agent import ONTOLOGY, Clock, Run, Teller, item_of  # noqa: E402
from sample_tools import NAMESPACES, Lights  # noqa: E402

from rbank_es.bank import Bank  # noqa: E402
from rbank_es.events import (  # noqa: E402
    ArtifactMaterialised,
    Decision,
    ItemsLinked,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRetracted,
    OntologyRegistered,
    PolicySet,
)
from rbank_es.items import Item  # noqa: E402
from rbank_es.policies import Bounded, Never, policy_of, to_forget  # noqa: E402

LIGHTS = HERE / "sample_lights.ttl"
CURATOR = "curator"


class Story(Teller):
    """Tells the story to a bank, event by event."""

    def tell(self) -> None:
        """Everything, in order."""
        self._begin()
        for told in self.told["run"]:
            self.clock.set(told["at"])
            Run(self, told).tell()
            self.clock.tick(1800)
            if told["id"] in AFTER:
                AFTER[told["id"]](self)

    def _begin(self) -> None:
        source = LIGHTS.read_bytes()
        self.add(
            OntologyRegistered(
                ontology=ONTOLOGY,
                sha256=hashlib.sha256(source).hexdigest(),
                format="turtle",
                triples=len(self.graph),
                namespaces=NAMESPACES,
                source="logs/sample_lights.ttl, made up for this sample",
            )
        )
        seeds = [item_of(told, "seed", domain=None) for told in self.told["seeds"]]
        self.extract("seed", seeds, extractor="seeds-1")

    def find(self, title: str) -> str:
        """Id of the item whose title begins so."""
        return next(id for id, entry in self.bank.state().items.items() if entry.item.title.startswith(title))

    def forget(self) -> None:
        """Let the forgetting policy in force end what it can spare."""
        state = self.bank.state()
        policy = policy_of(state.policies["forgetting"])
        assert isinstance(policy, Never | Bounded)
        ids = to_forget(policy, state)
        if ids:
            why = "The bank holds more items than the policy allows; these were worth least."
            self.add(MemoriesForgotten(ids=ids, policy=policy.label, why=why), seconds=60)


# ---------------------------------------------------------------- what people do between runs


def _overrule(story: Story) -> None:
    """An expert sees that the tallest building was looked for by the height of its light."""
    run = "lights-07"
    [overruled] = story.add(
        JudgmentOverruled(
            run=run,
            purpose="learning",
            success=False,
            judge="expert",
            judge_version="1",
            kind="human",
            by=CURATOR,
            judgment=story.judgments[run],
            reason="The tallest tower is Cormorant Rock, 49 metres; Kittiwake Head stands on a cliff.",
            why="The judge took the height of the light for the height of the building.",
        )
    )
    why = "It was learnt from a run that is a failure now, and says the wrong thing."
    story.add(MemoriesRetracted(ids=tuple(story.learnt[run]), because=overruled.id, why=why), seconds=30)
    principle = Item.make(
        "The property must measure what the question asks for",
        "Before a verdict of success, read the comment of every property that the query compares. A number of the "
        "right unit is not enough: a tower and its light have different heights.",
        "principle",
        desc="For the judge: check what a property means.",
        domain=ONTOLOGY,
    )
    story.extract("manual", [principle], runs=(run,), judgment=overruled.id, extractor=CURATOR, seconds=600)


def _supersede(story: Story) -> None:
    """The curator puts an item in clearer words; a person's decision, so no policy of the bank is named."""
    old = story.find("Names of lights are in lt:name")
    new = Item.make(
        "Match things by lt:name; labels belong to the schema",
        "Only classes and properties have an rdfs:label. Match lights and keepers by lt:name, whole and in its own "
        'spelling: ?light lt:name "Cormorant Rock". Nothing found by name means: look at one instance, then try again.',
        "failure",
        desc="rdfs:label finds no light and no keeper.",
        tags=("names", "labels"),
        domain=ONTOLOGY,
    )
    candidates = MemoriesExtracted(kind="manual", extractor=CURATOR, heads=(new.head,), candidates=(new.text,))
    [extracted] = story.add(candidates)
    decision = Decision(candidate=0, action="supersede", item=new.id, targets=(old,), reason="clearer-words")
    story.add(MemoriesConsolidated(extraction=extracted.id, policy="by-hand-1", decisions=(decision,)), seconds=5)


def _link(story: Story) -> None:
    """The curator notes that what was learnt about towers contradicts what was retracted."""
    source, target = story.find("Tower height for buildings"), story.find("Compare how tall")
    story.add(ItemsLinked(source=source, target=target, how="contradicts", by=CURATOR))


def _write_guide(story: Story) -> None:
    """The guide is written once, to be used by later runs."""
    text = story.told["guide"].strip()
    story.add(
        ArtifactMaterialised(artifact="guide-lights-1", kind="guide", ontology=ONTOLOGY, chars=len(text), text=text)
    )


def _bound(story: Story) -> None:
    """From here on the bank holds no more than 16 items, at least 4 of them about failures."""
    policies = story.bank.state().policies
    bounded = dict(policies) | {"forgetting": Bounded(max_items=16, floor_success=6, floor_failure=4).choice}
    story.add(PolicySet(policies=tuple(bounded.values()), by=CURATOR, why="To keep searches sharp."))
    story.forget()


AFTER: dict[str, Callable[[Story], None]] = {
    "lights-10": _overrule,
    "lights-15": _supersede,
    "lights-18": _link,
    "lights-19": _write_guide,
    "lights-22": _bound,
    "lights-30": Story.forget,
}


def make(place: Path) -> Path:
    """Make the bank `sample` in a directory that doesn't exist yet: its log, and nothing derived. Returns `place`."""
    told = tomllib.loads((HERE / "sample_story.toml").read_text(encoding="utf-8"))
    clock, dice = Clock(), random.Random("lights")
    clock.set("2026-03-02T08:30:00Z")
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "sample"
        with Bank.create(made, purpose=told["purpose"], by=CURATOR, clock=clock, entropy=dice.randbytes) as bank:
            Story(bank, clock, told, Lights.load(LIGHTS)).tell()
            checked = bank.verify(retrievals=True).retrievals
            assert checked is not None and not checked.different and not checked.unverifiable
        place.mkdir(parents=True)
        for segment in sorted(made.glob("*.jsonl")):
            shutil.copyfile(segment, place / segment.name)
    return place


def main() -> None:
    """Make the sample where the command line says, in the place of the one that is there."""
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "sample"
    if place.exists():
        shutil.rmtree(place)
    print(f"{make(place)}: {sum(file.stat().st_size for file in place.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
