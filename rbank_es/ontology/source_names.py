"""The names of ontologies: one rule for what a text or a path means, on the command line and in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import urlsplit

from rbank_es import limits
from rbank_es.data import LIGHTS, lights
from rbank_es.errors import BadInput, BadOntology
from rbank_es.ontology.source_files import SUFFIXES

Name: TypeAlias = str | Path
Names: TypeAlias = Name | Sequence[Name]
"""An ontology as people name it: `lights` (the shipped one, where no file has that name), a file, a directory, or
several of these, which are one dataset. A `Path` is always a place."""


def listed(names: Names) -> tuple[Name, ...]:
    """Return the names one by one. Raises `BadInput` for anything that is neither a text nor a path."""
    found = (names,) if isinstance(names, str | Path) else tuple(names) if isinstance(names, Sequence) else (names,)
    for name in found:
        if not isinstance(name, str | Path):
            kind = type(name).__name__[: limits.GIVEN_CHARS]
            raise BadInput(
                f"an ontology is named by a text or a path, not by {kind}: give {LIGHTS!r}, files or folders"
            )
        if name == "":
            raise BadInput(f"the name of the ontology is empty: give {LIGHTS!r}, files or folders")
    return found


def is_shipped(name: Name) -> bool:
    """Return whether a name is that of the shipped ontology: the word `lights`, where no such file exists."""
    return name == LIGHTS and not Path(name).exists()


def places(names: Names) -> list[Path]:
    """Return the files and directories named, with the shipped ontology's own path for `lights`.

    Raises `BadInput` as `listed` does, `BadOntology` for a URL.
    """
    return [_place(name) for name in listed(names)]


def _place(name: Name) -> Path:
    if isinstance(name, str) and "://" in name:
        hint = "download the data and give the file, or name a SPARQL endpoint alone, as the one source"
        raise BadOntology(name, "is a URL, and no ontology is fetched from the network", hint)
    return lights().ontology if is_shipped(name) else Path(name)


def endpoint_in(names: Names) -> str | None:
    """Return the URL of an endpoint that is named alone, else None; a URL that names a file of RDF is none."""
    found = listed(names)
    if len(found) != 1 or not isinstance(found[0], str) or "://" not in found[0]:
        return None
    try:
        path = urlsplit(found[0]).path
    except ValueError:  # whoever opens it as an endpoint says what is wrong with it
        path = ""
    return None if PurePosixPath(path).suffix.lower() in SUFFIXES else found[0]
