"""The lookup of a recorded run's ontology, by its digest."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from rbank_es.data import lights
from rbank_es.errors import CannotRerun, QueryFailed
from rbank_es.ontology.source_names import Names, listed

if TYPE_CHECKING:
    from rbank_es.ontology.loader import Ontology
    from rbank_es.rerun.recorded_run import RecordedRun
    from rbank_es.sparql.data_source import Source


class Ontologies:
    """The ontologies that a rerun may need: those of given files, then the shipped one.

    Sources are opened once and kept for later runs. Use it in a `with`, or close it.
    """

    def __init__(self, given: Names = (), *, skip_unreadable: bool = False) -> None:
        """Keep the names, which are of one ontology together or of one each. Nothing is read yet.

        `skip_unreadable`: see `load_ontology`.
        """
        self._given, self._skip = listed(given), skip_unreadable
        self._sources: dict[tuple[str, str], Source] = {}
        self._starting: list[threading.Thread] = []

    def source_for(self, recording: RecordedRun) -> Source | None:
        """Return the source with the registered digest, None for a run without an ontology.

        If none has it, the given files are the source: the rerun then shows what they change. Raises `CannotRerun` if
        none were given, `BadOntology` for one that can't be read.
        """
        name, digest = recording.started.ontology, recording.ontology_digest
        if name is None:
            return None
        if digest is None:
            reason = f"its ontology {name!r} was never registered, so nothing tells which it was"
            raise CannotRerun(recording.run, reason)
        known = self._sources.get((name, digest))
        return known or self._opened(self._found(name, digest, recording.run))

    def close(self) -> None:
        """Close the sources and their processes."""
        # Joined first, because a source that is closed while its engine starts would leave the process running.
        while self._starting:
            self._starting.pop().join()
        for source in self._sources.values():
            source.close()
        self._sources.clear()

    def _found(self, name: str, digest: str, run: str) -> Ontology:
        tried = [self._load(names, name) for names in self._names()]
        fitting = next((ontology for ontology in tried if ontology.digest == digest), None)
        if fitting is not None:
            return fitting
        if not self._given:
            reason = f"its ontology {name!r} (SHA-256 {digest[:12]}…) is not at hand; name its files with --ont"
            raise CannotRerun(run, reason)
        return self._load(self._given, name)

    def _load(self, names: Names, id: str) -> Ontology:
        from rbank_es.ontology.loader import load_ontology

        return load_ontology(names, id=id, skip_unreadable=self._skip)

    def _names(self) -> Iterator[Names]:
        if self._given:
            yield self._given
        # Nothing tells whether several files are one ontology or one each, so both are tried.
        if len(self._given) > 1:
            yield from self._given
        yield lights().ontology

    def _opened(self, ontology: Ontology) -> Source:
        from rbank_es.sparql.data_source import open_source

        key = (ontology.id, ontology.digest)
        if key not in self._sources:
            self._sources[key] = open_source(ontology)
            self._starting.append(threading.Thread(target=_ready, args=(self._sources[key],), daemon=True))
            self._starting[-1].start()
        return self._sources[key]

    def __enter__(self) -> Ontologies:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ready(source: Source) -> None:
    """Start the query engine ahead: its process loads the graph while this one loads dspy."""
    from rbank_es.sparql.engines.local import LocalEngine

    # Only a head start: the first query starts it again, and reports what fails.
    with suppress(QueryFailed):
        if isinstance(source.engine, LocalEngine):
            source.engine.start()
