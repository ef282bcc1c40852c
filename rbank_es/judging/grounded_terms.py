"""Grounding: whether the terms that a query and an answer name exist, in the ontology or in its data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from unicodedata import category

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryFailed, QueryRefused
from rbank_es.judging.query_comparison import terms_of
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.engines.query_engine import Caps
from rbank_es.sparql.parser.query import parse_query
from rbank_es.sparql.parser.tokens import is_iri_text

if TYPE_CHECKING:
    from rbank_es.sparql.source import Source

_START = r"(?:https?://|urn:[A-Za-z0-9][A-Za-z0-9-]+:)"
_IRI = re.compile(rf"{_START}(?:(?![,;]{_START})[^\s<>\"{{}}|\\^`\[\]])+")
_NAME = re.compile(r"(?<![\w:/.#@-])([A-Za-z][\w-]*):(\w[\w.-]*)")
_ENDS = frozenset({"Po", "Pe", "Pf", "Pi", "Ps"})
"""Kinds of signs, beyond ASCII, that end an IRI in a sentence. Dashes do not, save the long one: names hold them."""
_COMMON = ("rdf", "rdfs", "owl", "xsd", "skos")
"""Prefixes that an answer may use for what they mean everywhere; of others, only those of the source or its query."""


class Grounding(msgspec.Struct, frozen=True, kw_only=True):
    """The terms that a run named. Each is shown as it was written.

    `unknown_in_query` and `unknown_in_answer` exist nowhere; `unchecked` could not be looked up. `named_in_answer` is
    how many terms the answer names.
    """

    terms: int
    unknown_in_query: tuple[str, ...] = ()
    unknown_in_answer: tuple[str, ...] = ()
    named_in_answer: int = 0
    unchecked: tuple[str, ...] = ()

    @property
    def grounded(self) -> bool:
        """Whether nothing was named that is known not to exist."""
        return not self.unknown_in_query and not self.unknown_in_answer

    @property
    def answer_share(self) -> float | None:
        """The share of the answer's terms that exist, 0 to 1; None where it names none."""
        return 1 - len(self.unknown_in_answer) / self.named_in_answer if self.named_in_answer else None


def ground(sparql: str, answer: str, source: Source) -> Grounding:
    """Which terms of a query, and which IRIs and prefixed names of an answer, exist in a source.

    The schema is asked first; what it doesn't name is looked up in the data with one query of at most `JUDGE_TERMS`
    terms. A query that can't be read names nothing here. Never raises for what a run submitted.
    """
    in_query, declared = _of_query(sparql, source)
    in_answer = answer_terms(answer, {**_common(), **source.surroundings.prefixes, **declared})
    terms = {**in_answer, **in_query}
    unknown, unchecked = _unknown([*in_query, *in_answer], source)
    return Grounding(
        terms=len(terms),
        unknown_in_query=tuple(written for iri, written in in_query.items() if iri in unknown),
        unknown_in_answer=tuple(written for iri, written in in_answer.items() if iri in unknown),
        named_in_answer=len(in_answer),
        unchecked=tuple(terms[iri] for iri in terms if iri in unchecked),
    )


def _common() -> dict[str, str]:
    return {prefix: WELL_KNOWN[prefix] for prefix in _COMMON}


def _of_query(sparql: str, source: Source) -> tuple[dict[str, str], Mapping[str, str]]:
    """The terms of a query, and the prefixes that it declares."""
    if not sparql.strip():
        return {}, {}
    try:
        query = parse_query(sparql, source.surroundings.prefixes)
    except QueryRefused:
        return {}, {}
    return terms_of(query), query.tree.prefixes


def answer_terms(answer: str, prefixes: Mapping[str, str]) -> dict[str, str]:
    """The IRIs that a text names, each with how it is written: full ones, and names with one of the prefixes.

    Namespaces of these prefixes are no terms.
    """
    namespaces = {namespace.rstrip("#/") for namespace in prefixes.values()}
    found = {iri: iri for iri in map(_trimmed, _IRI.findall(answer)) if iri.rstrip("#/") not in namespaces}
    for match in _NAME.finditer(_IRI.sub(" ", answer)):
        prefix, local = match.groups()
        if prefix in prefixes:
            written = f"{prefix}:{local.rstrip('.-')}"
            found.setdefault(prefixes[prefix] + local.rstrip(".-"), written)
    return found


def _trimmed(iri: str) -> str:
    """An IRI without the marks of the sentence that it ends."""
    ends = (at for at, char in enumerate(iri) if char == "\u2014" or (not char.isascii() and category(char) in _ENDS))
    bare = iri[: next(ends, None)].rstrip(".,;:!?'*_")
    return bare.rstrip(")") if bare.count(")") > bare.count("(") else bare


# ---------------------------------------------------------------- looking up


def _unknown(iris: Iterable[str], source: Source) -> tuple[frozenset[str], frozenset[str]]:
    """Those that exist nowhere, and those that could not be looked up."""
    vocabulary = source.surroundings.vocabulary
    left = [iri for iri in dict.fromkeys(iris) if not (vocabulary and _in_schema(iri, vocabulary))]
    # One that is none would make the look-up fail, and then nothing would be known of the others.
    unreadable = {iri for iri in left if not _is_iri(iri)}
    asked = [iri for iri in left if iri not in unreadable][: limits.JUDGE_TERMS]
    present = _in_data(asked, source)
    if present is None:
        return frozenset(unreadable), frozenset(left) - unreadable
    unasked = frozenset(left) - frozenset(asked) - unreadable
    return (frozenset(asked) - present) | unreadable, unasked


def _is_iri(text: str) -> bool:
    """Whether a text is an absolute IRI: nothing else can stand in any data."""
    from pyoxigraph import NamedNode

    try:
        NamedNode(text)
    except ValueError:
        return False
    return is_iri_text(text)


def _in_schema(iri: str, vocabulary: Vocabulary) -> bool:
    return vocabulary.knows_class(iri) or vocabulary.knows_property(iri)


def _in_data(iris: list[str], source: Source) -> frozenset[str] | None:
    """Those of the IRIs that stand anywhere in the data; None where the data can't be asked."""
    if not iris:
        return frozenset()
    # Straight to the engine: the IRIs can't break out of the text, and a profile's refusals are about queries with
    # nothing bound, which would be read into this one.
    query = f"""SELECT DISTINCT ?term WHERE {{
    VALUES ?term {{ {" ".join(f"<{iri}>" for iri in iris)} }}
    FILTER (EXISTS {{ ?term ?p ?o }} || EXISTS {{ ?s ?term ?o }} || EXISTS {{ ?s ?q ?term }})
}}"""
    caps = Caps(rows=len(iris), timeout_s=source.profile.timeout_s)
    try:
        answer = source.engine.run(query, "select", caps)
    except QueryFailed:
        return None
    return frozenset(cell.value for row in answer.rows for cell in row if cell is not None)
