"""The tables of limits: each name once, each with a reason, all in use; no text is cut at a number without a name."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from rbank_es import limits
from tests.test_floors import MODULES, ROOT

TABLES = {
    path
    for module, path in MODULES.items()
    if module.partition(".limits")[0] == "rbank_es" or module.endswith("_limits")
}
CODE = {path: path.read_text(encoding="utf-8") for path in MODULES.values() if "testing" not in path.parts}
LONGEST_FORMAT = 36
"""The characters of a UUID: longer than any other form of fixed length that is cut off a text."""


def _names(text: str) -> list[str]:
    return re.findall(r"^([A-Z][A-Z_0-9]*) = ", text, re.MULTILINE)


def test_the_first_table_names_all_others() -> None:
    beside = {path.name for path in (ROOT / "rbank_es" / "limits").iterdir() if path.suffix == ".py"} - {"__init__.py"}
    assert {path.name for path in TABLES} == beside | {"__init__.py"}
    assert set(re.findall(r"`(\w+_limits\.py)`", limits.__doc__ or "")) == beside


def test_a_limit_has_one_name_and_stands_in_one_table() -> None:
    found = Counter(name for path in TABLES for name in _names(CODE[path]))
    assert found.total() > 300 and [name for name, number in found.items() if number > 1] == []


@pytest.mark.parametrize("table", sorted(TABLES), ids=lambda path: path.name)
def test_each_limit_has_a_reason_above_it_and_is_in_use(table: object) -> None:
    lines = CODE[table].splitlines()  # type: ignore[index]
    words = Counter(word for text in CODE.values() for word in re.findall(r"\b[A-Z][A-Z_0-9]+\b", text))
    for number, line in enumerate(lines):
        if name := "".join(_names(line)):
            above = next(each for each in reversed(lines[:number]) if not _names(each))
            assert above.startswith("# ") and not above.startswith("# ---") or name in ("KIB", "MIB"), name
            assert words[name] > 1, name


def _cuts(text: str) -> Iterator[int]:
    """Yield the bare numbers at which a module cuts texts and lists."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Slice):
            for end in (node.lower, node.upper):
                if isinstance(end, ast.Constant) and isinstance(end.value, int):
                    yield end.value


def test_no_text_is_cut_at_a_number_without_a_name() -> None:
    found = {
        str(path.relative_to(ROOT)): [most for most in _cuts(text) if most > LONGEST_FORMAT]
        for path, text in CODE.items()
    }
    assert {name: cuts for name, cuts in found.items() if cuts} == {}
