"""Sources: an ontology or an endpoint as tools and context see it, with guarded queries and its schema."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from rbank_es import limits
from rbank_es.data import lights
from rbank_es.errors import BadInput, QueryFailed
from rbank_es.events.notebook_repr import Shown
from rbank_es.ontology.disjointness import ClassFit
from rbank_es.ontology.loader import Ontology, checked_id, load_ontology
from rbank_es.ontology.schema_model import Schema
from rbank_es.ontology.source_names import Names, endpoint_in
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.endpoint_profiles import LOCAL, Profile, profile_named
from rbank_es.sparql.engines.query_engine import Caps, Dataset, QueryEngine
from rbank_es.sparql.guard import Checked, Surroundings, check
from rbank_es.sparql.parser.tokens import is_iri_text
from rbank_es.sparql.parser.tree import Query
from rbank_es.sparql.results import Answer
from rbank_es.system.extras import require


class Source(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """An ontology or an endpoint that answers queries. Threads may share it."""

    id: str
    """The ontology's id; of an endpoint, its profile's name or its host."""
    kind: Literal["local", "remote"]
    ontology: Ontology | None = None
    url: str | None = None
    """Of an endpoint, without credentials."""
    profile: Profile
    schema: Schema | None = None
    """None for an endpoint that no VoID file describes."""
    engine: QueryEngine
    surroundings: Surroundings
    whole: bool | None = None
    """Whether it was declared to have every individual that a right query or answer may name; None: by nobody."""

    @property
    def is_whole(self) -> bool:
        """Whether it is declared whole; the shipped ontology is, unless somebody declares otherwise."""
        return self.is_shipped if self.whole is None else self.whole

    @property
    def is_shipped(self) -> bool:
        """Whether it is the ontology that comes with rbank-es."""
        files = self.ontology.files if self.ontology is not None else ()
        return [file.path.resolve() for file in files] == [lights().ontology.resolve()]

    def query(
        self, text: str, *, rows: int = limits.QUERY_ROWS_DEFAULT, timeout_s: float | None = None
    ) -> tuple[Checked, Answer]:
        """Check a query, run it, and return it as it ran, with its answer.

        Args:
            text: SPARQL 1.1, a reading form.
            rows: the most rows, or triples of CONSTRUCT and DESCRIBE, in the answer; 1 to `QUERY_ROWS`.
            timeout_s: seconds for checking and running it, up to `QUERY_TIME_MOST_S`; default: the profile's.

        Raises:
            QueryRefused: the guard refused it; no engine and no endpoint saw it.
            QueryFailed: it ran without an answer, or its time was over before.
            BadInput: `rows` or `timeout_s` is out of range.
        """
        caps = self._caps(rows, timeout_s)
        began = time.perf_counter()
        checked = check(text, self.surroundings, rows)
        caps = msgspec.structs.replace(caps, rows=checked.rows, spent_s=time.perf_counter() - began)
        if caps.spent_s >= caps.timeout_s:
            raise QueryFailed(
                "timeout",
                f"the query took longer than {caps.timeout_s:g} s",
                "give it more time, or write it more simply",
            )
        return checked, self.engine.run(checked.query, checked.form, caps, dataset_of(checked.parsed.tree))

    def close(self) -> None:
        """Close the engine's process or connections; the next query opens them again."""
        self.engine.close()

    def _caps(self, rows: int, timeout_s: float | None) -> Caps:
        if not 1 <= rows <= limits.QUERY_ROWS:
            raise BadInput(f"{rows:,} rows: ask for 1 to {limits.QUERY_ROWS:,}; use OFFSET or COUNT for more")
        time_s = self.profile.timeout_s if timeout_s is None else timeout_s
        if not 0 < time_s <= limits.QUERY_TIME_MOST_S:
            raise BadInput(f"a time limit of {time_s} s: give more than 0 s, at most {limits.QUERY_TIME_MOST_S:.0f} s")
        return Caps(rows=rows, timeout_s=time_s)


def dataset_of(query: Query) -> Dataset:
    """Return the graphs that a query names with FROM and FROM NAMED."""
    return Dataset(
        tuple(graph.iri for graph in query.sources if not graph.named),
        tuple(graph.iri for graph in query.sources if graph.named),
    )


SourceLike: TypeAlias = Source | Ontology | Names
"""A source as people name it: one that is open, a loaded ontology, or a name of `Names`; a URL alone is an endpoint."""


