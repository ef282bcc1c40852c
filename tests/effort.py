"""How hard a law is tried: in full in continuous integration, on a part where somebody waits.

A law that says nothing is tried on `examples(100)`; one that says so takes `settings(max_examples=examples(N))`. Set
`CI=1` to try all of them anywhere. A test of many cases of one kind tries `one_in(N, CASES)`; the others are slow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = bool(os.environ.get("CI"))
_FEWEST = 3
_Case = type(pytest.param())


def examples(count: int) -> int:
    """How many of `count` examples are tried in this run of the tests."""
    return count if THOROUGH else max(count // 20, min(count, _FEWEST))


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """The cases of a `parametrize`, of which the first and each `number`-th after it are quick, and the others slow.

    A tuple is a case of several arguments.
    """
    made = []
    for index, case in enumerate(cases):
        known = case if isinstance(case, _Case) else pytest.param(*(case if isinstance(case, tuple) else (case,)))
        slow = [pytest.mark.slow] if index % number else []
        made.append(pytest.param(*known.values, marks=[*known.marks, *slow], id=known.id))
    return made
