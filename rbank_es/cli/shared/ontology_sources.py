"""Finding what a command line names as an ontology: files, directories, or the one that comes with the package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rbank_es.data import LIGHTS, lights
from rbank_es.errors import BadInput

if TYPE_CHECKING:
    from rbank_es.ontology.loader import Ontology

ONTOLOGY_HELP = f"A file or directory of RDF; '{LIGHTS}' is the small ontology that comes with rbank-es."


def is_shipped(path: str) -> bool:
    """Whether the bare word `lights` is meant: the shipped ontology, unless a file or directory is called so."""
    return path == LIGHTS and not Path(path).exists()


def places(paths: Sequence[str]) -> list[Path]:
    """The paths that are meant, the shipped ontology's own where it is."""
    return [lights().ontology if is_shipped(path) else Path(path) for path in paths]


def loaded(paths: Sequence[str], id: str | None = None) -> Ontology:
    """The ontology in these files and directories, as one dataset. Raises as `load_ontology` does."""
    from rbank_es.ontology.loader import load_ontology

    return load_ontology(*places(paths), id=id)


def refuse_mixtures(paths: Sequence[str], endpoint: str | None, void: str | None) -> None:
    """Raise `BadInput` where files and an endpoint are named together, or a VoID file describes no endpoint."""
    if paths and endpoint is not None:
        raise BadInput("give --ont or --endpoint, not both: a run has one source")
    if void is not None and endpoint is None:
        raise BadInput("--void describes an endpoint: name it with --endpoint; files are given with --ont")
