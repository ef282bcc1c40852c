"""Drift of real ontologies: versions with terms removed and renamed, which nobody had seen before."""

from __future__ import annotations

import random
from pathlib import Path

import pyoxigraph
import pytest

from rbank_es.bank.ontology_drift import LearnedText, drifted, is_broken, named_terms
from rbank_es.ontology.loader import load_ontology
from rbank_es.ontology.schema_changes import schema_changes

pytestmark = pytest.mark.real

REMOVED, RENAMED = 4, 4


def version(source: Path, target: Path, removed: set[str], renamed: dict[str, str]) -> None:
    """Write an ontology without some terms, and with other names for some."""
    triples = (str(quad.triple) for quad in pyoxigraph.parse(path=str(source), format=pyoxigraph.RdfFormat.TURTLE))
    kept = [line for line in triples if not any(f"<{iri}>" in line for iri in removed)]
    text = " .\n".join([*kept, ""])
    for iri, now in renamed.items():
        text = text.replace(f"<{iri}>", f"<{now}>")
    target.write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prov-o.ttl", "uniprot_core.ttl"])
@pytest.mark.parametrize("seed", range(2))
def test_terms_removed_and_renamed_are_found_and_so_is_what_names_them(
    name: str, seed: int, ontologies: Path, tmp_path: Path
) -> None:
    dice, source = random.Random(f"{name} {seed}"), ontologies / name
    old = load_ontology(source, cache=tmp_path / "cache").schema
    terms = [each for each in (*old.classes, *old.properties) if each.declared and each.label]
    labels = [each.label for each in terms]
    chosen = dice.sample([each.iri for each in terms if labels.count(each.label) == 1], REMOVED + RENAMED)
    removed, renamed = set(chosen[:REMOVED]), {iri: f"{iri}_of_2" for iri in chosen[REMOVED:]}
    version(source, tmp_path / "new.nt", removed, renamed)
    new = load_ontology(tmp_path / "new.nt", cache=tmp_path / "cache").schema

    changes = schema_changes(old, new)
    there = {each.iri for each in (*new.classes, *new.properties)}
    gone = {iri for iri, each in changes.items() if any(change.change in ("gone", "renamed") for change in each)}
    # A term that only a removed one mentioned is gone with it.
    assert gone == {each.iri for each in (*old.classes, *old.properties)} - there and gone >= set(chosen)
    for iri, now in renamed.items():
        [found] = [each for each in changes[iri] if each.change == "renamed"]
        assert (found.now, found.how) == ((now,), "label")

    texts = [
        LearnedText(kind="item", id=iri, title="", text=f"Use {old_name} in a query.", state="active")
        for iri in (each.iri for each in (*old.classes, *old.properties))
        for old_name in (f"<{iri}>",)
    ]
    found_texts = drifted(texts, named_terms(texts, old.prefixes), changes)
    assert {each.id for each, terms in found_texts if is_broken(terms)} == gone
    assert {each.id for each, _ in found_texts} == set(changes)
