"""Hides the packages that extras install, as if they were not there: put this folder on PYTHONPATH."""

from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

HIDDEN = {"dspy", "deno"}
_find = PathFinder.find_spec


def _find_visible(name: str, *arguments: Any) -> ModuleSpec | None:
    return None if name.split(".")[0] in HIDDEN else _find(name, *arguments)


PathFinder.find_spec = _find_visible  # type: ignore[assignment]
