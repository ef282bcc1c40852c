"""Templates of generated tasks about classes, inverses and regions: a query for each trap and level.

Each template gives the answer twice: as a query, and computed from the world without one. So a task is right if its
query, run by any engine, finds the computed rows; and it is a task only if its misleading query doesn't.
"""

from __future__ import annotations

from rbank_es.lab.generated_ontology import LEAVES, POSTS, MadeUpWorld, thing
from rbank_es.lab.template_parts import (
    COUNT,
    Draft,
    Template,
    carrier_rows,
    combined,
    drafted,
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
    thing_rows,
    typed,
)

# ---------------------------------------------------------------- superclasses


def _kinds(world: MadeUpWorld, role: str) -> tuple[str, str]:
    return is_a(world, "?x", role), typed(world, "?x", role)


def _instances(world: MadeUpWorld, role: str) -> Draft:
    names = [each.name for each in world.posts] if role == "post" else []
    names = names or [world.carriers[at].name for at in of_kind(world, role)]
    question = f"Which {world.labels[role]}s are there?"
    return drafted(world, question, str, _kinds(world, role), thing_rows(world, names))


def _watching_instances(world: MadeUpWorld, role: str, post: int) -> Draft:
    name = world.posts[post].name
    question = f"Which {world.labels[role]}s watch over {name}?"
    watch = world.watch("?x", thing(name))
    found = set(world.watchers[post]) & set(of_kind(world, role))
    return drafted(world, question, lambda kind: f"{kind} . {watch}", _kinds(world, role), carrier_rows(world, found))


def _tended_instances(world: MadeUpWorld, role: str, person: int) -> Draft:
    v, name = world.terms, world.people[person]
    question = f"What are the names of the {world.labels[role]}s that {name} has tended?"
    more = f"?s v:{v['of']} ?x ; v:{v['who']} {thing(name)} . ?x v:{v['called']} ?n"
    found = {each.carrier for each in world.stays if each.person == person} & set(of_kind(world, role))
    rows = name_rows(world.carriers[at].name for at in found)
    return drafted(world, question, lambda kind: f"{kind} . {more}", _kinds(world, role), rows, asked="DISTINCT ?n")


def _heavy_instances(world: MadeUpWorld, role: str, weight: int) -> Draft:
    question = f"Which {world.labels[role]}s weigh more than {weight} {world.unit}s by themselves?"
    more = f"?x v:{world.terms['empty']} ?w FILTER(?w > {weight})"
    found = (at for at in of_kind(world, role) if world.carriers[at].empty > weight)
    return drafted(world, question, lambda kind: f"{kind} . {more}", _kinds(world, role), carrier_rows(world, found))


def _instances_in_region(world: MadeUpWorld, role: str, region: int) -> Draft:
    question = f"How many {world.labels[role]}s does {world.regions[region]} have?"
    lies = f"?x {_lies(world)[0]} {thing(world.regions[region])}"
    rows = number_row(len(set(of_kind(world, role)) & set(in_region(world, region))))
    # Nothing is typed with a class that has subclasses, so the mistake counts none.
    wrong = number_row(0)
    return drafted(world, question, lambda kind: f"{kind} . {lies}", _kinds(world, role), rows, wrong, asked=COUNT)


# ---------------------------------------------------------------- one-way inverses


def _watches(world: MadeUpWorld, carrier: str, post: str) -> tuple[str, str]:
    return world.watch(carrier, post), world.unheld_watch(carrier, post)


def _watchers_of(world: MadeUpWorld, post: int) -> Draft:
    name = world.posts[post].name
    rows = carrier_rows(world, world.watchers[post])
    return drafted(world, f"What watches over {name}?", str, _watches(world, "?x", thing(name)), rows)


def _names_of_watchers(world: MadeUpWorld, post: int) -> Draft:
    name, called = world.posts[post].name, f"?x v:{world.terms['called']} ?n"
    question = f"What are the names of the {world.labels['carrier']}s that watch over {name}?"
    rows = name_rows(world.carriers[at].name for at in world.watchers[post])
    parts = _watches(world, "?x", thing(name))
    return drafted(world, question, lambda watch: f"{watch} . {called}", parts, rows, asked="?n")


def _posts_watched_by_kind(world: MadeUpWorld, role: str, post_role: str) -> Draft:
    question = f"Which {world.labels[post_role]}s does a {world.labels[role]} watch over?"
    kinds = f"{typed(world, '?x', post_role)} . {typed(world, '?c', role)}"
    found = {at for at in posts_of_kind(world, post_role) if set(world.watchers[at]) & set(of_kind(world, role))}
    rows, parts = thing_rows(world, (world.posts[at].name for at in found)), _watches(world, "?c", "?x")
    return drafted(world, question, lambda watch: f"{kinds} . {watch}", parts, rows, asked="DISTINCT ?x")


