"""Generated ontologies: a world of made-up terms with planted traps, and its statements in Turtle.

Carriers of some kinds watch over posts, lie in regions, face each other, and are tended by people. The traps:

- superclasses: nothing is typed with a class that has subclasses;
- one-way inverses: of `watches` and its declared inverse, the data hold one;
- both sides: a carrier names its region, or the region names it;
- written once: `faces` holds both ways, each pair is there once;
- look-alikes: two weights, with names that differ by a letter;
- nodes between: who tended a carrier is in nodes of their own; a shortcut names the last one, of some carriers.

Everything follows from the seed and the size. The words are made up; what they mean stands in `rdfs:comment`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

import msgspec

LEAVES = ("small", "tall", "round", "flat")
"""Roles of the classes that carriers are typed with; the first two are kinds of `middle`."""
POSTS = ("near", "far", "deep")
"""Roles of the classes that posts are typed with."""
_CLASSES = ("carrier", "middle", *LEAVES, "post", *POSTS, "person", "stay", "region")
_PROPERTIES = (
    "called", "watches", "watched_by", "lies", "holds", "faces", "empty", "loaded", "tended", "of", "who", "since",
    "until",
)  # fmt: skip
_FIRST_YEAR, _YEARS = 1400, 400


class Carrier(NamedTuple):
    """A thing with two weights, typed by the role of its class, in the region of that index."""

    name: str
    kind: str
    region: int
    names_region: bool
    """Whether the statement about the region is the carrier's own; otherwise it is the region's."""
    empty: int
    loaded: int
    watches: int | None
    """The index of the post that it watches over."""


class Post(NamedTuple):
    """A thing that may be watched over."""

    name: str
    kind: str


class Stay(NamedTuple):
    """The years, both included, in which a person tended a carrier; both by index."""

    carrier: int
    person: int
    since: int
    until: int


class MadeUpWorld(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is so, whatever it is called in RDF; things are named by index."""

    id: str
    namespace: str
    terms: Mapping[str, str]
    """The local name of each class and property by its role."""
    labels: Mapping[str, str]
    unit: str
    carriers: tuple[Carrier, ...]
    posts: tuple[Post, ...]
    people: tuple[str, ...]
    regions: tuple[str, ...]
    faces: tuple[tuple[int, int], ...]
    stays: tuple[Stay, ...]
    turned: bool = False
    """Whether the data hold `watched_by` instead of `watches`."""
    has_middle: bool = True

    def watch(self, carrier: str, post: str) -> str:
        """Return the pattern of a carrier that watches over a post, as the data hold it."""
        if self.turned:
            return f"{post} v:{self.terms['watched_by']} {carrier}"
        return f"{carrier} v:{self.terms['watches']} {post}"

    def unheld_watch(self, carrier: str, post: str) -> str:
        """Return the pattern by the inverse, of which there are no statements."""
        return msgspec.structs.replace(self, turned=not self.turned).watch(carrier, post)


