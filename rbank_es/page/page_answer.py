"""The answers of a page, the same in a file and served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rbank_es.answers import Face, Moment, bounds_of, question_kind
from rbank_es.bank import Bank
from rbank_es.errors import LimitExceeded
from rbank_es.limits import page_limits


class PageAnswers:
    """What a page can ask of a bank: with or without prompts, in commands that name the bank by `argument`.

    `head` is the position up to which the log is known, by default the newest.
    """

    def __init__(
        self, bank: Bank, face: Face, *, prompts: bool = True, argument: str = "", head: int | None = None
    ) -> None:
        self._bank = bank
        self._bounds = bounds_of(face, prompts=prompts, command=argument, head=head)

    def rows_name(self, name: str) -> str:
        """Return the name that the rows of a list have in its answer."""
        return question_kind(name).rows_name or "rows"

    def ask(self, name: str, given: Mapping[str, Any]) -> Any:
        """Return the answer to a question, to be shown as JSON, as of the point `at`.

        Raises `LimitExceeded` for a long parameter, and as `Moment.ask`.
        """
        for each, value in given.items():
            if (chars := len(str(value))) > page_limits.PARAMETER_CHARS:
                raise LimitExceeded(f"characters of {each}", chars, page_limits.PARAMETER_CHARS, "ask for less")
        moment = Moment(self._bank, self._bank.resolve(given.get("at")), self._bounds)
        return moment.ask(name, **{each: value for each, value in given.items() if each != "at"})
