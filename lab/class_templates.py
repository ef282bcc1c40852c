"""Templates of generated tasks about classes, inverses and regions: a query for each trap and level.

Each template gives the answer twice: as a query, and computed from the world without one. So a task is right if its
query, run by any engine, finds the computed rows; and it is a task only if its misleading query doesn't.
"""

from __future__ import annotations

from rbank_es.lab.generated_ontology import LEAVES, POSTS, MadeUpWorld, thing
from rbank_es.lab.template_parts import (
    Draft,
    Template,
    carrier_rows,
    combined,
    count_query,
    each_class,
    each_of,
    each_person,
    each_post,
    each_region,
    each_weight,
    in_region,
    is_a,
    name_rows,
    number_row,
    of_kind,
    posts_of_kind,
    query,
    thing_rows,
    typed,
)

# ---------------------------------------------------------------- superclasses


def _instances(world: MadeUpWorld, role: str) -> Draft:
    names = [each.name for each in world.posts] if role == "post" else []
    names = names or [world.carriers[at].name for at in of_kind(world, role)]
    return Draft(
        f"Which {world.labels[role]}s are there?",
        query(world, is_a(world, "?x", role)),
        query(world, typed(world, "?x", role)),
        thing_rows(world, names),
        [],
    )


def _watching_instances(world: MadeUpWorld, role: str, post: int) -> Draft:
    watch = world.watch("?x", thing(world.posts[post].name))
    return Draft(
        f"Which {world.labels[role]}s watch over {world.posts[post].name}?",
        query(world, f"{is_a(world, '?x', role)} . {watch}"),
        query(world, f"{typed(world, '?x', role)} . {watch}"),
        carrier_rows(world, set(world.watchers[post]) & set(of_kind(world, role))),
        [],
    )


def _tended_instances(world: MadeUpWorld, role: str, person: int) -> Draft:
    v = world.terms
    stay = f"?s v:{v['of']} ?x ; v:{v['who']} {thing(world.people[person])}"
    found = {each.carrier for each in world.stays if each.person == person} & set(of_kind(world, role))
    return Draft(
        f"What are the names of the {world.labels[role]}s that {world.people[person]} has tended?",
        query(world, f"{is_a(world, '?x', role)} . {stay} . ?x v:{v['called']} ?n", asked="DISTINCT ?n"),
        query(world, f"{typed(world, '?x', role)} . {stay} . ?x v:{v['called']} ?n", asked="DISTINCT ?n"),
        name_rows(world.carriers[at].name for at in found),
        [],
    )


def _heavy_instances(world: MadeUpWorld, role: str, weight: int) -> Draft:
    more = f"?x v:{world.terms['empty']} ?w FILTER(?w > {weight})"
    return Draft(
        f"Which {world.labels[role]}s weigh more than {weight} {world.unit}s by themselves?",
        query(world, f"{is_a(world, '?x', role)} . {more}"),
        query(world, f"{typed(world, '?x', role)} . {more}"),
        carrier_rows(world, (at for at in of_kind(world, role) if world.carriers[at].empty > weight)),
        [],
    )


def _instances_in_region(world: MadeUpWorld, role: str, region: int) -> Draft:
    v, place = world.terms, thing(world.regions[region])
    lies = f"?x v:{v['lies']}|^v:{v['holds']} {place}"
    return Draft(
        f"How many {world.labels[role]}s does {world.regions[region]} have?",
        count_query(world, f"{is_a(world, '?x', role)} . {lies}"),
        count_query(world, f"{typed(world, '?x', role)} . {lies}"),
        number_row(len(set(of_kind(world, role)) & set(in_region(world, region)))),
        # Nothing is typed with a class that has subclasses, so the mistake counts none.
        number_row(0),
    )


# ---------------------------------------------------------------- one-way inverses


def _watchers_of(world: MadeUpWorld, post: int) -> Draft:
    name = world.posts[post].name
    return Draft(
        f"What watches over {name}?",
        query(world, world.watch("?x", thing(name))),
        query(world, world.unheld_watch("?x", thing(name))),
        carrier_rows(world, world.watchers[post]),
        [],
    )


