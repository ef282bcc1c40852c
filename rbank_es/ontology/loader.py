"""The loader of ontologies: files found, parsed, described, and cached."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from rbank_es import __version__, limits
from rbank_es.errors import BadInput, BadOntology, CannotWrite, LimitExceeded, Notice
from rbank_es.events.notebook_repr import Shown
from rbank_es.ontology.prefixes import Prefixes
from rbank_es.ontology.schema_model import Schema
from rbank_es.ontology.source_files import FoundFiles, SourceFile, UnreadFiles, digest_of, find_files
from rbank_es.ontology.source_names import Names, places
from rbank_es.system.extras import require
from rbank_es.system.files import cache_or_temporary, make_private, opened, process_folder, read_regular
from rbank_es.system.unreadable_files import left_out_files

__all__ = ["Ontology", "load_ontology"]


class Ontology(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """An ontology with its data: its schema, and the file where all of it can be queried."""

    id: str
    digest: str
    """SHA-256 of the content; names and order of the files don't matter."""
    files: tuple[SourceFile, ...]
    schema: Schema
    prefixes: Prefixes
    quads: Path
    """The whole dataset as N-Quads, in the cache. Blank nodes of different files are different."""
    cached: bool
    """Whether it came from the cache."""
    id_given: bool = False
    """Whether somebody chose the id; else it is the name of the first file."""
    left_out: tuple[BadOntology, ...] = ()
    """The errors of the files that can't be read and were left out."""


def load_ontology(
    names: Names, *, id: str | None = None, cache: Path | None = None, skip_unreadable: bool = False
) -> Ontology:
    """Load files and directories of RDF as one dataset.

    Args:
        names: `lights`, a file in Turtle, RDF/XML, N-Triples, N-Quads, JSON-LD or TriG, a directory of these, or
            several; see `Names`.
        id: its id in events and items; by default, the first name without its suffix.
        cache: where to keep parsed graphs, by default the user's cache. If it can't be written, a directory of this
            process serves, and the next process parses again.
        skip_unreadable: whether to go on without the files that can't be read, with a `Notice` that names them.

    Raises:
        BadOntology: nothing there, too large, or a single file that is missing, empty, cut, broken, or no RDF.
            Nothing is fetched from the network.
        BadFiles: the same of files among others, unless `skip_unreadable`; or of all of them.
        BadInput: `id` has other characters than lower-case letters, digits, `-`, `_` and `.`; or a name is none.
        CannotWrite: there is no room, neither in the cache nor for temporary files.
        MissingExtra: what reads RDF is not installed.
    """
    named = places(names)
    found = find_files(named)
    require("pyoxigraph")
    name = _name(named, id)
    loaded = _loaded(GraphCache(cache or cache_or_temporary()), found, skip_unreadable=skip_unreadable)
    if loaded.left_out:
        warnings.warn(Notice(left_out_files(loaded.left_out, len(loaded.files))), stacklevel=2)
    return msgspec.structs.replace(loaded, id=name, id_given=id is not None)


def _loaded(graphs: GraphCache, found: FoundFiles, *, skip_unreadable: bool) -> Ontology:
    """Return the ontology in files, without an id. Raises as `load_ontology` does for those that can't be read."""
    digest = digest_of(found.files)
    entry = graphs.find(digest)
    try:
        schema, quads = entry or _make(graphs, digest, found)
    except UnreadFiles as unread:
        if not skip_unreadable or not unread.found.files:
            raise unread.found.refusal() from unread
        return _loaded(graphs, unread.found, skip_unreadable=True)
    if found.failures and not skip_unreadable:
        raise found.refusal()
    return Ontology(
        id="",
        digest=digest,
        files=found.files,
        schema=schema,
        prefixes=Prefixes(schema.prefixes),
        quads=quads,
        cached=entry is not None,
        left_out=tuple(sorted(found.failures, key=lambda each: each.path)),
    )


def _make(graphs: GraphCache, digest: str, found: FoundFiles) -> tuple[Schema, Path]:
    """Return a new entry of the cache; if that can't be written, one of a cache that ends with this process."""
    try:
        return graphs.make(digest, lambda quads: _describe(found, quads))
    except CannotWrite:
        return GraphCache(process_folder()).make(digest, lambda quads: _describe(found, quads))


def _describe(found: FoundFiles, quads: Path) -> Schema:
    """Parse files, write their quads, and return their description."""
    # Imported here, because a cached ontology needs neither module.
    from rbank_es.ontology.description import describe
    from rbank_es.ontology.rdf_reader import read_files

    content = read_files(found, quads)
    return describe(content.triples, content.declared, content.graphs)


def checked_id(id: str) -> str:
    """Return the id of an ontology or an endpoint. Raises `BadInput` for an id with other characters."""
    if not re.fullmatch(r"[a-z0-9_.-]+", id) or len(id) > limits.NAME_CHARS:
        raise BadInput(
            f"{id[: limits.GIVEN_CHARS]!r} can't be an ontology's id: use lower-case letters, digits, '-', '_' and '.'"
        )
    return id


def _name(places: Sequence[Path], given: str | None) -> str:
    """Return the given id, or one made from the first path's name."""
    if given is not None:
        return checked_id(given)
    place = places[0].resolve()
    stem = place.name if place.is_dir() else place.stem
    return re.sub(r"[^a-z0-9_.-]+", "-", stem.lower()).strip("-.")[: limits.NAME_CHARS] or "ontology"