def make_world(seed: int, size: int) -> MadeUpWorld:
    """Return the world of a seed. `size` is its number of carriers; there are half as many posts and a third people."""
    random = Random(f"rbank-es world {seed}")
    words = MadeUpWords(random)
    home = words.word()
    labels = {role: words.word() for role in _CLASSES + _PROPERTIES}
    terms = {role: labels[role].capitalize() if role in _CLASSES else labels[role] for role in labels}
    stem = words.word()
    # The look-alikes: one stem, with endings that differ by a letter.
    terms |= {"empty": f"{stem}an", "loaded": f"{stem}en"}
    labels |= {"empty": terms["empty"], "loaded": terms["loaded"]}
    # About two carriers for each post, ten for each region and three for each person.
    posts = tuple(Post(words.name(), random.choice(POSTS)) for _ in range(max(8, size // 2)))
    regions = tuple(words.name() for _ in range(max(4, size // 10)))
    people = tuple(words.name() for _ in range(max(6, size // 3)))
    carriers = _carriers(random, words, size, len(regions), len(posts))
    return MadeUpWorld(
        id=f"generated-{seed}",
        namespace=f"https://{home}.example/",
        terms=terms,
        labels=labels,
        unit=words.word(),
        carriers=carriers,
        posts=posts,
        people=people,
        regions=regions,
        faces=_faces(random, size),
        stays=tuple(_stays(random, size, len(people))),
    )


def _carriers(random: Random, words: MadeUpWords, size: int, regions: int, posts: int) -> tuple[Carrier, ...]:
    # No weight twice, so that no heaviest one is tied with another.
    weights = random.sample(range(100, 100 + 20 * size), 2 * size)
    pairs = [sorted(weights[at : at + 2]) for at in range(0, 2 * size, 2)]
    return tuple(
        Carrier(
            name=words.name(),
            kind=random.choice(LEAVES),
            region=random.randrange(regions),
            names_region=random.random() < 0.5,
            empty=pairs[at][0],
            loaded=pairs[at][1],
            watches=random.randrange(posts) if random.random() < 0.7 else None,
        )
        for at in range(size)
    )


def _faces(random: Random, size: int) -> tuple[tuple[int, int], ...]:
    found = dict[frozenset[int], tuple[int, int]]()
    for _ in range(size):
        pair = (random.randrange(size), random.randrange(size))
        if pair[0] != pair[1]:
            # Written once, in the direction that was drawn first: `faces` holds both ways.
            found.setdefault(frozenset(pair), pair)
    return tuple(found.values())


def _stays(random: Random, size: int, people: int) -> Iterator[Stay]:
    for carrier in range(size):
        # Up to three people for each carrier, one after the other or together.
        for person in random.sample(range(people), random.randrange(4)):
            since = _FIRST_YEAR + random.randrange(_YEARS)
            yield Stay(carrier, person, since, since + 1 + random.randrange(40))


# ---------------------------------------------------------------- Turtle


def turtle(world: MadeUpWorld) -> str:
    """Return a world as Turtle: the same text for the same world."""
    head = [
        f"# Made up by rbank-es: {world.id}. Nothing in it is real.",
        f"@prefix v: <{world.namespace}ns#> .",
        f"@prefix t: <{world.namespace}thing/> .",
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .",
        "",
        f"<{world.namespace}ns> a owl:Ontology .",
    ]
    parts = [head, _classes(world), _properties(world), _places(world), _carrier_lines(world), _stay_lines(world)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def thing(name: str) -> str:
    """Return the prefixed name of a thing by what it is called."""
    return f"t:{name.lower()}"


def _classes(world: MadeUpWorld) -> list[str]:
    said, plural = world.labels, {role: f"{word}s" for role, word in world.labels.items()}
    about = {
        "carrier": "Anything that carries a load.",
        "middle": f"A kind of {said['carrier']}.",
        "post": f"A place that {plural['carrier']} watch over.",
        "person": f"A person who tends {plural['carrier']}.",
        "stay": f"One person's years with one {said['carrier']}.",
        "region": f"A region, with {plural['carrier']} in it.",
        **{role: f"A kind of {said['middle' if role in LEAVES[:2] else 'carrier']}." for role in LEAVES},
        **{role: f"A kind of {said['post']}." for role in POSTS},
    }
    parents = {"middle": "carrier", **dict.fromkeys(LEAVES, "carrier"), **dict.fromkeys(POSTS, "post")}
    if world.has_middle:
        parents |= dict.fromkeys(LEAVES[:2], "middle")
    else:
        del about["middle"]
        about |= {role: f"A kind of {said['carrier']}." for role in LEAVES[:2]}
    return [
        f"v:{world.terms[role]} a owl:Class ; rdfs:label {_text(said[role])} ; rdfs:comment {_text(about[role])}"
        + (f" ; rdfs:subClassOf v:{world.terms[parents[role]]} ." if role in parents else " .")
        for role in _CLASSES
        if role in about
    ]


def _properties(world: MadeUpWorld) -> list[str]:
    carrier, post, stay = (world.labels[role] for role in ("carrier", "post", "stay"))
    about = {
        "called": ("What a thing is called.", "", ""),
        "watches": (f"The {post} that a {carrier} watches over.", "carrier", "post"),
        "watched_by": (f"The {carrier} that watches over a {post}.", "post", "carrier"),
        "lies": (f"The region that a {carrier} is in.", "carrier", "region"),
        "holds": (f"A {carrier} that is in a region.", "region", "carrier"),
        "faces": (f"Two {carrier}s that face each other; each pair is written down once.", "carrier", "carrier"),
        "empty": (f"The weight of a {carrier} by itself, in {world.unit}s.", "carrier", ""),
        "loaded": (f"The weight of a {carrier} with its load, in {world.unit}s.", "carrier", ""),
        "tended": (f"The last person who tended a {carrier}, of some {carrier}s.", "carrier", "person"),
        "of": (f"The {carrier} that a {stay} is about.", "stay", "carrier"),
        "who": (f"The person whose {stay} it is.", "stay", "person"),
        "since": (f"The first year of a {stay}.", "stay", ""),
        "until": (f"The last year of a {stay}.", "stay", ""),
    }
    more = {"watched_by": "watches", "holds": "lies"}
    lines = []
    for role in _PROPERTIES:
        words, domain, range = about[role]
        kind = "owl:ObjectProperty" if range else "owl:DatatypeProperty"
        line = f"v:{world.terms[role]} a {kind}" + (" , owl:SymmetricProperty" if role == "faces" else "")
        line += f" ; rdfs:label {_text(world.labels[role])} ; rdfs:comment {_text(words)}"
        line += f" ; rdfs:domain v:{world.terms[domain]}" if domain else ""
        line += f" ; rdfs:range v:{world.terms[range]}" if range else ""
        line += f" ; owl:inverseOf v:{world.terms[more[role]]}" if role in more else ""
        lines.append(line + " .")
    return lines


def _places(world: MadeUpWorld) -> list[str]:
    v, called = world.terms, world.terms["called"]
    lines = [f"{thing(each.name)} a v:{v[each.kind]} ; v:{called} {_text(each.name)} ." for each in world.posts]
    lines += [f"{thing(name)} a v:{v['person']} ; v:{called} {_text(name)} ." for name in world.people]
    for at, name in enumerate(world.regions):
        held = [thing(each.name) for each in world.carriers if each.region == at and not each.names_region]
        holds = f" ; v:{v['holds']} {' , '.join(held)}" if held else ""
        lines.append(f"{thing(name)} a v:{v['region']} ; v:{called} {_text(name)}{holds} .")
    return lines


def _carrier_lines(world: MadeUpWorld) -> list[str]:
    v, shortcuts, faced = world.terms, _shortcuts(world), defaultdict[int, list[int]](list)
    for one, other in sorted(world.faces):
        faced[one].append(other)
    lines = []
    for at, each in enumerate(world.carriers):
        me = thing(each.name)
        parts = [f"{me} a v:{v[each.kind]}", f"v:{v['called']} {_text(each.name)}"]
        parts += [f"v:{v['empty']} {each.empty}", f"v:{v['loaded']} {each.loaded}"]
        if each.names_region:
            parts.append(f"v:{v['lies']} {thing(world.regions[each.region])}")
        parts += [f"v:{v['faces']} {thing(world.carriers[other].name)}" for other in faced[at]]
        if at in shortcuts:
            parts.append(f"v:{v['tended']} {thing(world.people[shortcuts[at]])}")
        lines.append(" ; ".join(parts) + " .")
        if each.watches is not None:
            lines.append(world.watch(me, thing(world.posts[each.watches].name)) + " .")
    return lines


def _shortcuts(world: MadeUpWorld) -> Mapping[int, int]:
    """Return the person that the shortcut names, of some carriers: the last one who tended it."""
    last: dict[int, Stay] = {}
    for stay in world.stays:
        if stay.carrier not in last or stay.until > last[stay.carrier].until:
            last[stay.carrier] = stay
    return {carrier: stay.person for carrier, stay in last.items() if carrier % 3 == 0}


def _stay_lines(world: MadeUpWorld) -> list[str]:
    v = world.terms
    return [
        f"[] a v:{v['stay']} ; v:{v['of']} {thing(world.carriers[each.carrier].name)} ; "
        f"v:{v['who']} {thing(world.people[each.person])} ; v:{v['since']} {each.since} ; v:{v['until']} {each.until} ."
        for each in world.stays
    ]


def _text(words: str) -> str:
    return f'"{words}"'


_ONSETS = (
    "bl", "br", "d", "dr", "f", "fl", "g", "gl", "gr", "h", "j", "k", "kl", "kr", "l", "m", "n", "p", "pl", "pr", "r",
    "sk", "sl", "sm", "sn", "sp", "st", "t", "tr", "v", "vl", "w", "z", "zw",
)  # fmt: skip
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = (
    "b", "d", "f", "g", "k", "l", "lb", "ld", "lk", "lm", "lp", "lt", "m", "mp", "n", "nd", "nk", "nt", "p", "r", "rb",
    "rd", "rg", "rk", "rm", "rn", "rp", "rt", "v",
)  # fmt: skip
"""Neither `s` nor a letter like it, so that `s` makes the plural of every word and of none a third word."""


class MadeUpWords:
    """Words of which none comes twice; the same ones for the same random source."""

    def __init__(self, random: Random) -> None:
        self._random, self._taken = random, set[str]()

    def word(self, syllables: int = 2) -> str:
        """Return a new word, in lower case."""
        while True:
            made = "".join(
                self._random.choice(_ONSETS) + self._random.choice(_VOWELS) + self._random.choice(_CODAS)
                for _ in range(syllables)
            )
            if made not in self._taken:
                self._taken.add(made)
                return made

    def name(self) -> str:
        """Return a new word of three syllables that begins with a capital: what a thing is called."""
        return self.word(3).capitalize()
