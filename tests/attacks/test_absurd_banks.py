"""Banks all of whose events are valid and make no sense: commands stay quick, whole and silent about nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.error_model import fitted, opinions_of
from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.items import Item
from tests.cli_runner import run

JUDGES = 8_000


def judged(run_id: str, number: int) -> RunJudged:
    verdict = ("success", "failure", "undecided")[number % 3]
    return RunJudged(
        run=run_id, purpose="learning", verdict=verdict, kind="lm", judge=f"judge-{number}", judge_version="1"
    )


def processor_s(since_s: float) -> float:
    return time.process_time() - since_s


def test_the_health_of_a_bank_takes_no_square_of_the_verdicts_on_one_run(tmp_path: Path) -> None:
    """With 9,000 judges on one run, one query took 4 s of processor; with 34,000 it took a minute."""
    with Bank.create(tmp_path / "judged", unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run="same"), RunFinished(run="same", outcome="submitted")])
        bank.append([judged("same", number) for number in range(JUDGES)])
        with bank.live() as view:
            before_s = time.process_time()
            [health] = view.rows("bank_health")
            assert processor_s(before_s) < 1
    assert (health["judged"], health["judged_twice"], health["disagreed"]) == (1, 1, 1)


def test_the_errors_of_judges_are_fitted_without_a_square_of_the_verdicts_on_one_run() -> None:
    """With 6,000 decided verdicts on one run, `review --verdicts` took three minutes."""
    verdicts = [judged("same", number) for number in range(JUDGES)]
    before_s = time.process_time()
    model = fitted(opinions_of(verdicts))
    assert processor_s(before_s) < 2
    assert len(model.records) == sum(event.verdict != "undecided" for event in verdicts)


def learned(bank: Bank, number: int, relied: Sequence[str] = (), superseded: Sequence[str] = ()) -> list[Event]:
    item = Item.make(f"title {number}", "content")
    made = MemoriesExtracted(
        id=bank.log.new_id(),
        kind="success",
        relied=tuple(Reliance(run=run, verdict="success") for run in relied),
        heads=(item.head,),
        candidates=(item.text,),
    )
    decision = Decision(candidate=0, action="supersede", item=item.id, targets=tuple(superseded))
    return [made, MemoriesConsolidated(extraction=made.id, policy="hand-1", decisions=(decision,))]


def built_s(bank: Bank) -> float:
    """Return the processor time of the first build of the read models."""
    before_s = time.process_time()
    with bank.live() as view:
        assert view.position == bank.position
    return processor_s(before_s)


def test_decisions_that_end_ten_thousand_items_are_indexed_without_a_square_of_them(tmp_path: Path) -> None:
    """Each target was sought among all targets: 12 such decisions took 6 s of processor."""
    names = [f"item-{number}" for number in range(limits.NAMES)]
    with Bank.create(tmp_path / "ended", unsafe_no_sync=True) as bank:
        for number in range(12):
            bank.append(learned(bank, number, superseded=names))
        assert built_s(bank) < 3


def test_extractions_that_rely_on_one_run_are_indexed_without_a_square_of_them(tmp_path: Path) -> None:
    """The list of those that rely on the run was compared whole at each: 4,000 took 5 s of processor."""
    with Bank.create(tmp_path / "relying", unsafe_no_sync=True) as bank:
        for first in range(0, 4_000, 500):
            bank.append([event for number in range(500) for event in learned(bank, first + number, relied=["same"])])
        assert built_s(bank) < 2
        with bank.live() as view:
            assert len(view.rows("drawn_candidates", run="same")) == 4_000


def test_names_with_the_character_0_are_listed_whole(tmp_path: Path) -> None:
    """SQLite's JSON ends a text at it: `runs` of such a bank ended as a defect."""
    names = ["\0first", "sec\0ond", "sec", "third\0"]
    with Bank.create(tmp_path / "zero", unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run=name, task=f"of {name!r}") for name in names])
    listed = run("runs", "./zero", "--json", cwd=tmp_path).json
    assert {row["run"]: row["task"] for row in listed["runs"]} == {name: f"of {name!r}" for name in names}
    assert "\\x00first" in run("runs", "./zero", cwd=tmp_path).out
