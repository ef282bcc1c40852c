"""Checks are sure or undecided: measured on labelled cases, of which half were first measured when the rules stood."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rbank_es.judging.checks import judge_by_checks
from rbank_es.lab.calibration import Calibration, Case, calibrate
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source
from tests.judging.labelled import SEEN, UNSEEN

SCHEMA = """
@prefix e: <http://example.org/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:Ship a owl:Class ; rdfs:label "ship" . e:name a owl:DatatypeProperty ; rdfs:domain e:Ship .
"""


def measured(cases: Sequence[Case], source: Source | None) -> Calibration:
    found = calibrate(cases, lambda case: judge_by_checks(case.run, source))
    # The law: checks alone never say success.
    assert all(each.verdict is not None and each.verdict.verdict != "success" for each in found.judged)
    return found


@pytest.mark.parametrize(("cases", "decided"), [(SEEN, 6), (UNSEEN, 7)], ids=["seen", "unseen"])
def test_of_the_labelled_cases_the_checks_decide_only_failures_and_none_wrongly(
    cases: tuple[Case, ...], decided: int, lights_source: Source
) -> None:
    found = measured(cases, lights_source)
    metrics = found.metrics
    print(f"\naccuracy among the decided {metrics.accuracy:.2f}, {metrics.cases} of {len(cases)} decided")
    assert found.disagreements == () and metrics.cases >= decided


@pytest.fixture
def ships(tmp_path: Path) -> Source:
    """Return a schema that has no instances."""
    (tmp_path / "ships.ttl").write_text(SCHEMA)
    return open_source(load_ontology(tmp_path / "ships.ttl", cache=tmp_path / "cache"))
