"""A small bank in which a judge passed a wrong answer: what it taught, and whom that misled.

well       success   taught HEIGHT's twin: the same advice in other words, skipped while HEIGHT is there
wrong      success   (a model's verdict) taught HEIGHT
misled     failure   was given HEIGHT; taught WARNING
lucky      success   was given HEIGHT; taught SORTED, which is tainted once HEIGHT has left
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.events import ContextBuilt, Event, MemoriesExtracted, Reliance, RunFinished, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.events.run_events import JudgeKind, VerdictValue
from rbank_es.extraction.candidates import consolidate

HEIGHT = Item.make(
    "Compare lighthouses by focal height", "Sort the lights by their focal height, the highest first.", "success"
)
TWIN = Item.make(
    "Compare lighthouses by focal heights", "Sort the lights by their focal height, the highest first!", "success"
)
WARNING = Item.make(
    "A focal height is not a tower height", "It is the height above the water, cliff included.", "failure"
)
SORTED = Item.make(
    "Read the first row of a sorted result", "One row is enough where the question asks for the most.", "success"
)
RUNS = ("wrong", "well", "misled", "lucky")


def judged(run: str, verdict: VerdictValue, kind: JudgeKind = "lm") -> RunJudged:
    return RunJudged(
        run=run,
        purpose="learning",
        verdict=verdict,
        judge=kind,
        judge_version="1",
        kind=kind,
        reason=f"{run} looks like a {verdict}",
    )


def ran(run: str, *given: str) -> list[Event]:
    return [
        RunStarted(run=run, task=f"Which lighthouse is the tallest? ({run})", scripted=True),
        ContextBuilt(run=run, chars=100, items=given),
        RunFinished(run=run, outcome="submitted", answer="Kittiwake Head", iterations=2),
    ]


def drawn(item: Item, *relied: tuple[str, VerdictValue], kind: str = "") -> MemoriesExtracted:
    """Return the extraction of an item from judged runs."""
    return MemoriesExtracted(
        kind=kind or item.src,  # type: ignore[arg-type]
        runs=tuple(run for run, _ in relied),
        relied=tuple(Reliance(run=run, verdict=verdict) for run, verdict in relied),
        heads=(item.head,),
        candidates=(item.text,),
    )


def learned(bank: Bank, item: Item, *relied: tuple[str, VerdictValue], kind: str = "") -> str:
    """Record what judged runs taught, decided by the policy in force; return the extraction's id."""
    return consolidate(bank, [drawn(item, *relied, kind=kind)]).extractions[0]


def misled_bank(place: str | Path) -> Bank:
    """Make the bank; its items are HEIGHT, WARNING and SORTED."""
    bank = Bank.create(place)
    story: tuple[tuple[str, VerdictValue, Item, tuple[str, ...]], ...] = (
        ("wrong", "success", HEIGHT, ()),
        ("well", "success", TWIN, ()),
        ("misled", "failure", WARNING, (HEIGHT.id,)),
        ("lucky", "success", SORTED, (HEIGHT.id,)),
    )
    for run, verdict, item, given in story:
        bank.append([*ran(run, *given), judged(run, verdict)])
        learned(bank, item, (run, verdict))
    return bank


PENDING = Item.make("Count with DISTINCT", "A light may be typed twice; count the lights, not the rows.")
LONG = Item.make("Many lines", "\n".join(f"Line {n} of the advice." for n in range(20)))


def pending_bank(place: str | Path) -> None:
    """Make the bank, with two items that wait for a person."""
    with misled_bank(place) as bank:
        for item in (PENDING, LONG):
            one = drawn(item, ("well", "success"))
            consolidate(bank, [replace(one, pending=True, extractor="proposals-1")])


def kin_bank(place: str | Path) -> None:
    """Make the bank of somebody else, with a run of a name that the misled one has too."""
    with Bank.create(place) as bank:
        bank.append([*ran("well"), judged("well", "success")])
        learned(bank, PENDING, ("well", "success"))


def twice_bank(place: str | Path) -> None:
    """Make the bank, with another success that taught HEIGHT."""
    with misled_bank(place) as bank:
        bank.append([*ran("again"), judged("again", "success")])
        learned(bank, HEIGHT, ("again", "success"))
