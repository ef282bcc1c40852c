"""Generated suites: tasks chosen from the templates over a made-up world, and a second version that breaks lessons.

In the second version the same things are so, but some terms changed, as in a release of an ontology: a lesson that
names one of them no longer holds. The questions stay the same; the gold queries are those of the new version.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec

from rbank_es.errors import BadInput
from rbank_es.judging.gold_answers import gold_of
from rbank_es.lab.class_templates import CLASS_TEMPLATES
from rbank_es.lab.generated_ontology import MadeUpWords, MadeUpWorld, make_world, turtle
from rbank_es.lab.leading_questions import given_away
from rbank_es.lab.relation_templates import RELATION_TEMPLATES
from rbank_es.lab.task_suite import Suite, suite_json
from rbank_es.lab.template_parts import Draft, Template
from rbank_es.limits import experiment_limits
from rbank_es.loop.tasks import LEVELS, Task
from rbank_es.system.extras import named_extra

TEMPLATES = (*CLASS_TEMPLATES, *RELATION_TEMPLATES)
FAMILIES = tuple(dict.fromkeys(template.family for template in TEMPLATES))
ONTOLOGY_FILE = "ontology.ttl"


class GeneratedSuite(NamedTuple):
    """A suite with the Turtle of its ontology."""

    suite: Suite
    turtle: str

    @property
    def files(self) -> dict[str, bytes]:
        """Its files by name: the ontology, and the suite that names it."""
        about = "Made up by rbank-es, one trap a family: `rbank-es suite generate`."
        return {ONTOLOGY_FILE: self.turtle.encode(), "suite.json": suite_json(self.suite, about)}


class BrokenLesson(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the second version, and the tasks of the first one whose gold queries name the term.

    `renamed` has a term in place of the old one; `turned` has the inverse in its place, while the term holds nothing
    any more; `removed` has nothing, and the tasks are not in the second suite.
    """

    change: Literal["renamed", "turned", "removed"]
    family: str
    term: str
    now: str | None
    tasks: tuple[str, ...]


class SecondVersion(NamedTuple):
    """The second version of a generated suite, and the lessons that it breaks."""

    generated: GeneratedSuite
    broken: tuple[BrokenLesson, ...]

    @property
    def files(self) -> dict[str, bytes]:
        """Its files by name, with the list of broken lessons."""
        listed = msgspec.json.format(msgspec.json.encode(self.broken), indent=1) + b"\n"
        return {**self.generated.files, "broken.json": listed}


class _Answers:
    """The answers of queries over a world."""

    def __init__(self, world: MadeUpWorld) -> None:
        with named_extra():
            from pyoxigraph import RdfFormat, Store
        self._store = Store()
        self._store.load(turtle(world).encode(), RdfFormat.TURTLE)

    def rows(self, query: str) -> list[list[Any]]:
        """Return the rows of a query in the form that a task stores, sorted."""
        found: Any = self._store.query(query)
        return sorted([_stored(value) for value in row] for row in found)


def _stored(value: Any) -> list[Any]:
    if not hasattr(value, "datatype"):
        return ["iri", value.value]
    return ["num", int(value.value)] if value.datatype.value.endswith("integer") else ["lit", value.value, ""]


class _Chosen(NamedTuple):
    """A template that is filled in, under the id of its task."""

    id: str
    template: Template
    parameters: tuple[Any, ...]

    def task(self, world: MadeUpWorld, answers: _Answers) -> Task:
        """Return the task, as it is asked of this world."""
        draft = self.template.build(world, *self.parameters)
        return Task(
            id=self.id,
            question=draft.question,
            ontology=world.id,
            gold_sparql=draft.gold,
            answer=answers.rows(draft.gold),
            level=self.template.level,
            family=self.template.family,
            misleading_sparql=draft.misleading,
        )


def generate(seed: int, tasks: int) -> GeneratedSuite:
    """Return the suite of a seed: its tasks in families of one trap each, as many of each level as can be.

    The same seed and number give the same bytes. Raises `BadInput` for a number beyond 1 to `GENERATED_TASKS`.
    """
    world, chosen = _generated(seed, tasks)
    return _suite(world, chosen, world.id)


