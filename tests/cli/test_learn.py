"""`learn`: candidates drawn from runs under the verdicts that stand now."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.bank.verdict_acts import Ruling
from rbank_es.events import MemoriesExtracted, RunFinished, RunStarted
from rbank_es.events.items import Item
from rbank_es.loop.late_extraction import all_lessons_to_draw
from tests.cli.misled import judged, learned, misled_bank
from tests.cli_runner import run

SCRIPT = """
[[task]]
id = "wrong"
[[task.extractor]]
expects = ["The judge decided that it is a failure", "Kittiwake Head"]
fields = { why_none = "", memory_items = [
  { title = "Ask what a height measures", description = "Read its comment.", content = "A light is not its tower." } ] }
"""


CONTRAST = Item.make("Count with DISTINCT", "A light may be typed twice.", "contrastive")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a copy of: a bank in which a person overruled the judge."""
    folder = tmp_path_factory.mktemp("misled")
    with misled_bank(folder / "logs" / "misled") as bank:
        bank.overrule("wrong", "failure", reason="It is Cormorant Rock.", by="ann")
    (folder / "turns.toml").write_text(SCRIPT)
    return folder


@pytest.mark.slow
def test_a_run_that_was_overruled_teaches_under_its_new_verdict(place: Path) -> None:
    """The extraction relies on the verdict that stands, and the item leaves with it; nothing is drawn twice."""
    said = run("learn", "misled", "--due", "--lm", "script:turns.toml", cwd=place).out
    assert "Ask what a height measures" in said and "add " in said and "scripted" in said
    with Bank.open(place / "logs" / "misled") as bank:
        *_, event = bank.events(types={"memories_extracted"})
        assert isinstance(event, MemoriesExtracted) and event.kind == "failure"
        assert [(each.run, each.verdict) for each in event.relied] == [("wrong", "failure")]
        assert bank.search("height measures")
        bank.overrule("wrong", "success", reason="I had misread it.")
        assert not [hit for hit in bank.search("height measures") if hit.title.startswith("Ask what")]
    assert "nothing is due" in run("learn", "misled", "--due", "--dry-run", cwd=place).out


COMPARED = """
[[task]]
id = "g0"
[[task.extractor]]
expects = ["How many lights?"]
fields = { why_none = "", memory_items = [
  { title = "Count lights, not rows", description = "DISTINCT.", content = "Count each light once." } ] }
[[task]]
id = "g1"
[[task.extractor]]
expects = ["How many lights?"]
fields = { why_none = "", memory_items = [
  { title = "Both asked for the class first", description = "First.", content = "List the classes." } ] }
"""


@pytest.mark.slow
def test_rollouts_are_compared_again_once_an_overruled_verdict_ends_their_comparison(place: Path) -> None:
    """A contrast of one success and two failures falls with the success; the next one is of what stands now."""
    with Bank.open(place / "logs" / "misled") as bank:
        for index, verdict in enumerate(("success", "failure", "failure")):
            started = RunStarted(run=f"g{index}", task="How many lights?", rollout_group="g", rollout_index=index)
            ended = RunFinished(run=f"g{index}", outcome="submitted", answer=str(index), iterations=index + 1)
            bank.append([started, ended, judged(f"g{index}", verdict)])
        learned(bank, CONTRAST, ("g0", "success"), ("g1", "failure"), ("g2", "failure"), kind="contrastive")
        assert not [each for each in all_lessons_to_draw(bank) if "g0" in each.runs]
        made = bank.overrule_many([Ruling("g0", "failure", "Rows."), Ruling("g1", "success", "Lights.")])
        assert made.to_extract == ("g0", "g1", "g2") and made.left != ()
        bank.overrule("g2", "success", reason="Lights, too.")
    (place / "compared.toml").write_text(COMPARED)
    line = ("learn", "misled", "g2", "--lm", "script:compared.toml")
    plan = run(*line, "--dry-run", "--json", cwd=place).json["lessons"]
    assert plan == [{"kind": "contrastive", "runs": ["g0", "g1", "g2"]}, {"kind": "pattern", "runs": ["g1", "g2"]}]
    said = run(*line, cwd=place).out
    assert "Count lights, not rows" in said and "Both asked for the class first" in said
    with Bank.open(place / "logs" / "misled") as bank:
        *_, contrast, pattern = (each for each in bank.events() if isinstance(each, MemoriesExtracted))
        assert [(each.run, each.verdict) for each in contrast.relied] == [
            ("g0", "failure"), ("g1", "success"), ("g2", "success"),
        ]  # fmt: skip
        assert (contrast.kind, pattern.kind, pattern.runs) == ("contrastive", "pattern", ("g1", "g2"))
    assert run(*line, "--dry-run", "--json", cwd=place).json["lessons"] == []
