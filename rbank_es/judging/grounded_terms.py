"""Grounding: the terms that a query and an answer name, and the check that the ontology or its data have them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryFailed
from rbank_es.ontology.prefixes import WELL_KNOWN, namespace_of
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.ontology.written_terms import written_terms
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset
from rbank_es.sparql.guard.names import uses
from rbank_es.sparql.parser.query import ParsedQuery
from rbank_es.sparql.results import Answer, Form
from rbank_es.sparql.source import Source, is_valid_iri, open_source, terms_in_data

_COMMON = ("rdf", "rdfs", "owl", "xsd", "skos")
"""Prefixes that an answer may use without declaring them; others must be those of the source or of its query."""


class Grounding(msgspec.Struct, frozen=True, kw_only=True):
    """The number of terms that a run named, and those that are unknown, each as it was written.

    `unknown_in_query` and `unknown_in_answer` exist nowhere; `unchecked` could not be looked up. `named_in_answer` is
    the number of terms in the answer.
    """

    terms: int
    unknown_in_query: tuple[str, ...] = ()
    unknown_in_answer: tuple[str, ...] = ()
    named_in_answer: int = 0
    unchecked: tuple[str, ...] = ()

    @property
    def grounded(self) -> bool:
        """Whether no term is known not to exist."""
        return not self.unknown_in_query and not self.unknown_in_answer

    @property
    def answer_share(self) -> float | None:
        """The share of the answer's terms that exist, 0 to 1; None if it names no term."""
        return 1 - len(self.unknown_in_answer) / self.named_in_answer if self.named_in_answer else None


def ground(query: ParsedQuery | None, answer: str, source: Source) -> Grounding:
    """Return which terms of a query, and which IRIs and prefixed names of an answer, exist in a source.

    Terms that the schema doesn't have are looked up in the data, by one query for at most `JUDGE_TERMS` terms. Without
    a query, or with one that can't be read (None), only the answer is searched. Never raises, whatever a run submitted.
    """
    in_query = terms_of(query) if query is not None else {}
    roles = {use.iri for use in uses(query.tree, whole=True)} if query is not None else set[str]()
    declared = query.tree.prefixes if query is not None else {}
    common = {prefix: WELL_KNOWN[prefix] for prefix in _COMMON}
    in_answer = written_terms(answer, {**common, **source.surroundings.prefixes, **declared})
    terms = {**in_answer, **in_query}
    unknown, unchecked = _unknown([*in_query, *in_answer], source)
    if is_bare(source):
        # A schema lists its own classes and properties, and can't tell whether an individual exists.
        ours = {namespace_of(iri) for iri in _terms_of_schema(source)}
        known = {iri for iri in unknown if iri in roles or (iri not in in_query and namespace_of(iri) in ours)}
        unknown, unchecked = frozenset(known), unchecked | (unknown - known)
    return Grounding(
        terms=len(terms),
        unknown_in_query=tuple(written for iri, written in in_query.items() if iri in unknown),
        unknown_in_answer=tuple(written for iri, written in in_answer.items() if iri in unknown),
        named_in_answer=len(in_answer),
        unchecked=tuple(terms[iri] for iri in terms if iri in unchecked),
    )


def is_bare(source: Source) -> bool:
    """Return whether a source is known to have no instances: an empty result proves nothing there."""
    return source.schema is not None and source.schema.individuals == 0 and not source.schema.concepts


def _terms_of_schema(source: Source) -> frozenset[str]:
    vocabulary = source.surroundings.vocabulary
    return frozenset({*vocabulary.classes, *vocabulary.properties}) if vocabulary is not None else frozenset()


def terms_of(query: ParsedQuery) -> dict[str, str]:
    """Return the IRIs that a query names as things, anywhere in it, each with its first spelling; in order.

    Left out are those of its prologue, datatypes, functions, and the graphs that it asks.
    """
    found: dict[str, str] = {}
    for token in query.words:
        iri = query.notes.iris.get(token.offset)
        if iri is not None and query.notes.roles.get(token.offset) not in ("datatype", "function", "graph"):
            found.setdefault(iri, token.text)
    return found


# ---------------------------------------------------------------- look-up


def _unknown(iris: Iterable[str], source: Source) -> tuple[frozenset[str], frozenset[str]]:
    """Return the IRIs that exist nowhere, and those that could not be looked up."""
    vocabulary = source.surroundings.vocabulary
    left = [iri for iri in dict.fromkeys(iris) if not (vocabulary and _in_schema(iri, vocabulary))]
    # Left out of the query, because a single invalid IRI would make the look-up of all others fail.
    unreadable = {iri for iri in left if not is_valid_iri(iri)}
    asked = [iri for iri in left if iri not in unreadable][: limits.JUDGE_TERMS]
    present = terms_in_data(asked, source)
    if present is None:
        return frozenset(unreadable), frozenset(left) - unreadable
    unasked = frozenset(left) - frozenset(asked) - unreadable
    return (frozenset(asked) - present) | unreadable, unasked


def _in_schema(iri: str, vocabulary: Vocabulary) -> bool:
    return vocabulary.knows_class(iri) or vocabulary.knows_property(iri)


# ---------------------------------------------------------------- a source that has only a description


class SilentEngine:
    """A query engine without data."""

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        """Raise `QueryFailed` with the code `unreachable`."""
        raise QueryFailed("unreachable", "there is only a description, and nothing to ask", "name an endpoint")

    def close(self) -> None:
        """Do nothing: no resource is held."""


def described(void: str | Path) -> Source:
    """Return a source with the schema of a VoID file, of which nothing can be queried. Raises `BadOntology`."""
    source = open_source(endpoint="http://described.invalid/sparql", void=void)
    return msgspec.structs.replace(source, id=Path(void).stem, engine=SilentEngine())
