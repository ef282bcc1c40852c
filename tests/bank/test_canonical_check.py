"""What `verify` says of a bank whose corrections are due, whose decisions nobody would make, whose writers slipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.bank.canonical_check import check_canonical
from rbank_es.events import (
    ContextBuilt,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesRestored,
    MemoriesRetracted,
    PolicyChoice,
    PolicySet,
    RunJudged,
    RunStarted,
)
from rbank_es.events.run_events import VerdictValue
from tests.cli_runner import run as command


@pytest.fixture
def bank() -> Iterator[Bank]:
    """A bank with an item from a run that was judged."""
    with Bank.create("memory:") as made:
        made.append([RunStarted(run="r1"), judged("r1", "success")])
        made.remember("Ask for its classes first", "one two three", src="success", runs=["r1"])
        yield made


def judged(run: str, verdict: VerdictValue) -> RunJudged:
    """A person's judgment, as a plain event."""
    return RunJudged(run=run, purpose="learning", verdict=verdict, judge="ann", judge_version="1", kind="human")


def test_making_all_decisions_again_tells_how_far_it_is(bank: Bank) -> None:
    told: list[tuple[int, int]] = []
    check_canonical(bank, every=True, progress=lambda done, total: told.append((done, total)))
    assert (0, 1) in told


SLIPS: dict[str, Event] = {
    "unknown-run r9": judged("r9", "success"),
    "unknown-item nothing": ContextBuilt(run="r1", items=("nothing",), chars=1),
    "unknown-item nobody": MemoriesRetracted(ids=("nobody",), how="rejected"),
    "unknown-item anybody": MemoriesAdmitted(ids=("anybody",)),
    "unknown-item whoever": MemoriesRestored(ids=("whoever",)),
    "unknown-extraction e9": DecisionUndone(extraction="e9", candidate=0),
    "unknown-extraction e8": MemoriesRetracted(how="tainted", extractions=("e8",), run="r1", verdict="failure"),
    "second-start r1": RunStarted(run="r1"),
    "unknown-judgment nowhere": JudgmentOverruled(
        run="r1", purpose="learning", verdict="failure", judge="ann", judge_version="1", kind="human", by="ann",
        judgment="nowhere",
    ),
    "unknown-policy forgetting lru-9": PolicySet(policies=(PolicyChoice(kind="forgetting", name="lru", version=9),)),
    "unfinished-correction c1": MemoriesConsolidated(again=True, correction="c1", policy="canonical-1"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_each_slip_of_a_writer_is_listed_and_none_without_it(bank: Bank, slip: str) -> None:
    before = bank.check(strict=True).slips
    assert before is not None and not before.slips and not before.counts
    seq = bank.append(SLIPS[slip]).last
    found = bank.check(strict=True).slips
    assert found is not None
    assert [(f"{each.kind} {each.name}", each.seq) for each in found.slips] == [(slip, seq)]


@pytest.mark.slow
def test_a_policy_in_force_that_this_release_does_not_know_is_named_and_fails_only_if_asked(tmp_path: Path) -> None:
    unknown = PolicyChoice(kind="forgetting", name="lru", version=9)
    with Bank.create(tmp_path / "bank") as made:
        assert made.check().unknown_policies == ()
        made.append(PolicySet(policies=(unknown,)))
        assert [each.label for each in made.check().unknown_policies] == ["lru-9"]
    assert "unknown to this release: forgetting lru-9;" in command("verify", "./bank", cwd=tmp_path).out
    assert command("verify", "./bank", "--json", cwd=tmp_path).json["unknown_policies"][0]["kind"] == "forgetting"
    command("verify", "./bank", "--strict", cwd=tmp_path, code=1)
    command("policy", "./bank", "--set", "forgetting=never", cwd=tmp_path)
    assert "unknown to this release" not in command("verify", "./bank", cwd=tmp_path).out
