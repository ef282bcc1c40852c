"""Which instances are found only through subclasses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from rbank_es.ontology.schema_model import ClassInfo, Schema

EVERYTHING = (9, 10)
"""The part of all instances beyond which a class counts as one of everything."""


def children_of(schema: Schema) -> dict[str, list[str]]:
    """The direct subclasses of each class that has some."""
    children: dict[str, list[str]] = defaultdict(list)
    for info in schema.classes:
        for parent in info.parents:
            children[parent].append(info.iri)
    return children


class Hidden(NamedTuple):
    """A class, the instances that are typed with it, and those of its subclasses, which a plain query misses."""

    info: ClassInfo
    below: int


def hidden_instances(schema: Schema) -> list[Hidden]:
    """The classes with more instances in their subclasses than are typed with them, most first, then by IRI.

    Where data type each thing with all superclasses too, nothing is hidden. A class of nearly everything is no use
    to anyone who looks for something, and left out.
    """
    children = children_of(schema)
    instances = {info.iri: info.instances for info in schema.classes}
    under = {info.iri: below(info.iri, children) for info in schema.classes if children.get(info.iri)}
    reach = _reach(children, instances)
    hidden = [
        Hidden(info, sum(instances.get(iri, 0) for iri in under[info.iri]))
        for info in schema.classes
        if info.iri in under and reach[info.iri] > info.instances
    ]
    everything = sum(instances.values())
    useful = (one for one in hidden if one.below and EVERYTHING[1] * one.below <= EVERYTHING[0] * everything)
    return sorted(useful, key=lambda one: (-one.below, one.info.iri))


def below(iri: str, children: Mapping[str, list[str]]) -> set[str]:
    """All subclasses of a class but itself, by any number of steps."""
    found: set[str] = set()
    todo = [iri]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found and child != iri:
                found.add(child)
                todo.append(child)
    return found


def _reach(children: Mapping[str, list[str]], instances: Mapping[str, int]) -> dict[str, int]:
    """How many things each class stands for: those typed with it, or with its subclasses where these are more.

    Goes up from the leaves; classes in a circle of subclasses count only what is typed with themselves.
    """
    reach: dict[str, int] = {}
    open_: set[str] = set()
    for top in sorted({*instances, *children}):
        todo = [(top, False)]
        while todo:
            iri, below_done = todo.pop()
            if below_done:
                open_.discard(iri)
                reach[iri] = max(instances.get(iri, 0), sum(reach.get(child, 0) for child in children.get(iri, ())))
            elif iri not in reach and iri not in open_:
                open_.add(iri)
                todo.append((iri, True))
                todo += [(child, False) for child in children.get(iri, ())]
    return reach
