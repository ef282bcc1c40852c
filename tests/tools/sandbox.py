"""The sandbox that agents run in, for tests of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.sandbox import sandboxes


@contextmanager
def sandbox(tools: dict[str, Callable[..., Any]]) -> Iterator[Callable[[str], str]]:
    """A function that runs Python code in the sandbox and returns what it printed."""
    sandboxes.runtime()
    made = sandboxes.sandbox(tools=tools)
    try:
        yield lambda code: str(made.execute(code))
    finally:
        made.shutdown()
