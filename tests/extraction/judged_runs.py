"""Runs of a task, answers of a model, and models that give them, for tests of extraction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rbank_es.bank import Bank
from rbank_es.extraction import PastRun, PastStep
from rbank_es.models.run_models import Lms
from tests.models.runs import Saying, models

TASK = "How many lights have three sectors?"
WON = {"success": True, "reason": "the rows answer it"}
LOST = {"success": False, "reason": "the class is missing"}

STEPS = (
    PastStep(index=1, reasoning="Look at the classes.", code="print(g_classes())", output="Light, Sector"),
    PastStep(index=2, reasoning="Count.", code="sparql_query('SELECT …')", output="3"),
)


def past(run: str = "run-a", **facts: Any) -> PastRun:
    """Return a run that submitted an answer."""
    given: dict[str, Any] = {"answer": "3 lights", "sparql": "SELECT (COUNT(*) AS ?n) {}", "steps": STEPS}
    return PastRun(task=TASK, run=run, **(given | facts))


def entry(title: str = "Count with DISTINCT", content: str = "Joins repeat rows: count distinct things.") -> Any:
    """Return one entry of a model's list, in the form that the prompt asks for."""
    return {"title": title, "description": "When a join may repeat rows.", "content": content}


def answer(entries: Any, why_none: str = "") -> str:
    """Return a model's answer in the form that the prompt asks for; entries given as a text are kept."""
    listed = entries if isinstance(entries, str) else json.dumps(entries)
    return f"[[ ## memory_items ## ]]\n{listed}\n\n[[ ## why_none ## ]]\n{why_none}\n\n[[ ## completed ## ]]\n"


class Extractor(Saying):
    """An engine that returns its answers in turn, the last one again and again, and raises those that are errors."""

    def __init__(self, *answers: str | Exception) -> None:
        super().__init__()
        self._answers = list(answers)

    def complete(self, request: Any) -> Any:
        said = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(said, Exception):
            raise said
        self.answer = lambda words: said
        return super().complete(request)

    @property
    def prompts(self) -> list[str]:
        """The words of each request, the system's first."""
        return [
            "\n".join([str(request.system), *(each.text for each in request.messages)]) for request in self.requests
        ]


@contextmanager
def extractor(place: Path, *answers: str | Exception) -> Iterator[tuple[Bank, Lms, Extractor]]:
    """Yield a bank, the models of a run in it, and the engine behind all of them."""
    engine = Extractor(*answers)
    with models(place, model_for=lambda role, choice: engine) as (bank, lms):
        yield bank, lms, engine


def titles(items: Sequence[Any]) -> list[str]:
    return [item.title for item in items]
