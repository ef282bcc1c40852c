"""A bank as of a position, to ask questions of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.faces import Bounds
from rbank_es.answers.shared.question_form import Page
from rbank_es.answers.shared.question_methods import Questions
from rbank_es.limits import answer_limits

if TYPE_CHECKING:
    from rbank_es.answers.events import EventPage
    from rbank_es.bank.bank_access import OpenBank
    from rbank_es.projections.view import View


class Moment(Questions):
    """A bank as of a position: each question is a method, and each answer is as of that position.

    Used in a `with`, it keeps the read models open between two questions.
    """

    def __init__(self, bank: OpenBank, position: int, bounds: Bounds | None = None) -> None:
        self.bank, self.position, self.bounds = bank, position, bounds or Bounds()
        self._kept: View | None = None

    def ask(self, name: str, /, **given: Any) -> Any:
        """Return the answer to a question by its name, with its parameters. Raises `BadInput`, and as the question."""
        with ExitStack() as stack:
            facts: dict[str, Any] = {"bank": self.bank, "bounds": self.bounds, "position": self.position}
            found = BankReader(lambda: stack.enter_context(self._open()), self.bank.name, **facts).ask(name, **given)
        if isinstance(found, Page):
            # Asked of the moment, because the reading ends here.
            found.goes_on(lambda after, **more: self.ask(name, **{**given, **more, "after": after}))
        return found

    # Not of a bank, whose `events` are those that Python works with.
    def events(
        self, *, type: str | None = None, run: str | None = None, after: int = 0,
        limit: int = answer_limits.ANSWER_ROWS, chars: int | None = None,
    ) -> EventPage:  # fmt: skip
        """Return the events of some types (`"run_started,run_finished"`), of one run, behind a position, oldest first.

        Raises `BadInput`.
        """
        found: EventPage = self.ask("events", type=type, run=run, after=after, limit=limit, chars=chars)
        return found

    def __enter__(self) -> Self:
        self._kept = self.bank.live(self.position)
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bank.place!r}, position={self.position})"

    @contextmanager
    def _open(self) -> Iterator[View]:
        if self._kept is not None:
            yield self._kept
            return
        with self.bank.live(self.position) as view:
            yield view
