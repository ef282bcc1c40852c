"""What a bank can be asked: one module for each question, with the types of its parameters and of its answer.

Python (`Bank.runs()`, `bank.at(point).run(id)`), the command line, `--json`, CSV, the served page and exported pages
show these answers and add no fact. A module here is found by its name, and plugins add to `QUESTIONS`.
"""

from rbank_es.answers.shared.bank_reader import BankReader as BankReader
from rbank_es.answers.shared.faces import Bounds as Bounds, Face as Face, bounds_of as bounds_of
from rbank_es.answers.shared.moment import Moment as Moment
from rbank_es.answers.shared.question_form import (
    QUESTIONS as QUESTIONS,
    BankAnswer as BankAnswer,
    BankQuestion as BankQuestion,
    ListQuestion as ListQuestion,
    Page as Page,
    QuestionKind as QuestionKind,
    question_kind as question_kind,
)
