"""SECURITY.md: each row of its threat model names tests, and they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("|")][2:]


def named(row: str) -> list[tuple[str, str]]:
    """File and name of each test in a row; one without a file is in that of the test before."""
    file, found = "", []
    for given, name in re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", row):
        file = given or file
        found.append((file, name))
    return found


@pytest.mark.parametrize("row", ROWS, ids=range(1, len(ROWS) + 1))
def test_each_row_of_the_threat_model_names_tests_that_exist(row: str) -> None:
    who, what, holds, _ = (part.strip() for part in row.strip("| ").split("|"))
    assert who and what and holds and named(row)
    for file, name in named(row):
        functions = (
            node for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)
        )
        assert name in {each.name for each in functions}, f"{file} has no {name}"


def test_every_file_of_attacks_proves_a_row_of_the_threat_model() -> None:
    """A new file of attacks needs its row: who is not trusted with what, and what holds it."""
    cited = {Path(file).name for row in ROWS for file, _ in named(row)}
    assert {path.name for path in (ROOT / "tests" / "attacks").glob("test_*.py")} - cited == set()
