"""Templates of generated tasks about classes, inverses and regions: a query for each trap and level."""

from __future__ import annotations

from rbank_es.lab.generated_ontology import LEAVES, POSTS, MadeUpWorld, thing
from rbank_es.lab.template_parts import (
    COUNT,
    Draft,
    Template,
    combined,
    drafted,
    each_class,
    each_of,
    each_person,
    each_post,
    each_region,
    each_weight,
    is_a,
    lies,
    typed,
)

# ---------------------------------------------------------------- superclasses


def _kinds(world: MadeUpWorld, role: str) -> tuple[str, str]:
    return is_a(world, "?x", role), typed(world, "?x", role)


def _instances(world: MadeUpWorld, role: str) -> Draft:
    return drafted(world, f"Which {world.labels[role]}s are there?", str, _kinds(world, role))


def _watching_instances(world: MadeUpWorld, role: str, post: int) -> Draft:
    name = world.posts[post].name
    question = f"Which {world.labels[role]}s watch over {name}?"
    watch = world.watch("?x", thing(name))
    return drafted(world, question, lambda kind: f"{kind} . {watch}", _kinds(world, role))


def _tended_instances(world: MadeUpWorld, role: str, person: int) -> Draft:
    v, name = world.terms, world.people[person]
    question = f"What are the names of the {world.labels[role]}s that {name} has tended?"
    more = f"?s v:{v['of']} ?x ; v:{v['who']} {thing(name)} . ?x v:{v['called']} ?n"
    return drafted(world, question, lambda kind: f"{kind} . {more}", _kinds(world, role), asked="DISTINCT ?n")


def _heavy_instances(world: MadeUpWorld, role: str, weight: int) -> Draft:
    question = f"Which {world.labels[role]}s weigh more than {weight} {world.unit}s by themselves?"
    more = f"?x v:{world.terms['empty']} ?w FILTER(?w > {weight})"
    return drafted(world, question, lambda kind: f"{kind} . {more}", _kinds(world, role))


def _instances_in_region(world: MadeUpWorld, role: str, region: int) -> Draft:
    question = f"How many {world.labels[role]}s does {world.regions[region]} have?"
    more = f"?x {lies(world)[0]} {thing(world.regions[region])}"
    return drafted(world, question, lambda kind: f"{kind} . {more}", _kinds(world, role), asked=COUNT)


# ---------------------------------------------------------------- one-way inverses


def _watches(world: MadeUpWorld, carrier: str, post: str) -> tuple[str, str]:
    return world.watch(carrier, post), world.unheld_watch(carrier, post)


def _watchers_of(world: MadeUpWorld, post: int) -> Draft:
    name = world.posts[post].name
    return drafted(world, f"What watches over {name}?", str, _watches(world, "?x", thing(name)))


def _names_of_watchers(world: MadeUpWorld, post: int) -> Draft:
    name, called = world.posts[post].name, f"?x v:{world.terms['called']} ?n"
    question = f"What are the names of the {world.labels['carrier']}s that watch over {name}?"
    return drafted(world, question, lambda watch: f"{watch} . {called}", _watches(world, "?x", thing(name)), asked="?n")


def _posts_watched_by_kind(world: MadeUpWorld, role: str, post_role: str) -> Draft:
    question = f"Which {world.labels[post_role]}s does a {world.labels[role]} watch over?"
    kinds = f"{typed(world, '?x', post_role)} . {typed(world, '?c', role)}"
    parts = _watches(world, "?c", "?x")
    return drafted(world, question, lambda watch: f"{kinds} . {watch}", parts, asked="DISTINCT ?x")


def _posts_without_heavy_watchers(world: MadeUpWorld, post_role: str, weight: int) -> Draft:
    def body(watch: str) -> str:
        heavy = f"{watch} . ?c v:{world.terms['empty']} ?w FILTER(?w > {weight})"
        return f"{typed(world, '?x', post_role)} FILTER NOT EXISTS {{ {heavy} }}"

    question = (
        f"Which {world.labels[post_role]}s does nothing watch over that weighs more than {weight} {world.unit}s by "
        "itself?"
    )
    return drafted(world, question, body, _watches(world, "?c", "?x"))


def _number_of_watched_posts(world: MadeUpWorld, post_role: str, role: str) -> Draft:
    question = f"How many {world.labels[post_role]}s have a {world.labels[role]} that watches over them?"
    kinds = f"{typed(world, '?x', post_role)} . {is_a(world, '?c', role)}"
    return drafted(world, question, lambda watch: f"{kinds} . {watch}", _watches(world, "?c", "?x"), asked=COUNT)


# ---------------------------------------------------------------- both sides


def _carriers_of_region(world: MadeUpWorld, region: int) -> Draft:
    name = world.regions[region]
    return drafted(world, f"What is in {name}?", lambda path: f"?x {path} {thing(name)}", lies(world))


def _names_of_kind_in_region(world: MadeUpWorld, region: int, role: str) -> Draft:
    name = world.regions[region]
    question = f"What are the names of the {world.labels[role]}s in {name}?"
    head = f"{typed(world, '?x', role)} ; v:{world.terms['called']} ?n"
    return drafted(world, question, lambda path: f"{head} ; {path} {thing(name)}", lies(world), asked="?n")


def _posts_watched_from_region(world: MadeUpWorld, region: int, post_role: str) -> Draft:
    name = world.regions[region]
    question = f"Which {world.labels[post_role]}s are watched over from {name}?"
    head = f"{typed(world, '?x', post_role)} . {world.watch('?c', '?x')}"
    return drafted(world, question, lambda path: f"{head} . ?c {path} {thing(name)}", lies(world), asked="DISTINCT ?x")


def _heavy_in_region(world: MadeUpWorld, region: int, weight: int) -> Draft:
    name, more = world.regions[region], f"v:{world.terms['empty']} ?w FILTER(?w > {weight})"
    question = f"What is in {name} and weighs more than {weight} {world.unit}s by itself?"
    return drafted(world, question, lambda path: f"?x {path} {thing(name)} ; {more}", lies(world))


def _number_of_kind_in_region(world: MadeUpWorld, region: int, role: str) -> Draft:
    name, kind = world.regions[region], typed(world, "?x", role)
    question = f"How many {world.labels[role]}s are in {name}?"
    return drafted(world, question, lambda path: f"{kind} ; {path} {thing(name)}", lies(world), asked=COUNT)


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
