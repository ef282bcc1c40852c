"""The measured ontologies and tasks: real ones if `RBANK_REAL_DATA` names them, else the shipped ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Suite(NamedTuple):
    """Questions over one ontology: its files, and for each task its question and its gold query."""

    name: str
    files: tuple[Path, ...]
    tasks: tuple[tuple[str, str], ...]


def real_data() -> Path | None:
    """Return the folder of real data, if there is one."""
    place = os.environ.get("RBANK_REAL_DATA")
    return Path(place) if place else None


def suites() -> Iterator[Suite]:
    """Yield the task suites, one per set of files."""
    real = real_data()
    if real is None:
        yield _shipped()
        return
    found: dict[str, list[dict[str, object]]] = {}
    for task in json.loads((real / "tasks" / "ontology_tasks.json").read_text())["tasks"]:
        found.setdefault(task["dataset"], []).append(task)
    for name, tasks in sorted(found.items()):
        files = tuple(real / str(path) for path in tasks[0]["files"])  # type: ignore[attr-defined]
        yield Suite(name, files, tuple((str(task["question"]), str(task["gold_sparql"])) for task in tasks))


def _shipped() -> Suite:
    from rbank_es.data import lights
    from rbank_es.loop import load_tasks

    pairs = tuple((task.question, task.gold_sparql) for task in load_tasks(lights().tasks) if task.gold_sparql)
    return Suite("lights (shipped)", (lights().ontology,), pairs)


def largest_ontology() -> Path:
    """Return the file of the largest ontology at hand."""
    real = real_data()
    if real is None:
        return _shipped().files[0]
    return max((real / "ontologies").glob("*.ttl"), key=lambda path: path.stat().st_size)
