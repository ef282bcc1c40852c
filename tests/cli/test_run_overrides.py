"""Flags of `run` that differ from the bank's policies: recorded with the run, and in force for that loop alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.events import MemoriesConsolidated, MemoriesExtracted, PolicySet, RunJudged, RunStarted
from tests.cli.agent_tasks import furnished
from tests.cli.test_run import LOOP
from tests.cli_runner import run
from tests.loop.loops import SCRIPT
from tests.loop.test_closed_loop import of_type
from tests.sandbox.sandboxes import require_dspy

require_dspy()
pytestmark = pytest.mark.slow  # each has several loops, of a second each

EXTRACTED = "title = \"A tower's height is not the light's\""
REWORDED = "title = \"A tower's height is not the light's!\""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with one task, and scripts whose two lessons of it state the same."""
    furnished(tmp_path)
    (tmp_path / "reworded.toml").write_text(SCRIPT.replace(EXTRACTED, REWORDED))
    return tmp_path


def looped(place: Path, *more: str, script: str = "turns") -> None:
    """Run the one task again in a bank that has it already, under the bank's policies but for the flags given."""
    run(*LOOP[:-3], "one.json", "--lm", f"script:{script}.toml", "--again", *more, cwd=place)


def overrides(bank: Bank) -> list[dict[str, Any]]:
    return [event.overrides for event in of_type(bank, RunStarted)]


def decided(bank: Bank) -> list[tuple[str, list[str]]]:
    """Each decision's policy and actions, in order; of what a model extracted alone."""
    drawn = {each.id for each in of_type(bank, MemoriesExtracted) if str(each.extractor).startswith("success-failure")}
    made = (each for each in of_type(bank, MemoriesConsolidated) if each.extraction in drawn)
    return [(each.policy, [decision.action for decision in each.decisions]) for each in made]


def test_without_dedup_a_near_duplicate_is_added_in_that_loop_alone(place: Path) -> None:
    """The decision names the policy that made it, so a later correction keeps it."""
    looped(place, "--extract")
    looped(place, "--extract", "--no-dedup", script="reworded")
    with Bank.open(place / "bank") as bank:
        assert overrides(bank) == [{}, {"consolidation": "append"}]
        assert decided(bank) == [("dedup-2", ["add"]), ("append-2", ["add"])]
    (place / "third.toml").write_text(SCRIPT.replace(EXTRACTED, REWORDED.replace("!", "?")))
    looped(place, "--extract", script="third")
    with Bank.open(place / "bank") as bank:
        assert overrides(bank)[2] == {} and decided(bank)[2] == ("dedup-2", ["skip"])
        assert len(of_type(bank, PolicySet)) == 1 and bank.check(decisions=True).canonical.canonical


def test_a_judge_is_chosen_for_that_loop_alone(place: Path) -> None:
    looped(place, "--judge", "checks")
    looped(place)
    with Bank.open(place / "bank") as bank:
        assert overrides(bank) == [{"judging": "checks"}, {}]
        learning = [each for each in of_type(bank, RunJudged) if each.purpose == "learning"]
        assert [each.verdict for each in learning] == ["undecided", "failure"]
        assert [each.kind for each in learning] == ["check", "lm"] and len(of_type(bank, PolicySet)) == 1


def test_the_right_answer_teaches_in_that_loop_alone(place: Path) -> None:
    """Its verdict stands from then on, without a change of the bank's policy."""
    looped(place, "--supervised")
    looped(place)
    with Bank.open(place / "bank") as bank:
        assert overrides(bank) == [{"judging.supervised": True}, {}]
        learning = [each for each in of_type(bank, RunJudged) if each.purpose == "learning"]
        assert [(each.kind, each.supervised) for each in learning] == [("gold", True), ("lm", False)]
        standing = bank.state().verdicts
        assert [standing[each.run, "learning"].kind for each in learning] == ["gold", "lm"]
        assert len(of_type(bank, PolicySet)) == 1


def test_the_number_of_rollouts_is_chosen_for_that_loop_alone(place: Path) -> None:
    looped(place, "--matts-k", "2")
    looped(place, "--matts")
    with Bank.open(place / "bank") as bank:
        assert overrides(bank) == [{"selection.k": 2}] * 2 + [{}] * 3
