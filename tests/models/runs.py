"""Runs for tests of models: a bank in a temporary place, models that don't wait, questions put to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rbank_es.bank import Bank
from rbank_es.events import LmCalled
from rbank_es.events.run_events import Role
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms

RUN = "run-1"
STUB = LmChoice(model="openai/stub")


class Waits(list[float]):
    """A sleep that notes how long it was asked to, and doesn't."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@contextmanager
def models(place: Path, choice: LmChoice = STUB, **options: Any) -> Iterator[tuple[Bank, Lms]]:
    """A bank and the models of a run in it, all roles answered as `choice` says."""
    with (
        Bank.create(place / "bank", unsafe_no_sync=True) as bank,
        Lms(bank, RUN, {"agent": choice}, **{"sleep": Waits(), **options}) as lms,
    ):
        yield bank, lms


def ask(lms: Lms, words: str = "What is it?", role: Role = "agent", **options: Any) -> str:
    """What a role answers to plain words."""
    (answer,) = lms.lm(role, **options)(words)
    return str(answer)


def called(bank: Bank) -> list[LmCalled]:
    """The calls that the bank has recorded, texts in place."""
    return [event for event in bank.events(resolve=True) if isinstance(event, LmCalled)]


class Saying:
    """An engine that answers with what a function makes of the request's last words."""

    def __init__(self, answer: Callable[[str], Any] = lambda words: f"you said {words}") -> None:
        self.answer = answer
        self.requests: list[Any] = []

    def complete(self, request: Any) -> Any:
        from dspy.lm15 import Message, Response, Usage

        self.requests.append(request)
        answer = self.answer(request.messages[-1].text)
        if not isinstance(answer, str):
            return answer
        usage = Usage(input_tokens=3, output_tokens=2)
        message = Message.assistant(answer)
        return Response(id=None, model="saying", message=message, finish_reason="stop", usage=usage)


def saying(answer: Callable[[str], Any] = lambda words: f"you said {words}") -> dict[str, Any]:
    """Options of `models` that put an engine in the place of a provider."""
    engine = Saying(answer)
    return {"model_for": lambda role, choice: engine}
