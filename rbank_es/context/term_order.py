"""The ranking of an ontology's terms: their order and names, those of a task, those of successful queries.

Classes with instances among the data come first, ranked by their uses in data and schema. The others are ranked by
degree (the number of properties that name them as domain or range) cubed, times one more than their subclasses.
Measured on real ontologies, degree alone and its square times the subclasses did as well as any; subclasses alone did
badly. Classes of a foreign taxonomy that repeat the graph's own (`ClassInfo.echoes`) come last.

Properties are ranked by triples of the data, if there are any (VoID's counts did worse than none). Otherwise they are
ranked by the number of core classes that they connect, divided by the number of their domains, because a property of
all classes says little. Among equals, the most mentioned property of each pair of classes comes first, because
different paths should precede variants of one path. Raw numbers of triples would put annotations first.

Without data, the triples of the schema are what there is to ask about: the properties that lead from one of its terms
to another (subClassOf, domainIncludes) are ranked apart, by their number of such triples.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import Prefixes, local_name
from rbank_es.ontology.schema_model import ClassInfo, Link, PropertyInfo, Schema
from rbank_es.text.spelled_words import name_words, spelled
from rbank_es.text.stems import is_light, language_of, stems_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank


CORE_CLASSES = 12
"""Classes that count as core for ranking properties (source: the number that coverage was measured with)."""

_PLUMBING = rdf_names.within(rdf_names.RDF, "type first rest subject predicate object List")
_FORMAL = (*rdf_names.FORMAL, rdf_names.XSD)
_NAMING_TERMS = 24
"""Classes, and properties, that vote for the main namespace if there are data: the top ones, because the many unused
terms of an upper ontology would outvote those that a person uses."""

Info = TypeVar("Info", ClassInfo, PropertyInfo)


class RankedNames:
    """The written names of terms: without a prefix in the namespace that most of the given IRIs share."""

    def __init__(self, prefixes: Prefixes, iris: Iterable[str]) -> None:
        self._prefixes = prefixes
        shorts = [prefixes.shorten(iri) for iri in iris]
        counts = Counter(short.partition(":")[0] for short in shorts if not short.startswith("<"))
        self.prefix = min(counts, key=lambda prefix: (-counts[prefix], prefix), default="")
        self.namespace = prefixes[self.prefix] if self.prefix else ""
        self._names: dict[str, str] = {}

    def name(self, iri: str) -> str:
        """Return a term on one line: `Room`, `soda:vav_C180`, `<http://…>`."""
        if iri not in self._names:
            short = _spelled(self._prefixes.shorten(iri))
            self._names[iri] = short.removeprefix(f"{self.prefix}:") if self.prefix else short
        return self._names[iri]


def _spelled(name: str) -> str:
    """Return a name with characters that nobody sees as SPARQL's escapes, so that a query with it means this term."""
    if name.isprintable():
        return name
    return "".join(
        char if char.isprintable() else f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"
        for char in name
    )


