"""Every question as a bank can answer it: its required parameters are filled with what the bank has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import msgspec

from rbank_es import Bank
from rbank_es.answers import QUESTIONS, BankAnswer, Moment, question_kind
from rbank_es.page.http_request import PageRequest
from rbank_es.page.page_handler import PageHandler

SOME = 3


def fillings(bank: Bank | Moment) -> dict[str, list[Any]]:
    """Values of parameters by name: those of questions that need one, and those that make an answer whole."""
    events = bank.bank if isinstance(bank, Moment) else bank
    runs = [row.run for row in bank.runs(limit=SOME).rows]
    items = [row.id for row in bank.items(limit=SOME).rows]
    return {
        "run": runs,
        "item": items,
        "id": [*items, *runs],
        "kind": ["item"],
        "event": [str(event.seq) for event in events.events(types=["run_started"])][:SOME],
        "path": ["task"],
        "ont": ['["lights"]'],
        "query": ["the tallest"],
        "since": [0],
        "course": [SOME],
        "points": [SOME],
    }


def required(name: str) -> list[str]:
    """Return the parameters without which a question can't be asked."""
    return [field.name for field in msgspec.structs.fields(question_kind(name).question) if field.required]


def parameters(name: str, filled: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return the parameters of a question, once for each value of its first required one; none if there is no value."""
    known, needed = question_kind(name).question.__struct_fields__, required(name)
    assert set(needed) <= filled.keys(), f"{name} needs {needed}: say in `fillings` what a bank has for it"
    more = {each: filled[each][0] for each in ("course", "points", "since") if each in known and each not in needed}
    if not needed:
        return [more]
    if not all(filled[each] for each in needed):
        return []
    fixed = {each: filled[each][0] for each in needed}
    return [{**more, **fixed, needed[0]: value} for value in filled[needed[0]]]


def answers_of(bank: Bank | Moment) -> Iterator[tuple[str, dict[str, Any], BankAnswer]]:
    """Yield the answers to all questions, each with its name and its parameters."""
    filled = fillings(bank)
    for name in QUESTIONS.names():
        for given in parameters(name, filled):
            yield name, given, bank.ask(name, **given)


def served(
    bank: Bank, name: str, given: dict[str, Any], *, root: str = "api/v1/", argument: str = ""
) -> tuple[int, Any]:
    """The status and the JSON of a question that a browser asks, of the server's answers for programs or its page's."""
    handler = PageHandler(bank, 8000, argument=argument)
    headers = {"host": "127.0.0.1:8000"}
    token = handler.address.partition("?")[2]
    let_in = dict(handler.respond(PageRequest("GET", "/", token, headers)).headers)
    headers["cookie"] = let_in["Set-Cookie"].partition(";")[0]
    query = urlencode({each: as_text(value) for each, value in given.items()}, doseq=True)
    response = handler.respond(PageRequest("GET", f"{let_in['Location']}{root}{name}", query, headers))
    return response.status, json.loads(response.body)


def as_text(value: Any) -> Any:
    """The value of a parameter as an address or a command line has it: lists of conditions apart, others as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value
