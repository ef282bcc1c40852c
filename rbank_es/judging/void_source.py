"""A source that is only described: its schema is known, and nothing is ever asked of it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset
from rbank_es.sparql.results import Answer, Form
from rbank_es.sparql.source import Source, open_source


class Silent:
    """An engine that answers nothing."""

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        """Raises `QueryFailed('unreachable')`."""
        raise QueryFailed("unreachable", "there is only a description, and nothing to ask", "name an endpoint")

    def close(self) -> None:
        """There is nothing to let go of."""


def described(void: str | Path) -> Source:
    """A source with the schema of a VoID file, without an endpoint. Raises `BadOntology`."""
    source = open_source(endpoint="http://described.invalid/sparql", void=void)
    return msgspec.structs.replace(source, id=Path(void).stem, engine=Silent())
