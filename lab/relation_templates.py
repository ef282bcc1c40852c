"""Templates of generated tasks about relations of carriers, their weights, and the nodes that name their people."""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.lab.generated_ontology import LEAVES, POSTS, MadeUpWorld, Stay, thing
from rbank_es.lab.template_parts import (
    COUNT,
    Draft,
    Template,
    combined,
    drafted,
    each_carrier,
    each_of,
    each_person,
    each_post,
    each_region,
    each_weight,
    lies,
    typed,
)

# ---------------------------------------------------------------- written once


def _faces(world: MadeUpWorld) -> tuple[str, str]:
    name = f"v:{world.terms['faces']}"
    return f"{name}|^{name}", name


def _facing(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    return drafted(
        world, f"What faces {me}?", lambda faces: f"{thing(me)} {faces} ?x", _faces(world), asked="DISTINCT ?x"
    )


def _names_of_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me, tail = world.carriers[carrier].name, f"?x . ?x v:{world.terms['called']} ?n"
    question = f"What are the names of the {world.labels['carrier']}s that face {me}?"
    return drafted(world, question, lambda faces: f"{thing(me)} {faces} {tail}", _faces(world), asked="DISTINCT ?n")


def _watched_by_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me, tail = world.carriers[carrier].name, f"?c . {world.watch('?c', '?x')}"
    question = f"Which {world.labels['post']}s are watched over by a {world.labels['carrier']} that faces {me}?"
    return drafted(world, question, lambda faces: f"{thing(me)} {faces} {tail}", _faces(world), asked="DISTINCT ?x")


def _without_facing(world: MadeUpWorld, role: str, weight: int) -> Draft:
    def body(faces: str) -> str:
        heavy = f"?x {faces} ?o . ?o v:{world.terms['empty']} ?w FILTER(?w > {weight})"
        return f"{typed(world, '?x', role)} FILTER NOT EXISTS {{ {heavy} }}"

    question = f"Which {world.labels[role]}s face nothing that weighs more than {weight} {world.unit}s by itself?"
    whole, own = _faces(world)
    return drafted(world, question, body, (f"({whole})", own))


def _number_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    question = f"How many {world.labels['carrier']}s does {me} face?"
    return drafted(world, question, lambda faces: f"{thing(me)} {faces} ?x", _faces(world), asked=COUNT)


# ---------------------------------------------------------------- look-alikes


def _weights(world: MadeUpWorld) -> tuple[str, str]:
    """Return the weight that is asked about, and its look-alike."""
    return f"v:{world.terms['loaded']} ?w", f"v:{world.terms['empty']} ?w"


def _weight(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    question = f"How many {world.unit}s does {me} weigh with its load?"
    return drafted(world, question, lambda weight: f"{thing(me)} {weight}", _weights(world), asked="?w")


def _weights_of_watchers(world: MadeUpWorld, post: int) -> Draft:
    name = world.posts[post].name
    watch = world.watch("?x", thing(name))
    question = (
        f"How many {world.unit}s does each {world.labels['carrier']} weigh with its load that watches over {name}?"
    )
    return drafted(world, question, lambda weight: f"{watch} . ?x {weight}", _weights(world), asked="?w")


def _weights_of_facing(world: MadeUpWorld, carrier: int, role: str) -> Draft:
    me = world.carriers[carrier].name
    question = f"How many {world.unit}s does each {world.labels[role]} weigh with its load that faces {me}?"
    head = f"{typed(world, '?x', role)} ; {_faces(world)[0]} {thing(me)}"
    return drafted(world, question, lambda weight: f"{head} ; {weight}", _weights(world), asked="DISTINCT ?x ?w")


def _heavier(world: MadeUpWorld, role: str, weight: int) -> Draft:
    question = f"Which {world.labels[role]}s weigh more than {weight} {world.unit}s with their load?"
    kind = typed(world, "?x", role)
    return drafted(world, question, lambda of: f"{kind} ; {of} FILTER(?w > {weight})", _weights(world))


def _most(world: MadeUpWorld, question: str, head: str) -> Draft:
    """Return the draft that asks which of some carriers weighs the most."""
    tail = " ORDER BY DESC(?w) LIMIT 1"
    return drafted(world, question, lambda weight: f"{head} {weight}", _weights(world), tail=tail)


def _heaviest(world: MadeUpWorld, region: int) -> Draft:
    name = world.regions[region]
    return _most(world, f"What in {name} weighs the most with its load?", f"?x {lies(world)[0]} {thing(name)} ;")


def _heaviest_watcher(world: MadeUpWorld, role: str) -> Draft:
    watch = f"{world.watch('?x', '?p')} . {typed(world, '?p', role)} . ?x"
    return _most(world, f"Of all that watch over a {world.labels[role]}, which weighs the most with its load?", watch)


# ---------------------------------------------------------------- nodes between


def _tended(world: MadeUpWorld, carrier: str, person: str) -> tuple[str, str]:
    v = world.terms
    return f"?s v:{v['of']} {carrier} ; v:{v['who']} {person}", f"{carrier} v:{v['tended']} {person}"


def _who_tended(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    return drafted(world, f"Who has tended {me}?", str, _tended(world, thing(me), "?x"), asked="DISTINCT ?x")


def _names_of_tenders(world: MadeUpWorld, carrier: int) -> Draft:
    me, called = world.carriers[carrier].name, f"?x v:{world.terms['called']} ?n"
    question = f"What are the names of the {world.labels['person']}s who have tended {me}?"
    parts = _tended(world, thing(me), "?x")
    return drafted(world, question, lambda tended: f"{tended} . {called}", parts, asked="DISTINCT ?n")


def _tended_by(world: MadeUpWorld, person: int, role: str) -> Draft:
    name, kind = world.people[person], typed(world, "?x", role)
    question = f"Which {world.labels[role]}s has {name} tended?"
    parts = _tended(world, "?x", thing(name))
    return drafted(world, question, lambda tended: f"{kind} . {tended}", parts, asked="DISTINCT ?x")


def _who_tended_in_year(world: MadeUpWorld, stay: Stay) -> Draft:
    me, v, year = world.carriers[stay.carrier].name, world.terms, (stay.since + stay.until) // 2
    years = f"v:{v['since']} ?from ; v:{v['until']} ?until FILTER(?from <= {year} && ?until >= {year})"
    right, wrong = _tended(world, thing(me), "?x")
    return drafted(
        world, f"Who tended {me} in the year {year}?", str, (f"{right} ; {years}", wrong), asked="DISTINCT ?x"
    )


def _each_stay(world: MadeUpWorld) -> Iterator[tuple[Stay]]:
    return ((stay,) for stay in world.stays)


def _number_of_tenders(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    question = f"How many {world.labels['person']}s have tended {me}?"
    return drafted(world, question, str, _tended(world, thing(me), "?x"), asked=COUNT)


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