class RankedTerms:
    """The terms of a schema in order of importance; `observed` terms come first, in their own order."""

    def __init__(self, schema: Schema, prefixes: Mapping[str, str], observed: Sequence[str] = ()) -> None:
        self.schema = schema
        self.prefixes = prefixes if isinstance(prefixes, Prefixes) else Prefixes(prefixes)
        self._unspoken = {*schema.label_properties, *schema.definition_properties, *rdf_names.ANNOTATIONS, *_PLUMBING}
        self._links: dict[str, list[Link]] = defaultdict(list)
        echoes = {info.iri for info in schema.classes if info.echoes}
        for link in schema.links:
            if link.subject not in echoes and link.object not in echoes:
                self._links[link.property].append(link)
        self._users: dict[str, list[str]] = defaultdict(list)
        for use in sorted(schema.typed_uses, key=lambda use: (-use.uses, use.cls)):
            if use.cls not in echoes:
                self._users[use.property].append(use.cls)
        self._parents = {info.iri: info.parents for info in schema.classes}
        self._by_iri = {info.iri: info for info in schema.properties}
        self._declares = any(info.declared for info in schema.classes if not info.iri.startswith(rdf_names.SH))
        # Cached, because ranking asks for the same bounds and superclasses once for each comparison.
        self._found_bounds: dict[tuple[str, str], list[str]] = {}
        self._ancestors: dict[str, set[str]] = {}
        self.traffic = self._traffic()
        # Numbered from the end: the best gets the largest number, and a term without one counts 0.
        first = {iri: place for place, iri in enumerate(reversed(observed), 1)}
        self.classes = self._classes(first)
        # Properties are ranked after classes, because their rank depends on the core classes.
        self.core = tuple(info.iri for info in self.classes[:CORE_CLASSES])
        self.properties = self._properties(first)
        self.terms: tuple[ClassInfo | PropertyInfo, ...] = (*self.classes, *self.properties)
        self.unspoken = self._others()
        self.between_terms = self._between_terms()
        iris = [info.iri for info in self.terms if info.iri not in echoes]
        if self.has_data:
            iris = [info.iri for info in self.classes[:_NAMING_TERMS] if not info.echoes]
            iris += [info.iri for info in self.properties[:_NAMING_TERMS]]
        self.naming = RankedNames(self.prefixes, iris)

    def links_of(self, iri: str) -> list[Link]:
        """Return the steps of a property in the data, the commonest first."""
        links = self._links.get(iri, ())
        return sorted(links, key=lambda link: (-link.uses, link.subject, link.object))

    def users_of(self, iri: str) -> list[str]:
        """Return the classes whose instances have a property, the commonest first."""
        return self._users.get(iri, [])

    @property
    def has_instances(self) -> bool:
        """Whether anything is an instance, as far as that is known."""
        return bool(self.schema.individuals) or any(info.instances for info in self.schema.classes)

    @property
    def has_data(self) -> bool:
        """Whether any class has instances beside those that belong to the vocabulary."""
        return any(map(self.in_data, self.schema.classes))

    def in_data(self, info: ClassInfo | PropertyInfo) -> int:
        """Return the instances of a class, or the triples with a property, that aren't about parts of the vocabulary.

        Shapes and rules in SHACL are parts of it where the graph declares classes of its own; reports of a validation
        are data.
        """
        if self._declares and info.iri.startswith(rdf_names.SH) and info.iri not in rdf_names.SHACL_REPORTS:
            return 0
        number = info.instances if isinstance(info, ClassInfo) else info.triples
        return (number or 0) - info.listed

    def steps(self, domains: Sequence[str], ranges: Sequence[str], shown: int, *, others: bool = False) -> str:
        """Return `A|B→C` with at most `shown` classes on either side; empty if neither is known.

        `others` says that it starts from things without a class, too: `A|…→C`.
        """
        starts, ends = self._side(domains, shown, more=others), self._side(ranges, shown)
        if starts == ends and len(domains) > 1:
            ends = "same"
        return f"{starts or 'any'}→{ends or 'any'}" if starts or ends else ""

    def _side(self, classes: Sequence[str], shown: int, *, more: bool = False) -> str:
        names = "|".join(map(self.naming.name, classes[:shown]))
        return f"{names}|…" if names and (more or len(classes) > shown) else names

    def in_core_order(self, iris: Collection[str]) -> list[str]:
        """Return the IRIs of classes, core ones first, then by name."""
        return sorted(iris, key=lambda iri: (self.core.index(iri) if iri in self.core else CORE_CLASSES, iri))

    def domains(self, info: PropertyInfo) -> list[str]:
        """Return the most general classes in the domain of a property or, without one, of its superproperties."""
        return self._bounds(info, "domains")

    def ranges(self, info: PropertyInfo) -> list[str]:
        """Return the most general classes and datatypes in its range, likewise."""
        return self._bounds(info, "ranges")

    def _bounds(self, info: PropertyInfo, side: Literal["domains", "ranges"]) -> list[str]:
        key = (info.iri, side)
        if key not in self._found_bounds:
            self._found_bounds[key] = self._find_bounds(info, side)
        return self._found_bounds[key]

    def _find_bounds(self, info: PropertyInfo, side: Literal["domains", "ranges"]) -> list[str]:
        seen, generation = {info.iri}, [info]
        while generation:
            found = {bound.iri for one in generation for bound in getattr(one, side)} - rdf_names.ANYTHING
            if found:
                general = [iri for iri in found if not found & self._above(iri)] if len(found) > 1 else []
                return self.in_core_order(general or found)  # because classes in a circle are all above each other
            # Generation by generation, so that the nearest superproperty with a bound counts.
            parents = sorted({iri for one in generation for iri in one.parents} - seen)
            seen.update(parents)
            generation = [self._by_iri[iri] for iri in parents if iri in self._by_iri]
        return []

    def _above(self, iri: str) -> set[str]:
        if iri not in self._ancestors:
            self._ancestors[iri] = reachable(iri, self._parents, limits.CARD_SUBCLASSES)
        return self._ancestors[iri]

    def _traffic(self) -> Counter[str]:
        """Count the triples from and to instances of each class, labels and definitions excluded."""
        traffic: Counter[str] = Counter()
        for use in self.schema.typed_uses:
            traffic[use.cls] += 0 if use.property in self._unspoken else use.uses
        for link in self.schema.links:
            traffic[link.object] += 0 if link.property in self._unspoken else link.uses
        return traffic

    def _classes(self, observed: Mapping[str, int]) -> tuple[ClassInfo, ...]:
        spoken = [info for info in self.schema.classes if not _is_formal(info.iri, self.in_data(info))]
        children = children_of(self.schema)
        return _sorted(
            spoken or self.schema.classes,
            lambda info: (
                observed.get(info.iri, 0),
                not info.echoes,
                (1 + self.traffic[info.iri]) * (1 + info.degree) if self.in_data(info) and self.traffic else 0,
                not info.deprecated,
                info.degree and info.degree**3 * (1 + len(reachable(info.iri, children, limits.CARD_SUBCLASSES))),
                info.instances or 0,
                info.mentions,
            ),
        )

    def _properties(self, observed: Mapping[str, int]) -> tuple[PropertyInfo, ...]:
        spoken = [
            info
            for info in self.schema.properties
            if info.kind != "annotation"
            and info.iri not in self._unspoken
            and not _is_formal(info.iri, self.in_data(info))
        ]
        variants = self._variants(spoken)
        # VoID counts triples of whole partitions, which ranked worse than no counts.
        counted = not any(bound.source == "void" for info in spoken for bound in (*info.domains, *info.ranges))
        return _sorted(
            spoken,
            lambda info: (
                observed.get(info.iri, 0),
                self.in_data(info) if counted else 0,
                not info.deprecated,
                self._touch(info),
                -variants[info.iri],
                self._weight(info),
                info.triples or 0,
                info.mentions,
            ),
        )

    def _others(self) -> tuple[PropertyInfo, ...]:
        """Return the properties that only label, define or annotate."""
        spoken = {info.iri for info in self.properties}
        others = (info for info in self.schema.properties if info.iri not in spoken)
        return _sorted(
            (info for info in others if not _is_formal(info.iri, 0)),
            lambda info: (self.in_data(info), info.triples or 0),
        )

    def _between_terms(self) -> tuple[PropertyInfo, ...]:
        """Return the properties between terms of a schema, if there are no data beside it, most steps first."""
        if self.has_data:
            return ()
        between = (
            info for info in self.schema.properties if info.triples and info.steps and info.iri not in self._unspoken
        )
        return _sorted(between, lambda info: (info.steps, info.mentions))

    def _touch(self, info: PropertyInfo) -> int:
        """Return the core classes among domains and ranges over the number of domains; times 60, in integers."""
        domains, ranges = self.domains(info), self.ranges(info)
        touched = sum(iri in self.core for iri in (*domains, *ranges))
        return 60 * touched // max(len(domains), 1)

    def _weight(self, info: PropertyInfo) -> int:
        """Return the mean rank, on either side, of the core classes that a property touches; times 60."""
        weights = {iri: len(self.core) - place for place, iri in enumerate(self.core)}
        sides = (self.domains(info), self.ranges(info))
        return sum(60 * sum(weights.get(iri, 0) for iri in side) // len(side) for side in sides if side)

    def _variants(self, infos: Iterable[PropertyInfo]) -> dict[str, int]:
        """Return the place of each property among those between the same classes, the most mentioned first."""
        alike: dict[tuple[str, ...], list[PropertyInfo]] = defaultdict(list)
        for info in infos:
            alike[(*self.domains(info), "", *self.ranges(info))].append(info)
        ordered = (sorted(group, key=lambda info: (-info.mentions, info.iri)) for group in alike.values())
        return {info.iri: place for group in ordered for place, info in enumerate(group)}


def _is_formal(iri: str, in_data: int) -> bool:
    """Return whether a term only serves to write schemas here."""
    return iri in _PLUMBING or (iri.startswith(_FORMAL) and not in_data)


def _sorted(infos: Iterable[Info], worth: Callable[[Info], tuple[int, ...]]) -> tuple[Info, ...]:
    """Sort by worth, the highest first, then by IRI."""
    return tuple(sorted(infos, key=lambda info: (*(-part for part in worth(info)), info.iri)))


# ---------------------------------------------------------------- subclasses


EVERYTHING = (9, 10)
"""The part of all instances beyond which a class counts as one of everything."""


def children_of(schema: Schema) -> dict[str, list[str]]:
    """Return the direct subclasses of each class that has any."""
    children: dict[str, list[str]] = defaultdict(list)
    for info in schema.classes:
        for parent in info.parents:
            children[parent].append(info.iri)
    return children


class Hidden(NamedTuple):
    """A class, and the instances of its subclasses, which a plain query for it misses."""

    info: ClassInfo
    below: int


def hidden_instances(schema: Schema) -> list[Hidden]:
    """Return the classes with instances typed only with their subclasses, most of them first, then by IRI.

    Nothing is hidden in data that type each thing with all superclasses too. A class of nearly everything is left out,
    because it helps nobody to find anything.
    """
    data = sum((info.instances or 0) - info.listed for info in schema.classes)
    everything = data or sum(info.instances or 0 for info in schema.classes)
    useful = (
        Hidden(info, info.below)
        for info in schema.classes
        if info.below and EVERYTHING[1] * info.below <= EVERYTHING[0] * everything
    )
    return sorted(useful, key=lambda one: (-one.below, one.info.iri))


def reachable(iri: str, steps: Mapping[str, Collection[str]], most: int | None = None) -> set[str]:
    """Return the classes that any number of steps lead to, the first one excluded; about `most` of them."""
    found: set[str] = set()
    todo = [iri]
    while todo and (most is None or len(found) < most):
        for next_ in steps.get(todo.pop(), ()):
            if next_ not in found and next_ != iri:
                found.add(next_)
                todo.append(next_)
    return found


# ---------------------------------------------------------------- terms of queries and tasks


def observed_terms(
    bank: Bank, ontology: str, prefixes: Mapping[str, str] | None = None, point: str | int | None = None
) -> tuple[str, ...]:
    """Return the IRIs of the terms in the SPARQL that successful runs submitted, the most frequent first, then by IRI.

    A run counts if its standing verdict for learning is success; its score is never used. Queries that can't be parsed
    are skipped. Off by default: a card of it is no longer the schema's alone, so an experiment that switches layers on
    and off would measure two things at once.

    Args:
        bank: the bank; only read.
        ontology: id of the ontology, or of the endpoint, that the runs were about.
        prefixes: prefixes that queries may use undeclared, beside the well-known ones.
        point: a point in time; None means the head.

    Raises `BadPoint`.
    """
    counts: Counter[str] = Counter()
    with bank.as_of(point) as view:
        for run in view.rows("runs", verdict="success"):
            if run["sparql"] and ontology in (run["ontology"], run["endpoint"]):
                counts.update(_terms(run["sparql"], prefixes or {}))
    return tuple(sorted(counts, key=lambda iri: (-counts[iri], iri)))


def _terms(query: str, prefixes: Mapping[str, str]) -> set[str]:
    from rbank_es.ontology import rdf_names
    from rbank_es.sparql.parser.parsed_query import parse_query
    from rbank_es.sparql.parser.tree import uses

    try:
        parsed = parse_query(query, prefixes)
    except QueryRefused:
        return set()
    return {use.iri for use in uses(parsed.tree, whole=True)} - {rdf_names.TYPE}


_PREFIXED = re.compile(r":([^\W\d][\w-]*)")
_IDENTIFIER = re.compile(r"[^\W\d][\w-]*")
_QUESTION = frozenset(["list", "number", "return", "show", "find", "class", "properti"])
"""Stems of words that questions ask with, and seldom about."""
_NAME = "name"
"""A stop word of questions to a bank, and what many ontologies call a property."""

# More than any overlap of words: a term named by its IRI comes first.
_NAMED = 1_000


class TaskWords:
    """The words of a task, compared with those of terms."""

    def __init__(self, text: str) -> None:
        text = text[: limits.QUERY_CHARS]
        named = (word for word in _IDENTIFIER.findall(text) if word[1:].lower() != word[1:] or "_" in word)
        self._named = frozenset((*named, *_PREFIXED.findall(text)))
        self._language = language_of(spelled(text)) or "english"
        self._stems = self._stems_of(text) - _QUESTION

    def fit(self, iri: str, label: str = "") -> int:
        """Return how well a term fits: 0 not at all; most if the task names it, more with few other words."""
        if local_name(iri) in self._named:
            return _NAMED
        return max(self._overlap(words) for words in self._wordings(iri, label))

    def words_of(self, iri: str, label: str = "") -> frozenset[str]:
        """Return the words of the task that a term has, as stems."""
        return self._stems & frozenset().union(*self._wordings(iri, label))

    def best(self, terms: Iterable[tuple[str, str]], most: int) -> list[int]:
        """Return the places of the terms (IRI and label) that fit best, at most `most`; of equals, the first.

        A term whose words a better one has too comes last, so that more words of the task are covered.
        """
        given = list(terms)
        fits = [(self.fit(iri, label), -place) for place, (iri, label) in enumerate(given)]
        ordered = [-place for _, place in sorted((fit for fit in fits if fit[0]), reverse=True)]
        covered: set[str] = set()
        first: list[int] = []
        rest: list[int] = []
        for place in ordered:
            words = self.words_of(*given[place])
            (rest if words <= covered and self.fit(*given[place]) < _NAMED else first).append(place)
            covered |= words
        return [*first, *rest][:most]

    def _overlap(self, stems: frozenset[str]) -> int:
        common = len(stems & self._stems)
        return 100 * common * common // len(stems) if common else 0

    def _wordings(self, iri: str, label: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the stems of a term's name, and of its label."""
        return self._stems_of(local_name(iri)), self._stems_of(label)

    def _stems_of(self, text: str) -> frozenset[str]:
        stems = stems_of(self._language)
        told = (word for word in name_words(text) if word == _NAME or not is_light(word, self._language))
        return frozenset(stems[word] for word in told)
