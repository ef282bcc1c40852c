"""Real runs with an expert's verdicts: overruling the judge takes out exactly what rested on its mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rbank_es.bank import Bank
from rbank_es.bank.verdict_acts import Ruling
from rbank_es.events import MemoriesExtracted, Reliance, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.events.run_events import VerdictValue
from rbank_es.exchange.file_import import import_paths
from rbank_es.extraction.candidates import consolidate
from rbank_es.law import State, active
from rbank_es.law.digests import state_digests

pytestmark = pytest.mark.real

LABELLED = json.loads((Path(__file__).parent / "labelled_runs.json").read_text())
"""Per labelled case: its recorded run, the item that was learned from it (None for none), and both verdicts."""


class Learned(NamedTuple):
    """A bank whose runs the first judge judged, and per case its run and the id of the item that it taught."""

    bank: Bank
    run: dict[str, str]
    item: dict[str, str]


@pytest.fixture
def learned(data: Path) -> Iterator[Learned]:
    """The runs imported, judged as the first judge did, and learned from; by script where nothing was extracted."""
    items = {each["id"]: each for each in json.loads((data / "memory" / "uniprot_phase1_memory.json").read_text())}
    with Bank.create("memory:") as bank:
        run: dict[str, str] = {}
        item: dict[str, str] = {}
        for row in LABELLED:
            import_paths(bank, [data / "trajectories" / "uniprot_phase1" / row["trajectory"]])
            *_, started = (event for event in bank.events(types={"run_started"}) if isinstance(event, RunStarted))
            run[row["case"]] = started.run
            taught = item_of(items.get(row["item"]), row)
            item[row["case"]] = taught.id
            learn(bank, started.run, row["judge"], taught)
        yield Learned(bank, run, item)


def item_of(found: dict[str, str] | None, row: dict[str, str]) -> Item:
    if found is None:
        return Item.make(f"What {row['case']} teaches", f"Words that a script wrote of {row['case']}.", "failure")
    return Item.make(found["title"], found["content"], found["src"], desc=found["desc"])  # type: ignore[arg-type]


def learn(bank: Bank, run: str, verdict: VerdictValue, item: Item) -> None:
    judged = RunJudged(run=run, purpose="learning", verdict=verdict, judge="first", judge_version="1", kind="lm")
    drawn = MemoriesExtracted(
        kind="success" if verdict == "success" else "failure",
        runs=(run,),
        relied=(Reliance(run=run, verdict=verdict),),
        heads=(item.head,),
        candidates=(item.text,),
    )
    consolidate(bank, [drawn], before=[judged])


def cases(judge: str, expert: str) -> list[str]:
    return [row["case"] for row in LABELLED if (row["judge"], row["expert"]) == (judge, expert)]


def rulings(learned: Learned, wanted: list[str], verdict: VerdictValue) -> list[Ruling]:
    return [Ruling(learned.run[case], verdict, "as the expert said", "expert") for case in wanted]


def digests(state: State) -> tuple[str, ...]:
    found = state_digests(state)
    return found.items, found.usage


def test_the_mapping_names_every_labelled_run_once(data: Path) -> None:
    labelled = json.loads((data / "tasks" / "judge_eval_tasks.json").read_text())
    assert {row["case"] for row in LABELLED} == {case["id"] for case in labelled} and len(LABELLED) == 10
    assert {row["case"]: row["expert"] == "success" for row in LABELLED} == {
        case["id"]: case["expert_verdict"] for case in labelled
    }
    assert len({row["trajectory"] for row in LABELLED}) == 10
    assert len(cases("success", "failure")) == 5 and len(cases("failure", "success")) == 1


def test_overruling_what_the_judge_passed_and_the_expert_failed_takes_out_exactly_what_rested_on_it(
    learned: Learned,
) -> None:
    bank, wrong = learned.bank, cases("success", "failure")
    before, position = bank.state(), bank.position
    made = bank.overrule_many(rulings(learned, wrong, "failure"))
    left = {change.id for change in made.left}
    assert left == {learned.item[case] for case in wrong} and not made.came
    assert active(before).keys() - active(bank.state()).keys() == left
    assert set(made.to_extract) == {learned.run[case] for case in wrong}
    assert digests(bank.state(position)) == digests(before)
    with bank.as_of(position) as then:
        assert {row["id"] for row in then.items("active")} == active(before).keys()


def test_giving_the_first_verdicts_back_restores_the_digests(learned: Learned) -> None:
    bank, wrong = learned.bank, cases("success", "failure")
    before = digests(bank.state())
    bank.overrule_many(rulings(learned, wrong, "failure"))
    assert digests(bank.state()) != before
    bank.overrule_many(rulings(learned, wrong, "success"))
    assert digests(bank.state()) == before


def test_all_verdicts_of_the_expert_leave_only_what_both_agree_on(learned: Learned) -> None:
    bank = learned.bank
    for row in LABELLED:
        bank.overrule(learned.run[row["case"]], row["expert"], reason="as the expert said", by="expert")
    agreed = {learned.item[row["case"]] for row in LABELLED if row["judge"] == row["expert"]}
    assert active(bank.state()).keys() & set(learned.item.values()) == agreed
