"""Tasks: questions with an id and, if known, the right answer.

A file of tasks is a JSON list, a JSON object with a list under `tasks`, or JSON Lines. Each task is an object:

    id            unique in the file
    question      or `query`: the question, in words
    ontology      or `dataset`: id of the ontology it is about; that of the whole file unless given
    gold_sparql   or `expected_sparql`: a query whose result is right
    answer        the right answer: a text, or rows as the shipped tasks have them
    level         difficulty, 1 to 5: one pattern, one relation, several joins, conditions, counting and sorting
    family        name of the tasks that need the same lesson
    ordered       whether the order of the answer's rows matters; as `gold_sparql` sorts them unless given
    endpoint      the SPARQL endpoint that it is about: a URL, or the name of a profile
    misleading_sparql  a plausible query whose result is wrong

Other fields are ignored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events.json_input import RepeatedKey, decode_strict, read_at_most
from rbank_es.system.input_file import without_mark
from rbank_es.system.validation_messages import reason_of

_ALIASES = {
    "id": ("id",),
    "question": ("question", "query"),
    "ontology": ("ontology", "dataset"),
    "gold_sparql": ("gold_sparql", "expected_sparql"),
    "answer": ("answer",),
    "level": ("level",),
    "family": ("family",),
    "ordered": ("ordered",),
    "endpoint": ("endpoint",),
    "misleading_sparql": ("misleading_sparql",),
}
"""Names of a field in files; the first one present counts."""

LEVELS = (1, 2, 3, 4, 5)

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question and its right answer. Raises `BadInput` for one that can't be asked.

    `answer` is a text, or a list of rows, each a list of values: numbers, texts, or lists of a kind and its parts.
    """

    id: str
    question: str
    ontology: str | None = None
    gold_sparql: str | None = None
    answer: str | list[Any] | None = None
    level: int | None = None
    family: str | None = None
    ordered: bool | None = None
    endpoint: str | None = None
    misleading_sparql: str | None = None

    def __post_init__(self) -> None:
        if not self.id.strip() or len(self.id) > limits.TASK_ID_CHARS or not self.id.isprintable():
            raise BadInput(
                f"{self.id[: limits.GIVEN_CHARS]!r} can't be the id of a task: give 1 to {limits.TASK_ID_CHARS} "
                "printable characters"
            )
        if not self.question.strip():
            raise BadInput(f"task {self.id}: the question is empty")
        if len(self.question) > limits.TASK_CHARS:
            raise BadInput(
                f"task {self.id}: the question has {len(self.question):,} characters; {limits.TASK_CHARS:,} are taken"
            )
        if self.level not in (None, *LEVELS):
            raise BadInput(f"task {self.id}: the level is {self.level}; there are {LEVELS[0]} to {LEVELS[-1]}")
        if self.family is not None and not (self.family.isprintable() and 0 < len(self.family) <= limits.TASK_ID_CHARS):
            raise BadInput(f"task {self.id}: a family is named by 1 to {limits.TASK_ID_CHARS} printable characters")
        if isinstance(self.answer, list):
            self._check_rows(self.answer)

    def _check_rows(self, rows: list[Any]) -> None:
        """Raise `BadInput` for unusable rows now, because they are compared only after the run was paid for."""
        from rbank_es.judging.gold_answers import gold_of

        try:
            gold_of(None, rows)
        except BadInput as error:
            raise BadInput(f"task {self.id}: {error}") from None

    @classmethod
    def asking(cls, question: str) -> Task:
        """Return the task of a question without an id: a digest of its words names it."""
        # A command line may hold bytes that are not UTF-8.
        digest = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return cls(id=f"task-{digest}", question=question)

    @property
    def slug(self) -> str:
        """The id as a part of other ids: letters, digits, dots, underscores and dashes."""
        return _UNFIT.sub("-", self.id).strip("-.")[: limits.TASK_ID_CHARS] or "task"


