"""The files that come with an ontology: its guide and its curated constraints, found by how the ontology is named."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rbank_es.context.constraints import curated_beside
from rbank_es.data import lights
from rbank_es.ontology.source_names import Names, endpoint_in, is_shipped, listed, places


class CompanionFiles(NamedTuple):
    """The guide and the curated constraints of an ontology; None for each that is missing."""

    guide: Path | None = None
    constraints: Path | None = None


def companions_of(names: Names) -> CompanionFiles:
    """Return the companions of an ontology that is named: those shipped, or the constraints beside its files.

    Raises as `places` does.
    """
    if endpoint_in(names) is not None:
        return CompanionFiles()
    if any(map(is_shipped, listed(names))):
        return CompanionFiles(lights().guide, lights().constraints)
    return CompanionFiles(None, next(filter(None, map(curated_beside, places(names))), None))