def _names_of_watchers(world: MadeUpWorld, post: int) -> Draft:
    name, called = world.posts[post].name, f"?x v:{world.terms['called']} ?n"
    return Draft(
        f"What are the names of the {world.labels['carrier']}s that watch over {name}?",
        query(world, f"{world.watch('?x', thing(name))} . {called}", asked="?n"),
        query(world, f"{world.unheld_watch('?x', thing(name))} . {called}", asked="?n"),
        name_rows(world.carriers[at].name for at in world.watchers[post]),
        [],
    )


def _posts_watched_by_kind(world: MadeUpWorld, role: str, post_role: str) -> Draft:
    kinds = f"{typed(world, '?x', post_role)} . {typed(world, '?c', role)}"
    found = {at for at in posts_of_kind(world, post_role) if set(world.watchers[at]) & set(of_kind(world, role))}
    return Draft(
        f"Which {world.labels[post_role]}s does a {world.labels[role]} watch over?",
        query(world, f"{kinds} . {world.watch('?c', '?x')}", asked="DISTINCT ?x"),
        query(world, f"{kinds} . {world.unheld_watch('?c', '?x')}", asked="DISTINCT ?x"),
        thing_rows(world, (world.posts[at].name for at in found)),
        [],
    )


def _posts_without_heavy_watchers(world: MadeUpWorld, post_role: str, weight: int) -> Draft:
    def body(watch: str) -> str:
        heavy = f"{watch} . ?c v:{world.terms['empty']} ?w FILTER(?w > {weight})"
        return f"{typed(world, '?x', post_role)} FILTER NOT EXISTS {{ {heavy} }}"

    every = posts_of_kind(world, post_role)
    found = [at for at in every if not any(world.carriers[c].empty > weight for c in world.watchers[at])]
    return Draft(
        f"Which {world.labels[post_role]}s does nothing watch over that weighs more than {weight} {world.unit}s by "
        "itself?",
        query(world, body(world.watch("?c", "?x"))),
        query(world, body(world.unheld_watch("?c", "?x"))),
        thing_rows(world, (world.posts[at].name for at in found)),
        # By the inverse nothing watches any post, so the mistake finds them all.
        thing_rows(world, (world.posts[at].name for at in every)),
    )


def _number_of_watched_posts(world: MadeUpWorld, post_role: str, role: str) -> Draft:
    kinds = f"{typed(world, '?x', post_role)} . {is_a(world, '?c', role)}"
    kind = set(of_kind(world, role))
    return Draft(
        f"How many {world.labels[post_role]}s have a {world.labels[role]} that watches over them?",
        count_query(world, f"{kinds} . {world.watch('?c', '?x')}"),
        count_query(world, f"{kinds} . {world.unheld_watch('?c', '?x')}"),
        number_row(sum(bool(kind & set(world.watchers[at])) for at in posts_of_kind(world, post_role))),
        number_row(0),
    )


# ---------------------------------------------------------------- both sides


def _lies(world: MadeUpWorld, *, whole: bool = True) -> str:
    other = f"|^v:{world.terms['holds']}" if whole else ""
    return f"v:{world.terms['lies']}{other}"


def _carriers_of_region(world: MadeUpWorld, region: int) -> Draft:
    place = thing(world.regions[region])
    return Draft(
        f"What is in {world.regions[region]}?",
        query(world, f"?x {_lies(world)} {place}"),
        query(world, f"?x {_lies(world, whole=False)} {place}"),
        carrier_rows(world, in_region(world, region)),
        carrier_rows(world, in_region(world, region, whole=False)),
    )


def _names_of_kind_in_region(world: MadeUpWorld, region: int, role: str) -> Draft:
    place, kind = thing(world.regions[region]), typed(world, "?x", role)
    called, found = f"v:{world.terms['called']} ?n", set(of_kind(world, role))
    return Draft(
        f"What are the names of the {world.labels[role]}s in {world.regions[region]}?",
        query(world, f"{kind} ; {called} ; {_lies(world)} {place}", asked="?n"),
        query(world, f"{kind} ; {called} ; {_lies(world, whole=False)} {place}", asked="?n"),
        name_rows(world.carriers[at].name for at in found & set(in_region(world, region))),
        name_rows(world.carriers[at].name for at in found & set(in_region(world, region, whole=False))),
    )


