"""The shipped ontology as a source, for tests of judges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rbank_es.data import lights
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source


@pytest.fixture(scope="session")
def lights_source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    ontology = load_ontology(lights().ontology, cache=tmp_path_factory.mktemp("graphs"))
    source = open_source(ontology)
    yield source
    source.close()
