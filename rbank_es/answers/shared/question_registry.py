"""The registry of questions: every module of `rbank_es.answers` is one, under its own name; plugins add others.

A question that needs what stands above this floor has its home there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbank_es.answers.shared.question import QuestionKind
from rbank_es.system.registry import Registry, checked_result

PACKAGE = "rbank_es.answers"

_NAMES = sorted(path.stem for path in Path(__file__).parents[1].glob("*.py") if not path.stem.startswith("_"))

QUESTIONS: Registry[QuestionKind[Any, Any]] = Registry(
    "question",
    {name: f"{PACKAGE}.{name}:QUESTION" for name in _NAMES} | {"bisect": "rbank_es.rerun.bisection:QUESTION"},
)
"""The questions by name: `QUESTION` of each module."""


def question_kind(name: str) -> QuestionKind[Any, Any]:
    """Return a question by its name. Raises `BadInput` if there is none, `BadPlugin` for what a plugin added that is
    none."""
    found = QUESTIONS.get(name)
    return checked_result(found, QuestionKind, name, found)
