"""Shipped data: an ontology of an invented coast with its companions, and profiles of endpoints."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from rbank_es.errors import BadInput

LIGHTS = "lights"
"""Name of the shipped ontology, on the command line and as the `domain` of its items."""

SCRIPTED_TASKS = ("lights-L1-1", "lights-L2-2", "lights-L4-1", "lights-L2-1", "lights-L5-1", "lights-L5-2")
"""The shipped tasks that the script answers, in the order of its answers."""

_SUFFIXES = frozenset({".ttl", ".md", ".toml", ".json", ".jsonl"})


class Companions(Struct, frozen=True):
    """The shipped ontology and the files about it.

    `guide` is Markdown, `constraints` the curated TOML of layer L1, `seed` a list of items for `rbank-es import`.
    `tasks` are questions, each with the query that answers it and one that seems to; `suite` are sixty others in
    families, for experiments. `script` stands in for a model in the tasks of `SCRIPTED_TASKS`. `lessons` are items as
    runs of the suite would teach them, and `cases` questions with the lessons that help, to measure retrieval by.
    """

    ontology: Path
    guide: Path
    constraints: Path
    seed: Path
    tasks: Path
    suite: Path
    script: Path
    lessons: Path
    cases: Path


def shipped(name: str) -> Path:
    """Return the path of a shipped file, such as `lights.ttl`. Raises `BadInput` for an unknown name."""
    files = {path.name: path for path in Path(__file__).parent.iterdir() if path.suffix in _SUFFIXES}
    if name not in files:
        raise BadInput(f"no file called {name!r} comes with rbank-es; there are: {', '.join(sorted(files))}")
    return files[name]


def lights() -> Companions:
    """Return the paths of the shipped ontology and of its companions."""
    return Companions(
        ontology=shipped("lights.ttl"),
        guide=shipped("lights_guide.md"),
        constraints=shipped("lights_constraints.toml"),
        seed=shipped("lights_seed.json"),
        tasks=shipped("lights_tasks.json"),
        suite=shipped("lights_suite.json"),
        script=shipped("lights_script.toml"),
        lessons=shipped("lights_lessons.json"),
        cases=shipped("lights_cases.jsonl"),
    )
