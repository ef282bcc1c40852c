"""The bank's own provenance as one more local graph, for agents and for people: see `rbank_es.projections.provenance`.

It is made when it is first asked, in a folder of this process that `close` removes. So no copy of the bank's words
outlives it, where an erasure would not reach.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rbank_es import limits
from rbank_es.errors import LimitExceeded
from rbank_es.system.files import remove_temporary, temporary_folder
from rbank_es.system.forks import told_of_forks

if TYPE_CHECKING:
    from rbank_es.bank.bank import Bank
    from rbank_es.sparql.data_source import Source

MEMORY = "memory"
"""The id of the graph, as that of an ontology."""


class MemoryGraph:
    """The provenance of a bank at a position, as a source. A context manager; safe for several threads."""

    def __init__(self, bank: Bank, position: int) -> None:
        """Keep the bank, which must stay open, and the position; read nothing."""
        self.bank, self.position = bank, position
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._source: Source | None = None
        told_of_forks.add(self)

    @property
    def source(self) -> Source:
        """The graph as a guarded local source, made on first use.

        Raises `LimitExceeded` for more than `ONTOLOGY_BYTES`, `ProjectionError` if the read models can't be read.
        """
        with self._lock:
            if self._source is None:
                self._source = self._open()
            return self._source

    def _open(self) -> Source:
        from rbank_es.ontology.loader import load_ontology
        from rbank_es.projections.provenance import provenance
        from rbank_es.sparql.data_source import open_source

        if self._folder is None:
            self._folder = temporary_folder("memory")
        place = self._folder / f"{MEMORY}.ttl"
        with self.bank.as_of(self.position) as view, place.open("wb") as file:
            file.writelines(_bounded(piece.encode() for piece in provenance(view)))
        # In a cache of its own: the user's keeps graphs for ever, and this one holds words of the bank.
        return open_source(load_ontology(place, id=MEMORY, cache=self._folder / "cache"))

    def close(self) -> None:
        """End the engine and remove the folder. The next use makes the graph again."""
        with self._lock:
            source, self._source = self._source, None
            folder, self._folder = self._folder, None
        if source is not None:
            source.close()
        if folder is not None:
            remove_temporary(folder)

    def forget_parent(self) -> None:
        """Begin anew in a forked child: the lock may be held by a thread of the parent, whose folder it is."""
        self._lock = threading.Lock()
        self._folder = self._source = None

    def __enter__(self) -> MemoryGraph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limits.ONTOLOGY_BYTES:
            raise LimitExceeded(
                "the provenance of the bank in bytes",
                size,
                limits.ONTOLOGY_BYTES,
                "ask it as of an earlier point, or export it with: rbank-es export BANK --format prov",
            )
        yield piece
