"""Templates of generated tasks about relations of carriers, their weights, and the nodes that name their people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rbank_es.lab.generated_ontology import LEAVES, POSTS, MadeUpWorld, Stay, thing
from rbank_es.lab.template_parts import (
    Draft,
    Template,
    carrier_rows,
    combined,
    count_query,
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
    query,
    thing_rows,
    typed,
)

# ---------------------------------------------------------------- written once


def _faces(world: MadeUpWorld, *, whole: bool = True) -> str:
    name = f"v:{world.terms['faces']}"
    return f"{name}|^{name}" if whole else name


def _facing(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    return Draft(
        f"What faces {me}?",
        query(world, f"{thing(me)} {_faces(world)} ?x", asked="DISTINCT ?x"),
        query(world, f"{thing(me)} {_faces(world, whole=False)} ?x", asked="DISTINCT ?x"),
        carrier_rows(world, world.facing[carrier]),
        carrier_rows(world, world.faced[carrier]),
    )


def _names_of_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me, called = world.carriers[carrier].name, f"?x v:{world.terms['called']} ?n"
    return Draft(
        f"What are the names of the {world.labels['carrier']}s that face {me}?",
        query(world, f"{thing(me)} {_faces(world)} ?x . {called}", asked="DISTINCT ?n"),
        query(world, f"{thing(me)} {_faces(world, whole=False)} ?x . {called}", asked="DISTINCT ?n"),
        name_rows(world.carriers[at].name for at in world.facing[carrier]),
        name_rows(world.carriers[at].name for at in world.faced[carrier]),
    )


def _watched_by_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me, watch = world.carriers[carrier].name, world.watch("?c", "?x")

    def posts(found: Iterable[int]) -> set[str]:
        watched = (world.carriers[at].watches for at in found)
        return {world.posts[post].name for post in watched if post is not None}

    return Draft(
        f"Which {world.labels['post']}s are watched over by a {world.labels['carrier']} that faces {me}?",
        query(world, f"{thing(me)} {_faces(world)} ?c . {watch}", asked="DISTINCT ?x"),
        query(world, f"{thing(me)} {_faces(world, whole=False)} ?c . {watch}", asked="DISTINCT ?x"),
        thing_rows(world, posts(world.facing[carrier])),
        thing_rows(world, posts(world.faced[carrier])),
    )


def _without_facing(world: MadeUpWorld, role: str, weight: int) -> Draft:
    def body(faces: str) -> str:
        heavy = f"?x {faces} ?o . ?o v:{world.terms['empty']} ?w FILTER(?w > {weight})"
        return f"{typed(world, '?x', role)} FILTER NOT EXISTS {{ {heavy} }}"

    def lacks(others: Iterable[int]) -> bool:
        return not any(world.carriers[at].empty > weight for at in others)

    every = of_kind(world, role)
    return Draft(
        f"Which {world.labels[role]}s face nothing that weighs more than {weight} {world.unit}s by itself?",
        query(world, body(f"({_faces(world)})")),
        query(world, body(_faces(world, whole=False))),
        carrier_rows(world, (at for at in every if lacks(world.facing[at]))),
        carrier_rows(world, (at for at in every if lacks(world.faced[at]))),
    )


def _number_facing(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    return Draft(
        f"How many {world.labels['carrier']}s does {me} face?",
        count_query(world, f"{thing(me)} {_faces(world)} ?x"),
        count_query(world, f"{thing(me)} {_faces(world, whole=False)} ?x"),
        number_row(len(world.facing[carrier])),
        number_row(len(world.faced[carrier])),
    )


# ---------------------------------------------------------------- look-alikes


def _weight(world: MadeUpWorld, carrier: int) -> Draft:
    each = world.carriers[carrier]
    loaded, empty = (f"{thing(each.name)} v:{world.terms[role]} ?w" for role in ("loaded", "empty"))
    return Draft(
        f"How many {world.unit}s does {each.name} weigh with its load?",
        query(world, loaded, asked="?w"),
        query(world, empty, asked="?w"),
        number_rows([each.loaded]),
        number_rows([each.empty]),
    )


def _weights_of_watchers(world: MadeUpWorld, post: int) -> Draft:
    name, found = world.posts[post].name, [world.carriers[at] for at in world.watchers[post]]
    watch = world.watch("?x", thing(name))
    return Draft(
        f"How many {world.unit}s does each {world.labels['carrier']} weigh with its load that watches over {name}?",
        query(world, f"{watch} . ?x v:{world.terms['loaded']} ?w", asked="?w"),
        query(world, f"{watch} . ?x v:{world.terms['empty']} ?w", asked="?w"),
        number_rows(each.loaded for each in found),
        number_rows(each.empty for each in found),
    )


def _weights_of_facing(world: MadeUpWorld, carrier: int, role: str) -> Draft:
    me, kind = world.carriers[carrier].name, typed(world, "?x", role)
    found = [world.carriers[at] for at in world.facing[carrier] if world.carriers[at].kind == role]
    return Draft(
        f"How many {world.unit}s does each {world.labels[role]} weigh with its load that faces {me}?",
        query(world, f"{kind} ; {_faces(world)} {thing(me)} ; v:{world.terms['loaded']} ?w", asked="DISTINCT ?x ?w"),
        query(world, f"{kind} ; {_faces(world)} {thing(me)} ; v:{world.terms['empty']} ?w", asked="DISTINCT ?x ?w"),
        _weighed(world, {each.name: each.loaded for each in found}),
        _weighed(world, {each.name: each.empty for each in found}),
    )


def _weighed(world: MadeUpWorld, weights: dict[str, int]) -> list[list[object]]:
    return [[*thing_rows(world, [name])[0], ["num", weights[name]]] for name in sorted(weights)]


def _heavier(world: MadeUpWorld, role: str, weight: int) -> Draft:
    def body(property: str) -> str:
        return f"{typed(world, '?x', role)} ; v:{world.terms[property]} ?w FILTER(?w > {weight})"

    found = of_kind(world, role)
    return Draft(
        f"Which {world.labels[role]}s weigh more than {weight} {world.unit}s with their load?",
        query(world, body("loaded")),
        query(world, body("empty")),
        carrier_rows(world, (at for at in found if world.carriers[at].loaded > weight)),
        carrier_rows(world, (at for at in found if world.carriers[at].empty > weight)),
    )


def _heaviest(world: MadeUpWorld, region: int) -> Draft:
    found, place = in_region(world, region), thing(world.regions[region])
    lies = f"?x v:{world.terms['lies']}|^v:{world.terms['holds']} {place}"
    tail = " ORDER BY DESC(?w) LIMIT 1"
    return Draft(
        f"What in {world.regions[region]} weighs the most with its load?",
        query(world, f"{lies} ; v:{world.terms['loaded']} ?w", tail=tail),
        query(world, f"{lies} ; v:{world.terms['empty']} ?w", tail=tail),
        carrier_rows(world, sorted(found, key=lambda at: -world.carriers[at].loaded)[:1]),
        carrier_rows(world, sorted(found, key=lambda at: -world.carriers[at].empty)[:1]),
    )


def _heaviest_watcher(world: MadeUpWorld, role: str) -> Draft:
    posts = set(posts_of_kind(world, role))
    found = [at for at, each in enumerate(world.carriers) if each.watches in posts]
    watch, tail = f"{world.watch('?x', '?p')} . {typed(world, '?p', role)}", " ORDER BY DESC(?w) LIMIT 1"
    return Draft(
        f"Of all that watch over a {world.labels[role]}, which weighs the most with its load?",
        query(world, f"{watch} . ?x v:{world.terms['loaded']} ?w", tail=tail),
        query(world, f"{watch} . ?x v:{world.terms['empty']} ?w", tail=tail),
        carrier_rows(world, sorted(found, key=lambda at: -world.carriers[at].loaded)[:1]),
        carrier_rows(world, sorted(found, key=lambda at: -world.carriers[at].empty)[:1]),
    )


# ---------------------------------------------------------------- nodes between


def _stay(world: MadeUpWorld, carrier: str, person: str) -> str:
    return f"?s v:{world.terms['of']} {carrier} ; v:{world.terms['who']} {person}"


def _shortcut(world: MadeUpWorld, carrier: str, person: str) -> str:
    return f"{carrier} v:{world.terms['tended']} {person}"


def _shortcuts(world: MadeUpWorld, carrier: int) -> list[int]:
    return [world.shortcuts[carrier]] if carrier in world.shortcuts else []


def _who_tended(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    return Draft(
        f"Who has tended {me}?",
        query(world, _stay(world, thing(me), "?x"), asked="DISTINCT ?x"),
        query(world, _shortcut(world, thing(me), "?x"), asked="DISTINCT ?x"),
        people_rows(world, world.tenders[carrier]),
        people_rows(world, _shortcuts(world, carrier)),
    )


def _names_of_tenders(world: MadeUpWorld, carrier: int) -> Draft:
    me, called = world.carriers[carrier].name, f"?x v:{world.terms['called']} ?n"
    return Draft(
        f"What are the names of the {world.labels['person']}s who have tended {me}?",
        query(world, f"{_stay(world, thing(me), '?x')} . {called}", asked="DISTINCT ?n"),
        query(world, f"{_shortcut(world, thing(me), '?x')} . {called}", asked="DISTINCT ?n"),
        name_rows(world.people[at] for at in world.tenders[carrier]),
        name_rows(world.people[at] for at in _shortcuts(world, carrier)),
    )


def _tended_by(world: MadeUpWorld, person: int, role: str) -> Draft:
    name, kind = world.people[person], typed(world, "?x", role)
    found = of_kind(world, role)
    return Draft(
        f"Which {world.labels[role]}s has {name} tended?",
        query(world, f"{kind} . {_stay(world, '?x', thing(name))}", asked="DISTINCT ?x"),
        query(world, f"{kind} . {_shortcut(world, '?x', thing(name))}", asked="DISTINCT ?x"),
        carrier_rows(world, (at for at in found if person in world.tenders[at])),
        carrier_rows(world, (at for at in found if person in _shortcuts(world, at))),
    )


def _who_tended_in_year(world: MadeUpWorld, stay: Stay) -> Draft:
    me, v, year = world.carriers[stay.carrier].name, world.terms, (stay.since + stay.until) // 2
    years = f"v:{v['since']} ?from ; v:{v['until']} ?until FILTER(?from <= {year} && ?until >= {year})"
    found = {each.person for each in world.stays if each.carrier == stay.carrier and each.since <= year <= each.until}
    return Draft(
        f"Who tended {me} in the year {year}?",
        query(world, f"{_stay(world, thing(me), '?x')} ; {years}", asked="DISTINCT ?x"),
        query(world, _shortcut(world, thing(me), "?x"), asked="DISTINCT ?x"),
        people_rows(world, found),
        people_rows(world, _shortcuts(world, stay.carrier)),
    )


def _each_stay(world: MadeUpWorld) -> Iterator[tuple[Stay]]:
    return ((stay,) for stay in world.stays)


def _number_of_tenders(world: MadeUpWorld, carrier: int) -> Draft:
    me = world.carriers[carrier].name
    return Draft(
        f"How many {world.labels['person']}s have tended {me}?",
        count_query(world, _stay(world, thing(me), "?x")),
        count_query(world, _shortcut(world, thing(me), "?x")),
        number_row(len(world.tenders[carrier])),
        number_row(len(_shortcuts(world, carrier))),
    )


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
