"""The studies in `docs/studies`: lived again in part, equal to the last digit, and drawn again."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType
from typing import Any

import msgspec
import pytest

from rbank_es.errors import BadInput
from rbank_es.experiments.simulated.study import MARK, StudyResult, run_study, study_named
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


def test_a_cell_of_the_study_of_a_poisoned_bank_comes_out_again_to_the_last_digit() -> None:
    assert_lived_again("poisoned-bank", cells_with("poisoned-bank", FEW["poisoned-bank"][0]), 1)


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
