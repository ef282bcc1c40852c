"""`health`: shares of a bank with their counts, at a point and over time; intervals in `show` and `items`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.answers.health import series_positions
from rbank_es.errors import LimitExceeded
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import top_tenth
from rbank_es.limits import answer_limits
from rbank_es.system.proportion import Share
from tests.cli.misled import HEIGHT, WARNING, judged, learned, misled_bank, ran
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


@pytest.mark.parametrize(("items", "top"), [(1, 1), (10, 1), (11, 2), (20, 2)])
def test_the_most_used_tenth_is_rounded_up(items: int, top: int) -> None:
    with Bank.create("memory:") as bank:
        for number in range(items):
            learned(bank, Item.make(f"Lesson {number:03}", f"{number} " * 9, "seed"))
        given = [entry.item.id for entry in bank.state().items.values() if entry.state == "active"]
        assert len(given) == items
        bank.append(event for number, id in enumerate(given) for event in ran(f"run-{number}", id))
        assert measured(bank, "top_tenth") == Share(top, items) == top_tenth(bank.state())


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


def test_show_compares_where_there_are_enough_and_claims_no_effect(tmp_path: Path) -> None:
    """Every other run has the item and wins, the others lose: the difference is told, and that it is no effect."""
    with misled_bank(tmp_path / "bank") as bank:
        bank.append(
            [
                event
                for number in range(160)
                for event in (
                    *ran(f"r{number}", *((WARNING.id,) if number % 2 else ())),
                    judged(f"r{number}", "success" if number % 2 else "failure"),
                )
            ]
        )
    said = " ".join(run("show", "./bank", WARNING.id, cwd=tmp_path).out.split())
    assert "beside runs without it, of the same domain and time:" in said and "no effect of it" in said
    assert run("show", "./bank", WARNING.id, "--json", cwd=tmp_path).json["compared"]["low"] > 0.9


def test_what_no_correction_has_looked_at_is_named(place: Path) -> None:
    """A verdict, or a decision by hand, that came by append, until somebody corrects."""
    with Bank.open(place / "misled") as bank:
        item = Item.make("By hand", "Somebody wrote this down.", "seed")
        [drawn] = bank.append(MemoriesExtracted(kind="seed", heads=(item.head,), candidates=(item.text,))).events
        added = Decision(candidate=0, action="add", item=item.id)
        [by_hand] = bank.append(MemoriesConsolidated(extraction=drawn.id, policy="hand-1", decisions=(added,))).events
    assert "no correction has looked at 1 verdict or act yet" in run("health", "./misled", cwd=place).out
    assert run("health", "./misled", "--json", cwd=place).json["due"] == [by_hand.id]
    run("correct", "./misled", cwd=place)
    assert run("health", "./misled", "--json", cwd=place).json["due"] == []
