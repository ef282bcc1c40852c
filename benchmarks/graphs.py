"""Ontologies: the card of the largest, uncached and cached; pyoxigraph's queries beside rdflib's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.data import Suite, largest_ontology, suites
from benchmarks.measure import Goal, Row, duration, interleave, timed, timed_each
from benchmarks.sizes import Sizes
from rbank_es.context.ontology_card import sense_card
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.engines.local import LocalEngine
from rbank_es.sparql.engines.query_engine import Caps
from rbank_es.sparql.engines.rdflib_engine import RdflibEngine
from rbank_es.sparql.guard import Surroundings, check

ROWS = 10_000
COLD_S, CACHED_MS = 1.0, 50.0


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for the card, then one per task suite."""
    yield from _card(place, sizes)
    for suite in suites():
        yield _queries(place, suite)


def _card(place: Path, sizes: Sizes) -> Iterator[Row]:
    path, cache = largest_ontology(), place / "cache"
    samples = interleave(
        {"cold": timed(partial(_made, path, cache, fresh=True)), "cached": timed(partial(_made, path, cache))},
        sizes.search_rounds,
    )
    triples = load_ontology(path, cache=cache).schema.triples
    for name, goal, factor in (("cold", Goal("≤", COLD_S, "s"), 1.0), ("cached", Goal("≤", CACHED_MS, "ms"), 1e3)):
        seconds = samples.median(name)
        what = f"sense card of {path.name} ({triples:,} triples), {name}"
        yield Row("graphs", what, duration(seconds), goal=goal, value=seconds * factor)


def _made(path: Path, cache: Path, *, fresh: bool = False) -> None:
    if fresh:
        shutil.rmtree(cache, ignore_errors=True)
    ontology = load_ontology(path, cache=cache)
    sense_card(ontology.schema, ontology.prefixes)


def _queries(place: Path, suite: Suite) -> Row:
    ontology = load_ontology(suite.files, cache=place / "cache")
    around = Surroundings(prefixes=ontology.prefixes)
    checked = [check(query, around, ROWS) for _, query in suite.tasks]
    caps = Caps(rows=ROWS, timeout_s=300)
    with closing(LocalEngine(ontology.quads)) as ours, closing(RdflibEngine(ontology.quads)) as peer:
        samples = interleave(
            {
                "ours": timed_each(lambda one: ours.run(one.query, one.form, caps), checked),
                "peer": timed_each(lambda one: peer.run(one.query, one.form, caps), checked),
            },
            1,
        )
    each = {name: duration(samples.median(name) / len(checked)) for name in samples.seconds}
    return Row(
        "graphs",
        f"gold queries of {suite.name} ({len(checked)} over {ontology.schema.triples:,} triples), mean",
        f"{each['ours']} (pyoxigraph in its worker process)",
        f"rdflib in process {each['peer']} ({samples.ratio('peer', 'ours'):,.1f} x as long)",
    )
