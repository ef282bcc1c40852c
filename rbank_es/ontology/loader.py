"""The loader of ontologies: files found, parsed, described, and cached."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, CannotWrite
from rbank_es.ontology.graph_cache import GraphCache
from rbank_es.ontology.prefixes import Prefixes
from rbank_es.ontology.schema_model import Schema
from rbank_es.ontology.source_files import SourceFile, digest_of, find_files
from rbank_es.system.files import cache_or_temporary, process_folder

__all__ = ["Ontology", "load_ontology"]


class Ontology(msgspec.Struct, frozen=True, kw_only=True):
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


def load_ontology(*paths: str | Path, id: str | None = None, cache: Path | None = None) -> Ontology:
    """Load files and directories of RDF as one dataset.

    Args:
        paths: files in Turtle, RDF/XML, N-Triples, N-Quads, JSON-LD or TriG, or directories of these.
        id: its id in events and items; by default, the first path's name without its suffix.
        cache: where to keep parsed graphs, by default the user's cache. If it can't be written, a directory of this
            process serves, and the next process parses again.

    Raises:
        BadOntology: a file is missing, empty, cut, broken, too large, or no RDF; nothing is fetched from the network.
        BadInput: `id` has other characters than lower-case letters, digits, `-`, `_` and `.`.
        CannotWrite: there is no room, neither in the cache nor for temporary files.
    """
    places = [Path(path) for path in paths]
    files = find_files(places)
    name = _name(places, id)
    digest = digest_of(files)
    graphs = GraphCache(cache or cache_or_temporary())
    found = graphs.find(digest)
    schema, quads = found or _make(graphs, digest, files)
    return Ontology(
        id=name,
        digest=digest,
        files=files,
        schema=schema,
        prefixes=Prefixes(schema.prefixes),
        quads=quads,
        cached=found is not None,
    )


def _make(graphs: GraphCache, digest: str, files: Sequence[SourceFile]) -> tuple[Schema, Path]:
    """Return a new entry of the cache; if that can't be written, one of a cache that ends with this process."""
    try:
        return graphs.make(digest, lambda quads: _describe(files, quads))
    except CannotWrite:
        return GraphCache(process_folder()).make(digest, lambda quads: _describe(files, quads))


def _describe(files: Sequence[SourceFile], quads: Path) -> Schema:
    """Parse files, write their quads, and return their description."""
    # Imported here, because a cached ontology needs neither module.
    from rbank_es.ontology.description import describe
    from rbank_es.ontology.rdf_reader import read_files

    content = read_files(files, quads)
    return describe(content.triples, content.declared, content.graphs)


def checked_id(id: str) -> str:
    """Return the id of an ontology or an endpoint. Raises `BadInput` for an id with other characters."""
    if not re.fullmatch(r"[a-z0-9_.-]+", id) or len(id) > limits.NAME_CHARS:
        raise BadInput(f"{id[:80]!r} can't be an ontology's id: use lower-case letters, digits, '-', '_' and '.'")
    return id


def _name(places: Sequence[Path], given: str | None) -> str:
    """Return the given id, or one made from the first path's name."""
    if given is not None:
        return checked_id(given)
    place = places[0].resolve()
    stem = place.name if place.is_dir() else place.stem
    return re.sub(r"[^a-z0-9_.-]+", "-", stem.lower()).strip("-.")[: limits.NAME_CHARS] or "ontology"
