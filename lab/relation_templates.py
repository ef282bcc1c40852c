"""Templates of generated tasks about relations of carriers, their weights, and the nodes that name their people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rbank_es.lab.generated_ontology import LEAVES, POSTS, MadeUpWorld, Stay, thing
from rbank_es.lab.template_parts import (
    COUNT,
    Draft,
    Template,
    carrier_rows,
    combined,
    drafted,
    each_carrier,
    each_of,
    each_person,
    each_post,
    each_region,
    each_weight,
    in_region,
    name_rows,
    number_row,
    number_rows,
    of_kind,
    people_rows,
    posts_of_kind,
    thing_rows,
    typed,
)

# ---------------------------------------------------------------- written once


def _faces(world: MadeUpWorld) -> tuple[str, str]:
    name = f"v:{world.terms['faces']}"
    return f"{name}|^{name}", name


def _facing(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    both = (carrier_rows(world, found[carrier]) for found in (world.facing, world.faced))
    return drafted(
        world, f"What faces {me}?", lambda faces: f"{thing(me)} {faces} ?x", _faces(world), *both, asked="DISTINCT ?x"
    )


def _names_of_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me, tail = world.carriers[carrier].name, f"?x . ?x v:{world.terms['called']} ?n"
    question = f"What are the names of the {world.labels['carrier']}s that face {me}?"
    both = (name_rows(world.carriers[at].name for at in found[carrier]) for found in (world.facing, world.faced))
    return drafted(
        world, question, lambda faces: f"{thing(me)} {faces} {tail}", _faces(world), *both, asked="DISTINCT ?n"
    )


def _watched_by_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me, tail = world.carriers[carrier].name, f"?c . {world.watch('?c', '?x')}"
    question = f"Which {world.labels['post']}s are watched over by a {world.labels['carrier']} that faces {me}?"

    def posts(found: Iterable[int]) -> set[str]:
        watched = (world.carriers[at].watches for at in found)
        return {world.posts[post].name for post in watched if post is not None}

    both = (thing_rows(world, posts(found[carrier])) for found in (world.facing, world.faced))
    return drafted(
        world, question, lambda faces: f"{thing(me)} {faces} {tail}", _faces(world), *both, asked="DISTINCT ?x"
    )


def _without_facing(world: MadeUpWorld, role: str, weight: int) -> Draft:
    def body(faces: str) -> str:
        heavy = f"?x {faces} ?o . ?o v:{world.terms['empty']} ?w FILTER(?w > {weight})"
        return f"{typed(world, '?x', role)} FILTER NOT EXISTS {{ {heavy} }}"

    def lacks(others: Iterable[int]) -> bool:
        return not any(world.carriers[at].empty > weight for at in others)

    question = f"Which {world.labels[role]}s face nothing that weighs more than {weight} {world.unit}s by itself?"
    every, (whole, own) = of_kind(world, role), _faces(world)
    both = (carrier_rows(world, (at for at in every if lacks(found[at]))) for found in (world.facing, world.faced))
    return drafted(world, question, body, (f"({whole})", own), *both)


def _number_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    question = f"How many {world.labels['carrier']}s does {me} face?"
    both = (number_row(len(found[carrier])) for found in (world.facing, world.faced))
    return drafted(world, question, lambda faces: f"{thing(me)} {faces} ?x", _faces(world), *both, asked=COUNT)


# ---------------------------------------------------------------- look-alikes

_WEIGHTS = ("loaded", "empty")
"""The weight that is asked about, and its look-alike: fields of a carrier, and roles of their properties."""


def _weights(world: MadeUpWorld) -> tuple[str, str]:
    loaded, empty = (f"v:{world.terms[role]} ?w" for role in _WEIGHTS)
    return loaded, empty


def _weight(world: MadeUpWorld, carrier: int) -> Draft:
    each = world.carriers[carrier]
    question = f"How many {world.unit}s does {each.name} weigh with its load?"
    both = (number_rows([getattr(each, weight)]) for weight in _WEIGHTS)
    return drafted(world, question, lambda weight: f"{thing(each.name)} {weight}", _weights(world), *both, asked="?w")


def _weights_of_watchers(world: MadeUpWorld, post: int) -> Draft:
    name, found = world.posts[post].name, [world.carriers[at] for at in world.watchers[post]]
    watch = world.watch("?x", thing(name))
    question = (
        f"How many {world.unit}s does each {world.labels['carrier']} weigh with its load that watches over {name}?"
    )
    both = (number_rows(getattr(each, weight) for each in found) for weight in _WEIGHTS)
    return drafted(world, question, lambda weight: f"{watch} . ?x {weight}", _weights(world), *both, asked="?w")


def _weights_of_facing(world: MadeUpWorld, carrier: int, role: str) -> Draft:
    me = world.carriers[carrier].name
    question = f"How many {world.unit}s does each {world.labels[role]} weigh with its load that faces {me}?"
    head = f"{typed(world, '?x', role)} ; {_faces(world)[0]} {thing(me)}"
    found = [world.carriers[at] for at in world.facing[carrier] if world.carriers[at].kind == role]
    both = (
        [
            [*thing_rows(world, [each.name])[0], ["num", getattr(each, weight)]]
            for each in sorted(found, key=lambda each: each.name)
        ]
        for weight in _WEIGHTS
    )
    return drafted(world, question, lambda weight: f"{head} ; {weight}", _weights(world), *both, asked="DISTINCT ?x ?w")


def _heavier(world: MadeUpWorld, role: str, weight: int) -> Draft:
    question = f"Which {world.labels[role]}s weigh more than {weight} {world.unit}s with their load?"
    kind, found = typed(world, "?x", role), of_kind(world, role)
    both = (carrier_rows(world, (at for at in found if getattr(world.carriers[at], of) > weight)) for of in _WEIGHTS)
    return drafted(world, question, lambda of: f"{kind} ; {of} FILTER(?w > {weight})", _weights(world), *both)


def _most(world: MadeUpWorld, question: str, head: str, found: Iterable[int]) -> Draft:
    """Return the draft that asks which of some carriers weighs the most."""
    of = list(found)
    heaviest = ([max(of, key=lambda at: getattr(world.carriers[at], weight))] if of else [] for weight in _WEIGHTS)
    both = (carrier_rows(world, each) for each in heaviest)
    tail = " ORDER BY DESC(?w) LIMIT 1"
    return drafted(world, question, lambda weight: f"{head} {weight}", _weights(world), *both, tail=tail)


def _heaviest(world: MadeUpWorld, region: int) -> Draft:
    name, v = world.regions[region], world.terms
    lies = f"?x v:{v['lies']}|^v:{v['holds']} {thing(name)} ;"
    return _most(world, f"What in {name} weighs the most with its load?", lies, in_region(world, region))


def _heaviest_watcher(world: MadeUpWorld, role: str) -> Draft:
    posts = set(posts_of_kind(world, role))
    found = (at for at, each in enumerate(world.carriers) if each.watches in posts)
    watch = f"{world.watch('?x', '?p')} . {typed(world, '?p', role)} . ?x"
    question = f"Of all that watch over a {world.labels[role]}, which weighs the most with its load?"
    return _most(world, question, watch, found)


# ---------------------------------------------------------------- nodes between


def _tended(world: MadeUpWorld, carrier: str, person: str) -> tuple[str, str]:
    v = world.terms
    return f"?s v:{v['of']} {carrier} ; v:{v['who']} {person}", f"{carrier} v:{v['tended']} {person}"


def _tenders(world: MadeUpWorld, carrier: int) -> tuple[Iterable[int], Iterable[int]]:
    """Return the people who have tended a carrier, and those whom the shortcut names."""
    return world.tenders[carrier], [world.shortcuts[carrier]] if carrier in world.shortcuts else []


def _who_tended(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    both = (people_rows(world, found) for found in _tenders(world, carrier))
    return drafted(world, f"Who has tended {me}?", str, _tended(world, thing(me), "?x"), *both, asked="DISTINCT ?x")


def _names_of_tenders(world: MadeUpWorld, carrier: int) -> Draft:
    me, called = world.carriers[carrier].name, f"?x v:{world.terms['called']} ?n"
    question = f"What are the names of the {world.labels['person']}s who have tended {me}?"
    both = (name_rows(world.people[at] for at in found) for found in _tenders(world, carrier))
    parts = _tended(world, thing(me), "?x")
    return drafted(world, question, lambda tended: f"{tended} . {called}", parts, *both, asked="DISTINCT ?n")


def _tended_by(world: MadeUpWorld, person: int, role: str) -> Draft:
    name, kind, every = world.people[person], typed(world, "?x", role), of_kind(world, role)
    question = f"Which {world.labels[role]}s has {name} tended?"
    both = (carrier_rows(world, (at for at in every if person in _tenders(world, at)[way])) for way in (0, 1))
    parts = _tended(world, "?x", thing(name))
    return drafted(world, question, lambda tended: f"{kind} . {tended}", parts, *both, asked="DISTINCT ?x")


def _who_tended_in_year(world: MadeUpWorld, stay: Stay) -> Draft:
    me, v, year = world.carriers[stay.carrier].name, world.terms, (stay.since + stay.until) // 2
    years = f"v:{v['since']} ?from ; v:{v['until']} ?until FILTER(?from <= {year} && ?until >= {year})"
    found = {each.person for each in world.stays if each.carrier == stay.carrier and each.since <= year <= each.until}
    right, wrong = _tended(world, thing(me), "?x")
    both = (people_rows(world, each) for each in (found, _tenders(world, stay.carrier)[1]))
    return drafted(
        world, f"Who tended {me} in the year {year}?", str, (f"{right} ; {years}", wrong), *both, asked="DISTINCT ?x"
    )


def _each_stay(world: MadeUpWorld) -> Iterator[tuple[Stay]]:
    return ((stay,) for stay in world.stays)


def _number_of_tenders(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    question = f"How many {world.labels['person']}s have tended {me}?"
    both = (number_row(len([*found])) for found in _tenders(world, carrier))
    return drafted(world, question, str, _tended(world, thing(me), "?x"), *both, asked=COUNT)


RELATION_TEMPLATES = (
    Template("written-once", 1, _facing, each_carrier),
    Template("written-once", 2, _names_of_facing, each_carrier),
    Template("written-once", 3, _watched_by_facing, each_carrier),
    Template("written-once", 4, _without_facing, combined(each_of(*LEAVES), each_weight)),
    Template("written-once", 5, _number_facing, each_carrier),
    Template("look-alikes", 1, _weight, each_carrier),
    Template("look-alikes", 2, _weights_of_watchers, each_post),
    Template("look-alikes", 3, _weights_of_facing, combined(each_carrier, each_of(*LEAVES))),
    Template("look-alikes", 4, _heavier, combined(each_of(*LEAVES), each_weight)),
    Template("look-alikes", 5, _heaviest, each_region),
    Template("look-alikes", 5, _heaviest_watcher, each_of(*POSTS)),
    Template("nodes-between", 1, _who_tended, each_carrier),
    Template("nodes-between", 2, _names_of_tenders, each_carrier),
    Template("nodes-between", 3, _tended_by, combined(each_person, each_of(*LEAVES))),
    Template("nodes-between", 4, _who_tended_in_year, _each_stay),
    Template("nodes-between", 5, _number_of_tenders, each_carrier),
)