def open_source(
    source: SourceLike | None = None,
    *,
    endpoint: str | Path | None = None,
    void: str | Path | None = None,
    id: str | None = None,
    contact: str = "",
    whole: bool | None = None,
    skip_unreadable: bool = False,
) -> Source:
    """Return a source over an ontology or an endpoint, without asking either anything. An open source stays open.

    Args:
        source: see `SourceLike`.
        endpoint: instead: a URL, the name of a profile (`uniprot`), or a profile's TOML file. No request ever goes
            elsewhere.
        void: a VoID description of the endpoint, which gives its schema without a query.
        id: its id in events and items; by default, that of the ontology or the endpoint.
        contact: an address of whoever sends these queries, shown to the endpoint's operators in the user agent.
        whole: see `Source.whole`.
        skip_unreadable: see `load_ontology`.

    Raises:
        BadInput: neither or both were given, the endpoint is no http or https URL, or `void` comes with an ontology.
        BadOntology, BadFiles: a file of the ontology, or `void`, can't be read.
        MissingExtra: what reads RDF and SPARQL is not installed.
    """
    if source is not None and endpoint is not None:
        raise BadInput("give an ontology (--ont) or an endpoint (--endpoint), not both: a run has one source")
    if isinstance(source, Source):
        return _declared(source, void, id, whole)
    if source is not None and not isinstance(source, Ontology):
        endpoint = endpoint_in(source)
    if void is not None and endpoint is None:
        raise BadInput("a VoID file (--void) describes an endpoint: name that with it, alone (--endpoint)")
    if source is None and endpoint is None:
        raise BadInput("no source is named: give an ontology (--ont), or an endpoint (--endpoint)")
    require("pyoxigraph")
    if endpoint is not None:
        if skip_unreadable:
            raise BadInput("an endpoint has no files to leave out: leave out --skip-unreadable (skip_unreadable)")
        return _remote(str(endpoint), id, void, contact, whole)
    if isinstance(source, Ontology):
        ontology = source if id is None else msgspec.structs.replace(source, id=checked_id(id), id_given=True)
    else:
        ontology = load_ontology(source or (), id=id, skip_unreadable=skip_unreadable)
    return _local(ontology, whole)


def _declared(source: Source, void: str | Path | None, id: str | None, whole: bool | None) -> Source:
    """Return an open source with the id and the wholeness given."""
    if void is not None:
        raise BadInput("a VoID file (--void) is read when an endpoint is opened, and this source is open already")
    id = source.id if id is None else checked_id(id)
    return msgspec.structs.replace(source, id=id, whole=source.whole if whole is None else whole)


@contextmanager
def opened_source(source: SourceLike) -> Iterator[Source]:
    """Provide a source as `open_source` opens it, closed at the end if it was not open before."""
    if isinstance(source, Source):
        yield source
        return
    with closing(open_source(source)) as opened:
        yield opened


def _local(ontology: Ontology, whole: bool | None) -> Source:
    from rbank_es.sparql.engines.local import LocalEngine

    surroundings = Surroundings(
        prefixes=ontology.prefixes,
        graphs=frozenset(ontology.schema.graphs),
        engine_counts_triples=True,
        vocabulary=Vocabulary.from_schema(ontology.schema),
        fit=ClassFit(ontology.schema),
        profile=LOCAL,
    )
    return Source(
        id=ontology.id,
        kind="local",
        ontology=ontology,
        profile=LOCAL,
        schema=ontology.schema,
        engine=LocalEngine(ontology.quads),
        surroundings=surroundings,
        whole=whole,
    )


def _remote(endpoint: str, id: str | None, void: str | Path | None, contact: str, whole: bool | None) -> Source:
    from rbank_es.sparql.engines.endpoint import Address
    from rbank_es.sparql.engines.remote import RemoteEngine

    if "://" in endpoint:
        Address(endpoint)  # what it says of a bad URL shows no credentials
    profile = profile_named(endpoint)
    if not profile.url:
        raise BadInput(f"the profile {profile.name!r} names no endpoint; give a URL")
    engine = RemoteEngine(profile.url, contact=contact)
    # Whoever prints the source must not print the credentials of its URL.
    profile = msgspec.structs.replace(profile, url=engine.address.shown)
    schema = _described(void)
    surroundings = Surroundings(
        prefixes={**(schema.prefixes if schema else {}), **profile.prefixes},
        remote=True,
        vocabulary=Vocabulary.from_schema(schema) if schema else None,
        profile=profile,
    )
    return Source(
        id=profile.name or engine.address.host if id is None else checked_id(id),
        kind="remote",
        url=engine.address.shown,
        profile=profile,
        schema=schema,
        engine=engine,
        surroundings=surroundings,
        whole=whole,
    )


def _described(void: str | Path | None) -> Schema | None:
    from rbank_es.ontology.void import load_void

    return load_void(void) if void is not None else None


def is_valid_iri(text: str) -> bool:
    """Return whether a text is a valid absolute IRI; no other text can be a term of any data."""
    from pyoxigraph import NamedNode

    try:
        NamedNode(text)
    except ValueError:
        return False
    return is_iri_text(text)


def terms_in_data(iris: Sequence[str], source: Source) -> frozenset[str] | None:
    """Return the valid IRIs, of some, that occur anywhere in the data; None if the data can't be queried."""
    # The data of an ontology stay the same as long as its engine lives; those of an endpoint may change.
    known = _KNOWN.setdefault(source.engine, {}) if source.ontology is not None else {}
    there = {iri: present for iri in iris if (present := known.get(iri)) is not None}
    asked = [iri for iri in iris if iri not in there]
    if asked:
        found = _terms_found(asked, source)
        if found is None:
            return None
        there |= {iri: iri in found for iri in asked}
        if len(known) > limits.TERMS_REMEMBERED:
            known.clear()
        known.update(there)
    return frozenset(iri for iri, present in there.items() if present)


_KNOWN: WeakKeyDictionary[QueryEngine, dict[str, bool]] = WeakKeyDictionary()
"""Whether the data of an engine have a term, as far as it was asked: runs of one suite name the same terms."""


def _terms_found(iris: Sequence[str], source: Source) -> frozenset[str] | None:
    # Bypass the guard: valid IRIs can't break out of the query's text, and an endpoint's profile would refuse the
    # unbound patterns, although VALUES binds them.
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
