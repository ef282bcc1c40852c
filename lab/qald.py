"""QALD: tasks out of the JSON of the Question Answering over Linked Data challenges.

A file is an object with `questions`. Of each are read its `id`, its `question` in one language, `query.sparql`, and of
`answers` the first, which is a document of SPARQL results. Source: https://github.com/ag-sc/QALD (QALD-1 to -9) and
https://github.com/KGQA/QALD-10.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rbank_es.errors import BadInput, QueryRefused
from rbank_es.events.json_input import decode_strict
from rbank_es.judging.gold_answers import stored_rows
from rbank_es.lab.query_shape import with_shape
from rbank_es.loop.tasks import Task
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.sparql.results import Answer, NotResults, from_json
from rbank_es.system.validation_messages import reason_of


class QaldTasks(NamedTuple):
    """The tasks of a file, and how many questions were left out, by reason."""

    tasks: tuple[Task, ...]
    left_out: Mapping[str, int]


class _Wording(msgspec.Struct):
    language: str = ""
    string: str | None = None


class _Query(msgspec.Struct):
    sparql: str | None = None


class _Question(msgspec.Struct):
    id: str | int
    question: list[_Wording] = []
    query: _Query | None = None
    answers: list[dict[str, Any]] = []


class _Dataset(msgspec.Struct):
    questions: list[_Question]


def is_qald(data: bytes) -> bool:
    """Return whether a file's content is JSON of this form: an object with `questions`."""
    try:
        whole = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Another reader may know the form, and says what is wrong with it.
        return False
    return isinstance(whole, dict) and "questions" in whole and "tasks" not in whole


def parse_qald(
    data: bytes, name: str, *, language: str = "en", ontology: str | None = None, endpoint: str | None = None
) -> QaldTasks:
    """Return the tasks in the content of a file, called `name` in messages.

    Level and family follow from the shape of the gold query (`with_shape`), because QALD names neither.
    Left out are questions without a text in the language, and those without a query that can be read. Raises `BadInput`
    for content of another form, an id that is there twice, and if no question is left.
    """
    try:
        whole = msgspec.convert(decode_strict(data), _Dataset)
    except msgspec.ValidationError as error:
        raise BadInput(f"{name}: no QALD file: {reason_of(error, _Dataset)}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"{name}: no JSON: {error}") from None
    tasks, left_out = dict[str, Task](), Counter[str]()
    for asked in whole.questions:
        found = _task(asked, name, language, ontology, endpoint)
        if isinstance(found, str):
            left_out[found] += 1
        elif found.id in tasks:
            raise BadInput(f"{name}: the id {found.id!r} is there twice")
        else:
            tasks[found.id] = found
    if not tasks:
        reasons = ", ".join(f"{number} with {reason}" for reason, number in left_out.items()) or "there are none"
        raise BadInput(f"{name}: no question can be used: {reasons}")
    return QaldTasks(tuple(tasks.values()), left_out)


def _task(asked: _Question, name: str, language: str, ontology: str | None, endpoint: str | None) -> Task | str:
    """Return the task of a question, or the reason why there is none."""
    words = next((each.string for each in asked.question if each.language == language and each.string), None)
    if not words or not words.strip():
        return f"no text in the language {language!r}"
    sparql = asked.query.sparql if asked.query is not None else None
    if not sparql or not sparql.strip():
        return "no query"
    try:
        parse_query(sparql)
    except QueryRefused:
        return "a query that can't be read"
    task = Task(
        id=str(asked.id),
        question=words,
        ontology=ontology,
        endpoint=endpoint,
        gold_sparql=sparql,
        answer=_answer(asked, name),
    )
    return with_shape(task)


def _answer(asked: _Question, name: str) -> list[Any] | None:
    """Return the rows of the first answer, None if none is given. Raises `BadInput` for one that is no result."""
    if not asked.answers:
        return None
    try:
        found: Answer = from_json(msgspec.json.encode(asked.answers[0]))
    except NotResults as error:
        raise BadInput(f"{name}, question {asked.id}: the answer is no document of SPARQL results: {error}") from None
    return stored_rows(found) or None
