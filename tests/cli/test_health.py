"""`health`: shares of a bank with their counts, at a point and over time; intervals in `show` and `items`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.answers.health import series_positions
from rbank_es.errors import LimitExceeded
from rbank_es.events.run_events import VerdictValue
from rbank_es.limits import answer_limits
from rbank_es.system.proportion import Share
from tests.cli.misled import HEIGHT, judged, learned, misled_bank, ran
from tests.cli_runner import fails, run


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the bank `misled`: three items, of which one was given to two runs, won by one."""
    with misled_bank(tmp_path / "misled") as bank:
        bank.append([judged("well", "failure", "check"), judged("lucky", "undecided")])
    return tmp_path


def measured(bank: Bank, name: str) -> Share:
    return next(Share(each.part, each.whole) for each in bank.health().measures if each.name == name)


@pytest.mark.parametrize(
    ("kind", "verdicts", "alone"),
    [
        ("pattern", ("success", "success"), 1),
        ("pattern", ("success", "success", "success"), 0),
        ("contrastive", ("success", "success", "failure"), 1),
        ("contrastive", ("success", "failure", "failure"), 1),
        ("contrastive", ("success", "success", "failure", "failure"), 0),
    ],
)
def test_a_comparison_rests_on_one_verdict_where_none_of_its_kind_can_be_spared(
    kind: str, verdicts: tuple[VerdictValue, ...], alone: int
) -> None:
    """A pattern needs two successes, a contrast one success and one failure."""
    relied = [(f"run-{number}", verdict) for number, verdict in enumerate(verdicts)]
    with Bank.create("memory:") as bank:
        bank.append([event for each in relied for event in (*ran(each[0]), judged(*each))])
        learned(bank, HEIGHT, *relied, kind=kind)
        assert measured(bank, "one_verdict") == Share(alone, 1)


@pytest.mark.slow
def test_each_line_of_a_series_is_the_health_at_its_point(place: Path) -> None:
    with Bank.open(place / "misled") as bank:
        head = bank.position
    for options in (("--every", "7"), ("--points", "4")):
        found = run("health", "./misled", *options, "--json", cwd=place).json
        positions = [each["position"] for each in found["series"]]
        assert positions[-1] == head and positions == sorted(set(positions)) and len(positions) >= 4
        for each in found["series"]:
            alone = run("health", f"./misled@{each['position']}", "--json", cwd=place).json
            assert {name: alone[name] for name in each} == each
    said = run("health", "./misled", "--points", "3", cwd=place).out
    assert "over time" in said and f"{head}" in said.splitlines()[-1]


def test_a_series_ends_at_the_point_and_is_bounded(place: Path) -> None:
    assert series_positions(10, every=4) == (4, 8, 10) and series_positions(10, points=3) == (3, 6, 10)
    assert series_positions(2, points=5) == (1, 2) and series_positions(0, points=5) == series_positions(9) == ()
    with pytest.raises(LimitExceeded, match="larger step"):
        series_positions(answer_limits.HEALTH_POINTS * 10, every=9)
    assert "give one of them" in fails("health", "./misled", "--every", "3", "--points", "2", cwd=place)
    assert "points of a series" in fails(
        "health", "./misled", "--points", str(answer_limits.HEALTH_POINTS + 1), cwd=place
    )
    assert "no bank" in fails("health", "./nobody", cwd=place).lower()
    assert run("health", "./misled@2", "--points", "9", "--json", cwd=place).json["size"] == 0
