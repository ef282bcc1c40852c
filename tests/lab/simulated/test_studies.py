"""The studies in `docs/studies`: simulated again in part, equal to the last digit, and drawn again."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from itertools import product
from statistics import fmean as mean
from types import ModuleType
from typing import Any

import msgspec
import pytest

from rbank_es.errors import BadInput
from rbank_es.lab.simulated.study import MARK, CellResult, StudyResult
from rbank_es.lab.simulated.study_run import run_study, study_named
from rbank_es.lab.statistics import differences, interval
from tests.test_docs import ROOT

STUDIES = ROOT / "docs" / "studies"
NAMES = ("poisoned-bank", "repair", "assumptions")
FEW = {
    "poisoned-bank": (
        {"bank": "dedup, by support", "false_success": 1.0, "false_failure": 0.3},
        {"bank": "append, bounded", "false_success": 0.5, "false_failure": 0.6},
        {"bank": "append", "false_success": 0.14, "checks": 24, "pick": "review", "people": 0.2},
    ),
    "repair": ({"bank": "append", "repair": "all checked and vouched, people err, better judge"},),
    "assumptions": (
        {"judge": "0.5 / 0.3", "assumption": "follow 3"},
        {"judge": "never errs", "same_task": 1.5, "leave_one_out": "off"},
    ),
}


@cache
def script() -> ModuleType:
    """The script that draws the studies."""
    spec = importlib.util.spec_from_file_location("make_studies", STUDIES / "make_studies.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def kept(name: str) -> StudyResult:
    return msgspec.json.decode((STUDIES / f"{name}.json").read_bytes(), type=StudyResult)


def cells_with(name: str, factors: dict[str, Any]) -> list[str]:
    return [cell.name for cell in study_named(name).cells if factors.items() <= cell.factors.items()]


def assert_lived_again(name: str, cells: list[str], repetitions: int) -> None:
    """Live some cells again, and compare each value of their first repetitions with the kept one."""
    again, before = run_study(study_named(name), repetitions=repetitions, only=cells), kept(name)
    assert len(again.cells) == len(cells) > 0
    assert again.without == before.without
    for cell in again.cells:
        old = before.cell(**cell.factors)
        for field in msgspec.structs.fields(cell):
            new, known = getattr(cell, field.name), getattr(old, field.name)
            assert new == (known if field.name in ("factors", "at") else known[:repetitions]), field.name


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_sampled_cells_of_a_study_come_out_again_to_the_last_digit(name: str) -> None:
    assert_lived_again(name, [cell for factors in FEW[name] for cell in cells_with(name, factors)], 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_kept_results_are_of_the_study_as_it_is_and_marked(name: str) -> None:
    result, study = kept(name), study_named(name)
    assert (result.mark, result.study) == (MARK, name)
    assert (result.assumptions, result.repetitions) == (study.assumptions, study.repetitions)
    assert [cell.factors for cell in result.cells] == [cell.factors for cell in study.cells]
    assert {len(cell.gain) for cell in result.cells} == {study.repetitions}
    documents = [*STUDIES.glob(f"{name}*.md"), *STUDIES.glob(f"{name}*.svg")]
    assert documents and all("SIMULATED" in document.read_text(encoding="utf-8") for document in documents)


def test_plots_and_tables_are_those_of_the_kept_results() -> None:
    pytest.importorskip("scipy")
    for name, content in script().drawn().items():
        assert (STUDIES / name).read_text(encoding="utf-8") == content, (
            f"{name}: python docs/studies/make_studies.py draw"
        )


def test_what_the_pages_say_in_words_is_what_the_kept_results_give() -> None:
    """Differences are paired by repetition: a mean with the half of its 95 % t interval, as the pages round them."""
    pytest.importorskip("scipy")
    bank, repairs, said = kept("poisoned-bank"), kept("repair"), " ".join(page("poisoned-bank") + page("repair"))

    def cell(name: str = "append", checks: int = 0, **factors: Any) -> CellResult:
        return bank.cell(bank=name, **{"false_failure": 0.3, "checks": checks, **factors})

    def added(checks: int, pick: str, people: float = 0.0) -> list[float]:
        """What so many checks add to the gain, for both banks and judges."""
        judges = ({"false_success": one, "false_failure": other} for one, other in ((0.14, 0.25), (0.5, 0.3)))
        return [
            mean(cell(name, checks, pick=pick, people=people, **judge).gain) - mean(cell(name, **judge).gain)
            for name, judge in product(("append", "dedup"), judges)
        ]

    def skill(name: str, at: int) -> tuple[float, ...]:
        return tuple(curve[at] for curve in repairs.cell(bank="append", repair=name).curve)

    def spread(values: Sequence[float], scale: int = 1) -> str:
        found = interval(values)
        assert found is not None and found.high is not None
        digits = 0 if scale == 100 else 2
        rounded = (f"{scale * each:.{digits}f}" for each in (found.mean, found.high - found.mean))
        return " ± ".join(each.replace("0.", ".") for each in rounded)

    praised = bank.cell(bank="append", false_success=1.0, false_failure=0.0, checks=0)
    judged, missing = {"false_success": 0.5}, {"false_success": 0.0, "false_failure": 0.6}
    better, err = "better judge", "all checked{}, people err, better judge"
    for words, first, second in (
        ("gain is still +{}", praised.gain, None),
        ("the gain is +{}", cell(**judged).gain, None),
        ("by {} picked at random", cell(checks=60, pick="random", **judged).gain, cell(**judged).gain),
        ("by {} by review", cell(checks=60, pick="review", **judged).gain, cell(**judged).gain),
        ("costs {}", cell(false_success=0.0).gain, cell("append, bounded", false_success=0.0).gain),
        ("costs {}", cell(**missing).gain, cell("dedup, by support", **missing).gain),
        ("120 more tasks: {}", skill("nothing", -1), skill("nothing", 0)),
        ("give back {} at once", skill("all checked", 1), skill("all checked", 0)),
        ("stays, {} of that", skill("all checked", 1), skill("all checked", -1)),
        ("it is {}", skill(f"emptied, {better}", -1), skill(better, -1)),
        ("and {} ahead", skill(f"emptied, {better}", -1), skill(f"24 checked by review, {better}", -1)),
        ("gives back {}, a sixth", skill("24 checked by review", 1), skill("24 checked by review", 0)),
        ("gives back {}, a sixth", skill("24 checked at random", 1), skill("24 checked at random", 0)),
        ("give back {}, half", skill("all checked, people err", 1), skill("all checked, people err", 0)),
        ("at the end, skill is {}", skill(err.format(""), -1), skill(err.format(" twice"), -1)),
        ("{} lower", skill(err.format(""), -1), skill(err.format(" and vouched"), -1)),
    ):
        words = words.format(spread(first if second is None else differences(first, second)))
        assert words in said, words
    for hurt in (praised.hurt, cell(**judged).hurt):
        assert f"{spread(hurt, 100)} % of the families" in said
    for name in (" twice", " and vouched"):
        at_once = interval(differences(skill(err.format(name), 1), skill(err.format(""), 1)))
        assert at_once is not None and at_once.low is not None and at_once.high is not None
        assert at_once.low < 0 < at_once.high
    assert {round(each, 2) for each in added(12, "review")} == {0.02, 0.03} and "12 add .02 to .03 by review" in said
    assert {round(each, 2) for each in added(12, "random")} == {0.0, 0.01} and ".00 to .01 at random" in said
    parts = [sum(added(24, pick, people=0.2)) / sum(added(24, pick)) for pick in ("review", "random")]
    assert 0.4 < parts[0] < 0.6 and 0.75 < parts[1] < 0.85


def page(name: str) -> list[str]:
    return (STUDIES / f"{name}.md").read_text(encoding="utf-8").split()


def test_what_a_study_lacks_is_refused() -> None:
    study = study_named("repair")
    with pytest.raises(BadInput, match="no study 'cure'"):
        study_named("cure")
    with pytest.raises(BadInput, match="no cell 'bank none'"):
        run_study(study, only=["bank none"])
    with pytest.raises(BadInput, match="at least 1"):
        run_study(study, repetitions=0)
    with pytest.raises(BadInput, match="name one"):
        kept("repair").cell(bank="append")