def second_version(seed: int, tasks: int) -> SecondVersion:
    """Return the second version of the suite that `generate` makes of the same arguments. Raises as it does."""
    world, chosen = _generated(seed, tasks)
    later = _later(world)
    queries = {each.id: each.template.build(world, *each.parameters).gold for each in chosen}
    broken = tuple(
        BrokenLesson(
            change=change,
            family=family,
            term=f"{world.namespace}ns#{world.terms[role]}",
            now=f"{world.namespace}ns#{later.terms[now]}" if now else None,
            tasks=tuple(id for id, query in queries.items() if re.search(rf"v:{world.terms[role]}\b", query)),
        )
        for role, (change, family, now) in _CHANGES.items()
    )
    # A question about a class that is gone can't be asked.
    kept = [each for each in chosen if "middle" not in each.parameters]
    return SecondVersion(_suite(later, kept, f"{world.id}-second"), broken)


_CHANGES: dict[str, tuple[Literal["renamed", "turned", "removed"], str, str | None]] = {
    "loaded": ("renamed", "look-alikes", "loaded"),
    "of": ("renamed", "nodes-between", "of"),
    "watches": ("turned", "one-way", "watched_by"),
    "middle": ("removed", "superclasses", None),
}
"""The changes of the second version, by the role of the term: the change, the family that it breaks, the term now."""


def _later(world: MadeUpWorld) -> MadeUpWorld:
    """Return the same world in the terms of the second version; labels and comments stay as they are."""
    words = MadeUpWords(Random(f"rbank-es second {world.id}"))
    # Still a look-alike of the other weight.
    renamed = {"loaded": world.terms["loaded"][:-2] + "on"}
    # These words are drawn apart from those of the world, so one may be taken there.
    while (word := words.word()) in world.terms.values():
        pass
    return msgspec.structs.replace(world, terms={**world.terms, **renamed, "of": word}, turned=True, has_middle=False)


def _suite(world: MadeUpWorld, chosen: list[_Chosen], name: str) -> GeneratedSuite:
    answers = _Answers(world)
    made = Suite.of(name, (each.task(world, answers) for each in chosen), {world.id: (ONTOLOGY_FILE,)})
    return GeneratedSuite(made, turtle(world))


def _generated(seed: int, tasks: int) -> tuple[MadeUpWorld, list[_Chosen]]:
    """Return the world of a seed, and the tasks that are chosen in it."""
    if not 1 <= tasks <= experiment_limits.GENERATED_TASKS:
        raise BadInput(f"{tasks:,} tasks: ask for 1 to {experiment_limits.GENERATED_TASKS:,}")
    # Enough things for every task to be about others; half as many are enough, because each is asked about in ten ways.
    world = make_world(seed, max(_CARRIERS_LEAST, tasks // 2))
    random, asked, answers = Random(f"rbank-es tasks {seed}"), set[str](), _Answers(world)
    cells = [
        (f"{family}-{level}", _drafts(world, answers, family, level, random, asked))
        for level in LEVELS
        for family in FAMILIES
    ]
    chosen, counts = list[_Chosen](), Counter[str]()
    # In turn: one task of each level and family before a second of any; a cell without drafts is dropped.
    while cells and len(chosen) < tasks:
        name, drafts = cells.pop(0)
        if (found := next(drafts, None)) is not None:
            counts[name] += 1
            chosen.append(_Chosen(f"{name}-{counts[name]}", *found))
            cells.append((name, drafts))
    if len(chosen) < tasks:
        raise BadInput(f"seed {seed} gives {len(chosen):,} tasks, not {tasks:,}: take another seed, or fewer tasks")
    return world, chosen


_CARRIERS_LEAST = 24


def _drafts(
    world: MadeUpWorld, answers: _Answers, family: str, level: int, random: Random, asked: set[str]
) -> Iterator[tuple[Template, tuple[Any, ...]]]:
    """Yield the templates of a family and level, filled in, that make a task; no question is asked twice."""
    filled = [
        (template, parameters)
        for template in TEMPLATES
        if (template.family, template.level) == (family, level)
        for parameters in template.parameters(world)
    ]
    random.shuffle(filled)
    for template, parameters in filled:
        draft = template.build(world, *parameters)
        if draft.question not in asked and _traps(draft, answers):
            asked.add(draft.question)
            yield template, parameters


def _traps(draft: Draft, answers: _Answers) -> bool:
    """Return whether there is an answer that the question doesn't hold, and the mistake gives another one."""
    rows = answers.rows(draft.gold)
    if not rows or rows == answers.rows(draft.misleading):
        return False
    stored = gold_of(None, rows)
    return stored is not None and stored.answer is not None and not given_away(draft.question, stored.answer)
