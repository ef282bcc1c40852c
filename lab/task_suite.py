"""Suites: tasks with the digest that names them, and the ontologies that they are about.

The file of a suite is a file of tasks (`rbank_es/loop/tasks.py`); of its members beside `tasks` these are read:

    name        of the suite; the name of the file unless given
    ontology    id of the ontology that its tasks are about
    files       of that ontology, in the folder of the suite's file: a list of paths
    ontologies  the files of each, where there are several: an object of ids and lists of paths
    whole       whether these files have every individual that a right query may name; true unless given

A task may name `files` of its own ontology too. Other members are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.data import LIGHTS, lights
from rbank_es.errors import BadInput
from rbank_es.events.json_input import decode_strict, read_at_most
from rbank_es.events.notebook_repr import Shown
from rbank_es.loop.tasks import Task, parse_tasks, suite_digest
from rbank_es.system.validation_messages import reason_of


class Suite(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of which ids are unique, with the SHA-256 of all of them (`suite_digest`)."""

    name: str
    tasks: tuple[Task, ...]
    digest: str
    ontology: str | None = None
    """The id of the ontology that all of them are about; None if there is none, or there are several."""
    files: Mapping[str, tuple[str, ...]] = {}
    """The files of each ontology, as the suite names them: paths within its folder. Not in the digest."""
    whole: bool = True
    """Whether these files have every individual that a right query may name: the right answers come from them."""

    @classmethod
    def of(
        cls, name: str, tasks: Iterable[Task], files: Mapping[str, tuple[str, ...]] | None = None, *, whole: bool = True
    ) -> Suite:
        """Return the suite of some tasks."""
        kept = tuple(tasks)
        about = {task.ontology for task in kept}
        shared = about.pop() if len(about) == 1 else None
        digest = suite_digest(kept)
        return cls(name=name, tasks=kept, digest=digest, ontology=shared, files=files or {}, whole=whole)

    def is_whole(self, ontology: str | None) -> bool | None:
        """Return whether the suite's own files of an ontology are declared whole; None if it names none."""
        return self.whole if ontology in self.files else None

    @property
    def ontologies(self) -> tuple[str, ...]:
        """The ids of the ontologies that its tasks name, sorted."""
        return tuple(sorted({task.ontology for task in self.tasks if task.ontology is not None}))

    @property
    def families(self) -> dict[str, tuple[str, ...]]:
        """The ids of the tasks of each family, in the suite's order."""
        found: dict[str, list[str]] = {}
        for task in self.tasks:
            if task.family is not None:
                found.setdefault(task.family, []).append(task.id)
        return {name: tuple(ids) for name, ids in found.items()}


def load_suite(place: str | Path) -> Suite:
    """Return the suite in a file; the word `lights` is the one that comes with rbank-es, unless a file has that name.

    Raises `BadInput`, which names the place of the error: the file is missing, or holds no tasks, two tasks with one
    id, a level that there isn't, or a path that leads out of its folder.
    """
    path = suite_path(place)
    data = read_at_most(path, limits.TASKS_BYTES, "tasks")
    tasks = parse_tasks(data, str(path))
    head = _Head.of(data, str(path))
    return Suite.of(head.name or path.stem, tasks, head.all_files(str(path)), whole=head.whole)


def suite_path(place: str | Path) -> Path:
    """Return the path of a suite's file, for `lights` that of the shipped one."""
    path = Path(place)
    return lights().suite if str(place) == LIGHTS and not path.exists() else path


def suite_json(suite: Suite, about: str = "") -> bytes:
    """Return a suite as the text of its file, which `load_suite` reads: the same bytes for the same suite.

    `about` says in words what its tasks are.
    """
    head: dict[str, Any] = {"name": suite.name}
    if suite.ontology is not None:
        head["ontology"] = suite.ontology
    if about:
        head["about"] = about
    if suite.files:
        head["ontologies"] = suite.files
    if not suite.whole:
        head["whole"] = False
    tasks = [_without(msgspec.to_builtins(task), "ontology", suite.ontology) for task in suite.tasks]
    members = [f" {_json(name)}: {_json(value)}," for name, value in head.items()]
    return "\n".join(["{", *members, ' "tasks": [', ",\n".join(map(_task_text, tasks)), " ]", "}", ""]).encode()


def _task_text(fields: Mapping[str, Any]) -> str:
    """Return a task as lines of JSON: one for each field, and one for each row of an answer."""
    lines = []
    for name, value in fields.items():
        rows = ",\n".join(f"    {_json(row)}" for row in value) if isinstance(value, list) and value else ""
        lines.append(f"   {_json(name)}: " + (f"[\n{rows}\n   ]" if rows else _json(value)))
    return "  {\n" + ",\n".join(lines) + "\n  }"


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _without(fields: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    """Return the fields of a task without one whose value the whole suite has."""
    return {key: each for key, each in fields.items() if key != name or each != value}


# ---------------------------------------------------------------- the members beside the tasks


class _TaskFiles(msgspec.Struct):
    """The members of a task in a file that name its ontology's files."""

    ontology: str | None = None
    dataset: str | None = None
    files: list[str] = []


class _Head(msgspec.Struct):
    """The members of a suite's file that `parse_tasks` leaves out."""

    name: str | None = None
    ontology: str | None = None
    files: list[str] = []
    ontologies: dict[str, list[str]] = {}
    whole: bool = True
    tasks: list[_TaskFiles] = []

    @classmethod
    def of(cls, data: bytes, name: str) -> _Head:
        """Return the members in a file whose tasks could be parsed; none for a list of tasks and for JSON Lines."""
        try:
            whole = decode_strict(data)
        except (msgspec.DecodeError, RecursionError):
            # JSON Lines are several documents, and none of them speaks for the whole file.
            return cls()
        listed = {"tasks": whole} if isinstance(whole, list) else whole
        try:
            return msgspec.convert(listed, cls)
        except msgspec.ValidationError as error:
            raise BadInput(f"{name}: {reason_of(error, cls)}") from None

    def all_files(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return the files of each ontology. Raises `BadInput` for two sets of one ontology, and for bad paths."""
        found = {id: tuple(paths) for id, paths in self.ontologies.items()}
        if self.ontology is not None and self.files:
            _add(found, self.ontology, self.files, name)
        for task in self.tasks:
            about = task.ontology or task.dataset or self.ontology
            if about is not None and task.files:
                _add(found, about, task.files, name)
        for path in {path for paths in found.values() for path in paths}:
            _check_path(path, name)
        return found


def _add(found: dict[str, tuple[str, ...]], ontology: str, paths: list[str], name: str) -> None:
    if found.setdefault(ontology, tuple(paths)) != tuple(paths):
        raise BadInput(f"{name}: the ontology {ontology!r} has two sets of files; name one set, or give two ids")


def _check_path(path: str, name: str) -> None:
    """Raise `BadInput` for a path out of the folder, because a suite may come from anybody."""
    parts = PurePosixPath(path).parts
    if not path.strip() or path.startswith("/") or ".." in parts or not path.isprintable():
        raise BadInput(
            f"{name}: {path[: limits.GIVEN_CHARS]!r} is no path within the suite's folder; move the file there"
        )