def load_tasks(path: str | Path) -> tuple[Task, ...]:
    """Return the tasks of a file, in its order. Raises `BadInput`, which names the place of the error."""
    place = Path(path)
    return parse_tasks(read_at_most(place, limits.TASKS_BYTES, "tasks"), str(place))


def parse_tasks(data: bytes, name: str = "tasks") -> tuple[Task, ...]:
    """Return the tasks in the content of a file, called `name` in messages. Raises `BadInput`."""
    tasks: dict[str, Task] = {}
    for where, fields in _objects(without_mark(data, name), name):
        task = _task(fields, where)
        if task.id in tasks:
            raise BadInput(f"{where}: the id {task.id!r} is there twice")
        tasks[task.id] = task
    if not tasks:
        raise BadInput(f"{name}: there is no task in it")
    if len(tasks) > limits.TASKS:
        raise BadInput(f"{name}: {len(tasks):,} tasks; a file has at most {limits.TASKS:,}")
    return tuple(tasks.values())


def _objects(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of each task, with the name of its place in the file."""
    try:
        whole: Any = decode_strict(data)
    except RepeatedKey as error:
        raise BadInput(f"{name}: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        yield from _lines(data, name, error)
        return
    # JSON Lines of one line are one JSON object.
    if isinstance(whole, dict) and "tasks" not in whole:
        yield f"{name}, line 1", whole
        return
    listed = whole.get("tasks") if isinstance(whole, dict) else whole
    if not isinstance(listed, list):
        raise BadInput(f"{name}: expected a list of tasks, an object with a list under 'tasks', or JSON Lines")
    shared = {"ontology": whole["ontology"]} if isinstance(whole, dict) and "ontology" in whole else {}
    for number, fields in enumerate(listed, 1):
        yield f"{name}, task {number}", shared | fields if isinstance(fields, dict) else fields


def _lines(data: bytes, name: str, whole: Exception) -> Iterator[tuple[str, Any]]:
    """Yield the fields of JSON Lines; if the first line is no JSON, the error is that of the whole file."""
    lines = [(number, text) for number, text in enumerate(data.splitlines(), 1) if text.strip()]
    for position, (number, text) in enumerate(lines):
        try:
            fields: Any = decode_strict(text)
        except RepeatedKey as error:
            raise BadInput(f"{name}, line {number}: {error}") from None
        except (msgspec.DecodeError, RecursionError) as error:
            reason = error if position else whole
            raise BadInput(f"{name}, line {number}: this is neither JSON nor JSON Lines: {reason}") from None
        yield f"{name}, line {number}", fields


def _task(fields: Any, where: str) -> Task:
    if not isinstance(fields, dict):
        raise BadInput(f"{where}: a task is an object with an id and a question, not {type(fields).__name__}")
    given = dict(_named(fields))
    # Files often number their tasks. True is an int in Python, but no id.
    if isinstance(given.get("id"), int) and not isinstance(given["id"], bool):
        given["id"] = str(given["id"])
    for name in ("id", "question"):
        if name not in given:
            raise BadInput(f"{where}: the task has no {name}")
    try:
        return msgspec.convert(given, Task)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {reason_of(error, Task)}") from None


def _named(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, aliases in _ALIASES.items():
        found = next((fields[alias] for alias in aliases if fields.get(alias) is not None), None)
        if found is not None:
            yield name, found


def about(tasks: Iterable[Task], ontology: str) -> tuple[Task, ...]:
    """Return the tasks that are about an ontology, or name none."""
    return tuple(task for task in tasks if task.ontology in (None, ontology))


def suite_digest(tasks: Iterable[Task]) -> str:
    """Return the SHA-256 of tasks, in hexadecimal: of their canonical JSON, sorted by id, unset fields left out."""
    ordered = sorted(tasks, key=lambda task: task.id)
    return hashlib.sha256(msgspec.json.encode(ordered, order="sorted")).hexdigest()
