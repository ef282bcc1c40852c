"""Parts of the templates of generated tasks: what fills them in, patterns, and rows computed without any query.

Each template gives the answer twice: as a query, and computed from the world without one. So a task is right if its
query, run by any engine, finds the computed rows; and it is a task only if its misleading query doesn't.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

from rbank_es.lab.generated_ontology import MadeUpWorld

Cells = list[Any]
"""One row of an answer, in the form that a task stores."""

NO_ROWS: list[Cells] = []

SUPERCLASSES = ("carrier", "middle", "post")


class Draft(NamedTuple):
    """A question with its query and rows, and those of the mistake that it invites."""

    question: str
    gold: str
    misleading: str
    rows: list[Cells]
    wrong_rows: list[Cells]

    @property
    def traps(self) -> bool:
        """Whether there is an answer, and the mistake gives another one."""
        return bool(self.rows) and _counted(self.rows) != _counted(self.wrong_rows)


class Template(NamedTuple):
    """The making of the tasks of a family and level: `build` fills in one of `parameters`."""

    family: str
    level: int
    build: Callable[..., Draft]
    parameters: Callable[[MadeUpWorld], Iterable[tuple[Any, ...]]]


def _counted(rows: list[Cells]) -> Counter[str]:
    return Counter(map(json.dumps, rows))


# ---------------------------------------------------------------- what templates are filled with


def each_class(world: MadeUpWorld) -> Iterator[tuple[str]]:
    """Yield the role of each class that has subclasses."""
    return ((role,) for role in SUPERCLASSES)


def each_index(things: str) -> Callable[[MadeUpWorld], Iterator[tuple[int]]]:
    """Return the function that yields the index of each of some things of a world, such as `carriers`."""
    return lambda world: ((at,) for at in range(len(getattr(world, things))))


each_carrier, each_post, each_person, each_region = map(each_index, ("carriers", "posts", "people", "regions"))


def each_weight(world: MadeUpWorld) -> Iterator[tuple[int]]:
    """Yield weights, from that of the lightest carriers to beyond that of the heaviest."""
    return ((weight,) for weight in range(150, 100 + 20 * len(world.carriers), 50))


def combined(
    *parts: Callable[[MadeUpWorld], Iterable[tuple[Any, ...]]],
) -> Callable[[MadeUpWorld], Iterator[tuple[Any, ...]]]:
    """Return the function that yields every combination of what several functions yield."""
    return lambda world: (sum(chosen, ()) for chosen in product(*(part(world) for part in parts)))


def each_of(*roles: str) -> Callable[[MadeUpWorld], Iterator[tuple[str]]]:
    """Return the function that yields these roles."""
    return lambda world: ((role,) for role in roles)


# ---------------------------------------------------------------- queries and rows


def query(world: MadeUpWorld, body: str, *, asked: str = "?x", tail: str = "") -> str:
    """Return a SELECT with the prefixes that it uses. `body` is its pattern, `tail` what follows it."""
    text = f"SELECT {asked} WHERE {{ {body} }}{tail}"
    spaces = {"v": f"{world.namespace}ns#", "t": f"{world.namespace}thing/"}
    spaces["rdfs"] = "http://www.w3.org/2000/01/rdf-schema#"
    return "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in spaces.items() if f"{name}:" in text) + text


COUNT = "(COUNT(DISTINCT ?x) AS ?n)"
"""What is asked where the different values of `?x` are counted."""


def drafted(
    world: MadeUpWorld,
    question: str,
    body: Callable[[str], str],
    parts: tuple[str, str],
    rows: list[Cells],
    wrong_rows: list[Cells] = NO_ROWS,
    *,
    asked: str = "?x",
    tail: str = "",
) -> Draft:
    """Return a draft: its query has `body` of the first of two parts as its pattern, its mistake that of the other."""
    gold, misleading = (query(world, body(part), asked=asked, tail=tail) for part in parts)
    return Draft(question, gold, misleading, rows, wrong_rows)


def thing_rows(world: MadeUpWorld, names: Iterable[str]) -> list[Cells]:
    """Return a row for each thing, by its name."""
    return [[["iri", f"{world.namespace}thing/{name.lower()}"]] for name in sorted(names)]


def carrier_rows(world: MadeUpWorld, found: Iterable[int]) -> list[Cells]:
    """Return a row for each carrier, by its index."""
    return thing_rows(world, (world.carriers[at].name for at in found))


def name_rows(found: Iterable[str]) -> list[Cells]:
    """Return a row for each name."""
    return [[["lit", name, ""]] for name in sorted(found)]


def number_row(number: int) -> list[Cells]:
    """Return the one row of a count."""
    return [[["num", number]]]


def number_rows(found: Iterable[int]) -> list[Cells]:
    """Return a row for each number."""
    return [[["num", number]] for number in sorted(found)]


def is_a(world: MadeUpWorld, variable: str, role: str) -> str:
    """Return the pattern of a thing of a class, its subclasses included where it has any."""
    path = "a/rdfs:subClassOf*" if role in SUPERCLASSES else "a"
    return f"{variable} {path} v:{world.terms[role]}"


def typed(world: MadeUpWorld, variable: str, role: str) -> str:
    """Return the pattern of a thing that is typed with a class itself."""
    return f"{variable} a v:{world.terms[role]}"


def of_kind(world: MadeUpWorld, role: str) -> list[int]:
    """Return the carriers of a class."""
    return [at for at, each in enumerate(world.carriers) if each.kind in world.kinds(role)]


def posts_of_kind(world: MadeUpWorld, role: str) -> list[int]:
    """Return the posts of a class."""
    return [at for at, each in enumerate(world.posts) if each.kind in world.kinds(role)]


def in_region(world: MadeUpWorld, region: int, *, whole: bool = True) -> list[int]:
    """Return the carriers in a region; unless `whole`, only those that name it themselves."""
    return [at for at, each in enumerate(world.carriers) if each.region == region and (whole or each.names_region)]


def people_rows(world: MadeUpWorld, found: Iterable[int]) -> list[Cells]:
    """Return a row for each person, by index."""
    return thing_rows(world, (world.people[at] for at in found))
