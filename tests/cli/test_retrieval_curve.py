"""`retrieval curve`: the floor by the log's own judged uses, which a person may choose."""

from __future__ import annotations

from pathlib import Path

from rbank_es import Bank, Item
from rbank_es.events import Event, Hit, MemoriesRetrieved, RunStarted
from rbank_es.events.run_events import VerdictValue
from rbank_es.extraction.candidates import consolidate
from tests.cli.misled import judged, learned
from tests.cli_runner import run


def given(number: int, coverage: float, verdict: VerdictValue, item: str = "lamps", task: str = "") -> list[Event]:
    """The events of a run that was given an item with that coverage, and judged."""
    hit = Hit(rank=1, id=item, score=1.0, coverage=coverage)
    name = f"r{number}"
    retrieved = MemoriesRetrieved(run=name, k=1, policy="bm25-3", query="lamps", hits=(hit,))
    return [RunStarted(run=name, task_id=task or None), retrieved, judged(name, verdict)]


def made(place: Path, runs: int) -> None:
    """A bank in which what covered .6 or more helped three of four runs, and the rest one of four."""
    with Bank.create(place / "bank", unsafe_no_sync=True) as bank:
        consolidate(bank, [Item.make("Lamps", "Count lamps.", id="lamps")])
        for number in range(runs):
            strong = number % 2 == 0
            verdict: VerdictValue = "success" if (number // 2 % 4 > 0) == strong else "failure"
            bank.append(given(number, 0.62 if strong else 0.42, verdict))


def test_the_floor_with_most_wins_beyond_the_usual_is_best_and_is_recorded_when_chosen(tmp_path: Path) -> None:
    made(tmp_path, 240)
    found = run("retrieval", "curve", "./bank", "--json", cwd=tmp_path).json
    rates = {row["coverage"]: (row["uses"], row["win_rate"]) for row in found["rows"]}
    assert (found["uses"], found["run_win_rate"], found["best"]) == (240, 0.5, 0.6)
    assert (rates[0.4], rates[0.6], max(rates)) == ((240, 0.5), (120, 0.75), 0.6)
    run("retrieval", "curve", "./bank", "--choose", cwd=tmp_path)
    [retrieval] = [
        e for e in run("policy", "./bank", "--json", cwd=tmp_path).json["policies"] if e["kind"] == "retrieval"
    ]
    assert retrieval["settings"]["coverage"] == 0.6
    assert run("retrieval", "curve", "./bank@HEAD~1", "--json", cwd=tmp_path).json["best"] == 0.6


def test_few_uses_choose_nothing(tmp_path: Path) -> None:
    made(tmp_path, 40)
    refused = run("retrieval", "curve", "./bank", "--choose", cwd=tmp_path, code=2)
    assert "40 judged uses of the 200" in refused.err


def test_an_item_that_was_drawn_from_the_task_itself_does_not_count(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run="first", task_id="t"), judged("first", "success")])
        learned(bank, Item.make("Lamps", "Count lamps.", "success", id="own"), ("first", "success"))
        bank.append([*given(1, 0.9, "success", "own", "t"), *given(2, 0.7, "failure", "own", "other")])
    assert run("retrieval", "curve", "./bank", "--json", cwd=tmp_path).json["uses"] == 1
