"""Parts of the templates of generated tasks: what fills them in, and patterns of their queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

from rbank_es.lab.generated_ontology import MadeUpWorld

SUPERCLASSES = ("carrier", "middle", "post")


class Draft(NamedTuple):
    """A question with its query, and that of the mistake that it invites."""

    question: str
    gold: str
    misleading: str


class Template(NamedTuple):
    """The making of the tasks of a family and level: `build` fills in one of `parameters`."""

    family: str
    level: int
    build: Callable[..., Draft]
    parameters: Callable[[MadeUpWorld], Iterable[tuple[Any, ...]]]


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


# ---------------------------------------------------------------- queries


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
    *,
    asked: str = "?x",
    tail: str = "",
) -> Draft:
    """Return a draft: its query has `body` of the first of two parts as its pattern, its mistake that of the other."""
    gold, misleading = (query(world, body(part), asked=asked, tail=tail) for part in parts)
    return Draft(question, gold, misleading)


def is_a(world: MadeUpWorld, variable: str, role: str) -> str:
    """Return the pattern of a thing of a class, its subclasses included where it has any."""
    path = "a/rdfs:subClassOf*" if role in SUPERCLASSES else "a"
    return f"{variable} {path} v:{world.terms[role]}"


def typed(world: MadeUpWorld, variable: str, role: str) -> str:
    """Return the pattern of a thing that is typed with a class itself."""
    return f"{variable} a v:{world.terms[role]}"


def lies(world: MadeUpWorld) -> tuple[str, str]:
    """Return the path from a carrier to its region on either side, and that on its own side alone."""
    own = f"v:{world.terms['lies']}"
    return f"{own}|^v:{world.terms['holds']}", own
