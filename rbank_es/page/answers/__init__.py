"""Answers about a bank as of a position, by the name of what is asked: the pages of a served bank are made of them.

Each is a pure function of a view, the bank's log where texts are needed, and the parameters of the question. An
exported page holds these answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rbank_es.bank import Bank
from rbank_es.page.answers.difference_answer import changes_answer
from rbank_es.page.answers.page_question import PageQuestion

Answer = Callable[[PageQuestion], dict[str, Any]]

ANSWERS: Mapping[str, Answer] = {
    "changes": changes_answer,
}
"""The function that answers each name of `/api/v1/NAME`."""


def answer(
    bank: Bank,
    name: str,
    given: Mapping[str, str],
    *,
    statement_s: float | None = None,
) -> dict[str, Any]:
    """Return the answer to a question about a bank, with `at`, the position that it is as of.

    `given` are the parameters as text; `at` is any point of the bank, by default the newest.
    `statement_s` bounds the seconds of each question to the read models.
    Raises `NotInBank` for an unknown name, run, item or position, `BadInput` for parameters that can't be, `BadPoint`,
    `ProjectionError`.
    """
    with PageQuestion.opened(bank, given, statement_s=statement_s) as asked:
        return {"at": asked.position} | ANSWERS[name](asked)
