"""How many examples a law is tried on: all of them in continuous integration, a quarter where somebody waits.

A law that says nothing is tried on `examples(100)`; one that says so takes `settings(max_examples=examples(N))`. Set
`CI=1` to try all of them anywhere.
"""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("CI"))
_FEWEST = 10


def examples(count: int) -> int:
    """How many of `count` examples are tried in this run of the tests."""
    return count if THOROUGH else max(count // 4, min(count, _FEWEST))