def _posts_without_heavy_watchers(world: MadeUpWorld, post_role: str, weight: int) -> Draft:
    def body(watch: str) -> str:
        heavy = f"{watch} . ?c v:{world.terms['empty']} ?w FILTER(?w > {weight})"
        return f"{typed(world, '?x', post_role)} FILTER NOT EXISTS {{ {heavy} }}"

    every = posts_of_kind(world, post_role)
    found = [at for at in every if not any(world.carriers[c].empty > weight for c in world.watchers[at])]
    # By the inverse nothing watches any post, so the mistake finds them all.
    both = (thing_rows(world, (world.posts[at].name for at in posts)) for posts in (found, every))
    question = (
        f"Which {world.labels[post_role]}s does nothing watch over that weighs more than {weight} {world.unit}s by "
        "itself?"
    )
    return drafted(world, question, body, _watches(world, "?c", "?x"), *both)


def _number_of_watched_posts(world: MadeUpWorld, post_role: str, role: str) -> Draft:
    question = f"How many {world.labels[post_role]}s have a {world.labels[role]} that watches over them?"
    kinds = f"{typed(world, '?x', post_role)} . {is_a(world, '?c', role)}"
    kind = set(of_kind(world, role))
    rows = number_row(sum(bool(kind & set(world.watchers[at])) for at in posts_of_kind(world, post_role)))
    parts = _watches(world, "?c", "?x")
    return drafted(world, question, lambda watch: f"{kinds} . {watch}", parts, rows, number_row(0), asked=COUNT)


# ---------------------------------------------------------------- both sides

_SIDES = (True, False)
"""Whether the region may name a carrier, too: what a right query knows, and a wrong one doesn't."""


def _lies(world: MadeUpWorld) -> tuple[str, str]:
    own = f"v:{world.terms['lies']}"
    return f"{own}|^v:{world.terms['holds']}", own


def _carriers_of_region(world: MadeUpWorld, region: int) -> Draft:
    name = world.regions[region]
    both = (carrier_rows(world, in_region(world, region, whole=whole)) for whole in _SIDES)
    return drafted(world, f"What is in {name}?", lambda lies: f"?x {lies} {thing(name)}", _lies(world), *both)


def _names_of_kind_in_region(world: MadeUpWorld, region: int, role: str) -> Draft:
    name, found = world.regions[region], set(of_kind(world, role))
    question = f"What are the names of the {world.labels[role]}s in {name}?"
    head = f"{typed(world, '?x', role)} ; v:{world.terms['called']} ?n"
    places = (found & set(in_region(world, region, whole=whole)) for whole in _SIDES)
    both = (name_rows(world.carriers[at].name for at in each) for each in places)
    return drafted(world, question, lambda lies: f"{head} ; {lies} {thing(name)}", _lies(world), *both, asked="?n")


def _posts_watched_from_region(world: MadeUpWorld, region: int, post_role: str) -> Draft:
    name = world.regions[region]
    question = f"Which {world.labels[post_role]}s are watched over from {name}?"
    head = f"{typed(world, '?x', post_role)} . {world.watch('?c', '?x')}"

    def found(*, whole: bool) -> set[str]:
        watched = {world.carriers[at].watches for at in in_region(world, region, whole=whole)}
        return {world.posts[at].name for at in posts_of_kind(world, post_role) if at in watched}

    both = (thing_rows(world, found(whole=whole)) for whole in _SIDES)
    return drafted(
        world, question, lambda lies: f"{head} . ?c {lies} {thing(name)}", _lies(world), *both, asked="DISTINCT ?x"
    )


def _heavy_in_region(world: MadeUpWorld, region: int, weight: int) -> Draft:
    name, more = world.regions[region], f"v:{world.terms['empty']} ?w FILTER(?w > {weight})"
    question = f"What is in {name} and weighs more than {weight} {world.unit}s by itself?"
    heavy = {at for at, each in enumerate(world.carriers) if each.empty > weight}
    both = (carrier_rows(world, heavy.intersection(in_region(world, region, whole=whole))) for whole in _SIDES)
    return drafted(world, question, lambda lies: f"?x {lies} {thing(name)} ; {more}", _lies(world), *both)


def _number_of_kind_in_region(world: MadeUpWorld, region: int, role: str) -> Draft:
    name, kind, every = world.regions[region], typed(world, "?x", role), set(of_kind(world, role))
    question = f"How many {world.labels[role]}s are in {name}?"
    both = (number_row(len(every.intersection(in_region(world, region, whole=whole)))) for whole in _SIDES)
    return drafted(world, question, lambda lies: f"{kind} ; {lies} {thing(name)}", _lies(world), *both, asked=COUNT)


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