_GRAPH, _SCHEMA = "graph.nq", "schema"
_CHECKSUM_BYTES = 4


@cache
def entry_form() -> str:
    """Return the release and a checksum of the code that makes entries: those of other code are never used."""
    checksum = 0
    # The limits count as code, because they truncate what a schema keeps.
    for module in (*sorted(Path(__file__).parent.glob("*.py")), Path(limits.__file__)):
        checksum = zlib.crc32(module.read_bytes(), checksum)
    return f"{__version__}-{checksum:08x}"


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """The content of the file `schema`, after its own checksum."""

    form: str
    graph_bytes: int
    graph_crc32: int
    schema: Schema


class GraphCache:
    """The cache of parsed graphs: the entries under one directory.

    An entry is a directory named after the digest of the files and the form of the entry. It holds `graph.nq` (the
    whole dataset) and `schema` (its description, with a checksum of both). It is written beside its place and renamed
    into it, because two processes may make the same entry at once. A torn or damaged entry counts as absent and is made
    again.
    """

    def __init__(self, directory: Path) -> None:
        self._entries = directory / "graphs"

    def find(self, digest: str) -> tuple[Schema, Path] | None:
        """Return the schema and the graph of an entry, None if there is no whole one. Mark it as used."""
        place = self._place(digest)
        entry = _read(place)
        if entry is None:
            return None
        with contextlib.suppress(OSError):  # a cache that can only be read serves as well
            os.utime(place)
        return entry.schema, place / _GRAPH

    def make(self, digest: str, build: Callable[[Path], Schema]) -> tuple[Schema, Path]:
        """Make an entry and return its schema and graph; an equal one of another process stays as it is.

        Args:
            digest: of the files.
            build: writes the graph to the path it is given, and returns the schema.

        Raises:
            CannotWrite: the directory can't be written, or the disk is full.
        """
        place = self._place(digest)
        try:
            make_private(self._entries)
            made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._entries))
        except OSError as error:
            raise CannotWrite(str(self._entries), error) from error
        try:
            schema = build(made / _GRAPH)
            _write(made, schema)
            self._put(made, place)
        except OSError as error:
            raise CannotWrite(str(place), error) from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
        self._sweep(place)
        return schema, place / _GRAPH

    def _place(self, digest: str) -> Path:
        return self._entries / f"{digest}-{entry_form()}"

    def _put(self, made: Path, place: Path) -> None:
        """Rename into place; a whole entry that is there stays."""
        for _ in range(limits.GRAPH_CACHE_TRIES):
            try:
                made.rename(place)
            except OSError:
                if _read(place) is not None:
                    return
                self._remove(place)
            else:
                return
        made.rename(place)

    def _remove(self, place: Path) -> None:
        """Move an entry aside at once, then delete it."""
        aside = Path(tempfile.mkdtemp(prefix=".old-", dir=self._entries))
        with contextlib.suppress(OSError):
            # Renamed before it is deleted, so that no reader finds half an entry.
            place.rename(aside / "entry")
        shutil.rmtree(aside, ignore_errors=True)

    def _sweep(self, kept: Path) -> None:
        """Evict the least recently used entries, and remove what interrupted processes left behind."""
        used: list[tuple[float, Path]] = []
        for place in self._entries.iterdir():
            with contextlib.suppress(OSError):  # another process was faster
                used.append((place.stat().st_mtime, place))
        hidden = [(when, place) for when, place in used if place.name.startswith(".")]
        entries = sorted(((when, place) for when, place in used if not place.name.startswith(".")), reverse=True)
        for _, place in entries[limits.GRAPH_CACHE_ENTRIES :]:
            if place != kept:
                self._remove(place)
        for when, place in hidden:
            if when < time.time() - limits.GRAPH_ABANDONED_S:
                shutil.rmtree(place, ignore_errors=True)


def _write(place: Path, schema: Schema) -> None:
    """Write the schema with the checksums."""
    size, checksum = _checksum(place / _GRAPH)
    content = msgspec.msgpack.encode(_Entry(entry_form(), size, checksum, schema))
    (place / _SCHEMA).write_bytes(zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") + content)


def _read(place: Path) -> _Entry | None:
    """Return an entry, None if it is incomplete or damaged."""
    try:
        content = read_regular(place / _SCHEMA, limits.GRAPH_SCHEMA_BYTES)
        if zlib.crc32(content[_CHECKSUM_BYTES:]) != int.from_bytes(content[:_CHECKSUM_BYTES], "big"):
            return None
        entry = msgspec.msgpack.decode(content[_CHECKSUM_BYTES:], type=_Entry)
        # The graph is checked as well: a damaged one would give wrong answers in silence.
        whole = entry.form == entry_form() and (entry.graph_bytes, entry.graph_crc32) == _checksum(place / _GRAPH)
    except (OSError, LimitExceeded, msgspec.MsgspecError):
        return None
    return entry if whole else None


def _checksum(path: Path) -> tuple[int, int]:
    """Return the size in bytes and the CRC-32 of a file."""
    size = checksum = 0
    with opened(path) as fd:
        while piece := os.read(fd, 1 << 20):
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
    return size, checksum
