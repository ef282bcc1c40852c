"""Hints for a query that failed: checks of spelling, subclasses and directions, as far as the ontology shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from rbank_es import limits
from rbank_es.ontology.prefixes import WELL_KNOWN, Prefixes
from rbank_es.ontology.rdf_names import SUBCLASS
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.tools.memory.generalised_query import GeneralisedQuery, Terms

_BY_FAULT = {
    "it took too long": "bind what is known first; leave no predicate open, and compare no texts over all the data",
    "it was too large": "ask for fewer columns and rows, or count first",
    "it could not be parsed": "every bracket and quote closed, a full stop between triples, every prefix declared",
    "it is not allowed": "read-only forms without SERVICE, on the graphs that are loaded",
    "its answer was wrong": "rows that repeat (DISTINCT), optional parts that multiply them, what is counted",
}


def checks(pattern: GeneralisedQuery, terms: Terms, fault: str, prefixes: Mapping[str, str]) -> Iterator[str]:
    """Yield checks, the most telling first."""
    for name in pattern.unknown[: limits.NAMES_LISTED]:
        yield f"the prefix of {name} is not known"
    if terms.classes or terms.properties:
        own = {**pattern.prefixes, **prefixes}
        others = {prefix: space for prefix, space in WELL_KNOWN.items() if space not in own.values()}
        check = _PatternCheck(pattern, terms, Prefixes({**others, **own}).shorten)
        yield from check.spelling()
        # Without counts of instances, unused terms look like those that nobody counted.
        if any(each.instances for each in terms.schema.classes):
            yield from check.subclasses()
            yield from check.unused()
        yield from check.directions()
    if fault in _BY_FAULT:
        yield _BY_FAULT[fault]
    if pattern.given and fault == "it found nothing":
        yield "values as the data spell them: case, language tag, datatype; or CONTAINS(LCASE(STR(?x)), …)"
    yield "a real example of each step, by sparql_peek, before the whole query"


class _PatternCheck:
    """One pattern compared with the ontology."""

    def __init__(self, pattern: GeneralisedQuery, terms: Terms, shorten: Callable[[str], str]) -> None:
        self._pattern = pattern
        self._terms = terms
        self._shorten = shorten
        self._vocabulary = Vocabulary.from_schema(terms.schema)

    def spelling(self) -> Iterator[str]:
        """Yield a check for each term that the ontology doesn't have."""
        for iri in self._pattern.classes:
            if not self._vocabulary.knows_class(iri):
                yield self._unknown(iri, self._vocabulary.nearest(iri, "class", limits.NEAREST_NAMES))
        for iri in self._pattern.properties:
            if not self._vocabulary.knows_property(iri):
                yield self._unknown(iri, self._vocabulary.nearest(iri, "property", limits.NEAREST_NAMES))

    def subclasses(self) -> Iterator[str]:
        """Yield a check for each class of which only subclasses have instances."""
        if self._shorten(SUBCLASS) in self._pattern.text:
            return
        for iri in self._pattern.classes:
            known = self._terms.classes.get(iri)
            if known is None or known.instances != 0:
                continue
            below = [each.iri for each in self._terms.schema.classes if iri in each.parents]
            if below:
                path = f"a/{self._shorten(SUBCLASS)}*"
                yield f"nothing is typed {self._shorten(iri)} itself, but perhaps {self._names(below)}: ask by {path}"
            else:
                yield f"nothing is typed {self._shorten(iri)}"

    def unused(self) -> Iterator[str]:
        """Yield a check for each property that the data don't use."""
        for iri in self._pattern.properties:
            known = self._terms.properties.get(iri)
            if known is not None and known.triples == 0:
                used = [each for each in known.inverses if self._is_used(each)]
                instead = f"; its inverse {self._names(used)} is used, so turn the triple round" if used else ""
                yield f"no triple has {self._shorten(iri)}{instead}"

    def directions(self) -> Iterator[str]:
        """Yield the classes between which each property leads."""
        for iri in self._pattern.properties:
            if leads := self._leads(iri):
                yield f"{self._shorten(iri)} leads from {leads}"

    def _leads(self, iri: str) -> str:
        """Return the classes between which the data have a property, else those that are declared."""
        links = [each for each in self._terms.schema.links if each.property == iri]
        if links:
            link = next((each for each in links if each.subject in self._pattern.classes), links[0])
            return f"{self._shorten(link.subject)} to {self._shorten(link.object)}"
        known = self._terms.properties.get(iri)
        if known is None or not (known.domains and known.ranges):
            return ""
        return f"{self._names(each.iri for each in known.domains)} to {self._names(each.iri for each in known.ranges)}"

    def _is_used(self, iri: str) -> bool:
        return iri in self._terms.properties and bool(self._terms.properties[iri].triples)

    def _unknown(self, iri: str, near: Iterable[str]) -> str:
        nearest = self._names(near)
        return f"{self._shorten(iri)} is not in the ontology{f'; near it: {nearest}' if nearest else ''}"

    def _names(self, iris: Iterable[str]) -> str:
        return ", ".join([self._shorten(iri) for iri in iris][: limits.NAMES_LISTED])