def _posts_watched_from_region(world: MadeUpWorld, region: int, post_role: str) -> Draft:
    place, watch = thing(world.regions[region]), world.watch("?c", "?x")
    kind = typed(world, "?x", post_role)

    def found(*, whole: bool) -> set[str]:
        watched = {world.carriers[at].watches for at in in_region(world, region, whole=whole)}
        return {world.posts[at].name for at in posts_of_kind(world, post_role) if at in watched}

    return Draft(
        f"Which {world.labels[post_role]}s are watched over from {world.regions[region]}?",
        query(world, f"{kind} . {watch} . ?c {_lies(world)} {place}", asked="DISTINCT ?x"),
        query(world, f"{kind} . {watch} . ?c {_lies(world, whole=False)} {place}", asked="DISTINCT ?x"),
        thing_rows(world, found(whole=True)),
        thing_rows(world, found(whole=False)),
    )


def _heavy_in_region(world: MadeUpWorld, region: int, weight: int) -> Draft:
    place, more = thing(world.regions[region]), f"v:{world.terms['empty']} ?w FILTER(?w > {weight})"

    def found(*, whole: bool) -> list[int]:
        return [at for at in in_region(world, region, whole=whole) if world.carriers[at].empty > weight]

    return Draft(
        f"What is in {world.regions[region]} and weighs more than {weight} {world.unit}s by itself?",
        query(world, f"?x {_lies(world)} {place} ; {more}"),
        query(world, f"?x {_lies(world, whole=False)} {place} ; {more}"),
        carrier_rows(world, found(whole=True)),
        carrier_rows(world, found(whole=False)),
    )


def _number_of_kind_in_region(world: MadeUpWorld, region: int, role: str) -> Draft:
    place, kind = thing(world.regions[region]), typed(world, "?x", role)
    every = set(of_kind(world, role))
    return Draft(
        f"How many {world.labels[role]}s are in {world.regions[region]}?",
        count_query(world, f"{kind} ; {_lies(world)} {place}"),
        count_query(world, f"{kind} ; {_lies(world, whole=False)} {place}"),
        number_row(len(every & set(in_region(world, region)))),
        number_row(len(every & set(in_region(world, region, whole=False)))),
    )


CLASS_TEMPLATES = (
    Template("superclasses", 1, _instances, each_class),
    Template("superclasses", 2, _watching_instances, combined(each_of("carrier", "middle"), each_post)),
    Template("superclasses", 3, _tended_instances, combined(each_of("carrier", "middle"), each_person)),
    Template("superclasses", 4, _heavy_instances, combined(each_of("carrier", "middle"), each_weight)),
    Template("superclasses", 5, _instances_in_region, combined(each_of("carrier", "middle"), each_region)),
    Template("one-way", 1, _watchers_of, each_post),
    Template("one-way", 2, _names_of_watchers, each_post),
    Template("one-way", 3, _posts_watched_by_kind, combined(each_of(*LEAVES), each_of(*POSTS))),
    Template("one-way", 4, _posts_without_heavy_watchers, combined(each_of(*POSTS), each_weight)),
    Template("one-way", 5, _number_of_watched_posts, combined(each_of(*POSTS), each_of("carrier", *LEAVES))),
    Template("both-sides", 1, _carriers_of_region, each_region),
    Template("both-sides", 2, _names_of_kind_in_region, combined(each_region, each_of(*LEAVES))),
    Template("both-sides", 3, _posts_watched_from_region, combined(each_region, each_of(*POSTS))),
    Template("both-sides", 4, _heavy_in_region, combined(each_region, each_weight)),
    Template("both-sides", 5, _number_of_kind_in_region, combined(each_region, each_of(*LEAVES))),
)
