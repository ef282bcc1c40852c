"""The projection `lineage`: the origins and uses of every item, as edges; exportable as W3C PROV-O.

    run -judged_by-> judgment -led_to-> extraction -born_as, supports-> item -hit_in-> retrieval -served-> run
    run -drawn_from-> extraction                                        item -used_in-> run
    judgment, consolidation, retraction, … -ended, restored, admitted-> item

Judgments, extractions, retrievals and what ends or restores an item go by the ids of their events. A judgment led to
the extractions that relied on it. Edges that depend on earlier events (births, standing support, uses, ends) are read
from the projections that settle them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from rbank_es.events import JudgmentOverruled, MemoriesExtracted, MemoriesRetrieved, RunJudged
from rbank_es.projections.projection import Insert, Projection, Table

if TYPE_CHECKING:
    from rbank_es.projections.view import View

EDGES = Table(
    name="edges",
    columns="""
        number INTEGER NOT NULL, source_kind TEXT NOT NULL, source TEXT NOT NULL, relation TEXT NOT NULL,
        target_kind TEXT NOT NULL, target TEXT NOT NULL
    """,
    key=("from_seq", "number"),
)


def _edges(seq: int, edges: list[tuple[str, str, str, str, str]]) -> list[Insert]:
    return [Insert("edges", (number, *edge, seq)) for number, edge in enumerate(edges)]


def record_judgment(event: RunJudged | JudgmentOverruled) -> list[Insert]:
    """Record the edge from a run to its judgment, overruling or not."""
    return _edges(event.seq, [("run", event.run, "judged_by", "judgment", event.id)])


def record_extraction(event: MemoriesExtracted) -> list[Insert]:
    """Record the edges from a judgment and from runs to the extraction that relies on them."""
    edges = [("run", run, "drawn_from", "extraction", event.id) for run in event.runs]
    judgments = [each.judgment for each in event.relied if each.judgment is not None]
    edges += [("judgment", judgment, "led_to", "extraction", event.id) for judgment in judgments]
    return _edges(event.seq, edges)


def record_retrieval(event: MemoriesRetrieved) -> list[Insert]:
    """Record the edges from items to the retrieval that found them, and from it to its run."""
    edges = [("item", hit.id, "hit_in", "retrieval", event.id) for hit in event.hits]
    if event.run is not None:
        edges.append(("retrieval", event.id, "served", "run", event.run))
    return _edges(event.seq, edges)


_LINEAGE_EDGES = """
SELECT source_kind, source, relation, target_kind, target, from_seq AS seq FROM edges
UNION ALL
SELECT 'extraction', c.extraction, 'born_as', 'item', s.item, s.born_seq
FROM item_states s JOIN candidates c ON c.text = s.text WHERE s.to_seq IS NULL
UNION ALL
SELECT DISTINCT 'extraction', c.extraction, 'supports', 'item', p.item, p.from_seq
FROM item_support p JOIN candidates c ON c.text = p.text JOIN item_states s ON s.item = p.item AND s.to_seq IS NULL
WHERE p.to_seq IS NULL AND p.text <> s.text
UNION ALL
SELECT m.kind, m.activity, CASE
        WHEN s.ended_seq IS NOT NULL THEN 'ended'
        WHEN p.state = 'pending' THEN 'admitted'
        ELSE 'restored'
    END, 'item', s.item, s.from_seq
FROM item_states s JOIN moments m ON m.from_seq = s.from_seq
    LEFT JOIN item_states p ON p.item = s.item AND p.to_seq = s.from_seq
WHERE s.ended_seq = s.from_seq OR (s.ended_seq IS NULL AND p.ended_seq IS NOT NULL)
    OR (s.state = 'active' AND p.state = 'pending')
UNION ALL
SELECT 'item', item, 'used_in', 'run', run, from_seq FROM uses
"""

LINEAGE = Projection(
    name="lineage",
    version=1,
    title="From runs over judgments and extractions to items, and back to the runs that used them",
    handlers={
        RunJudged: record_judgment,
        JudgmentOverruled: record_judgment,
        MemoriesExtracted: record_extraction,
        MemoriesRetrieved: record_retrieval,
    },
    tables=(EDGES,),
    views={"lineage_edges": _LINEAGE_EDGES},
)

VOCABULARY = "https://rbank-es.invalid/vocabulary#"
"""Namespace of relations that PROV-O has no word for. `.invalid` never resolves: nothing is published there."""

# Turned round, because PROV-O points from an effect to its cause.
_PROPERTIES = {
    "judged_by": "wasInformedBy",
    "led_to": "wasInformedBy",
    "drawn_from": "wasInformedBy",
    "born_as": "wasGeneratedBy",
    "supports": "wasInfluencedBy",
    "hit_in": "used",
    "served": "wasInformedBy",
    "used_in": "used",
    "ended": "wasInfluencedBy",
    "restored": "wasInfluencedBy",
    "admitted": "wasInfluencedBy",
}


def provenance(view: View) -> str:
    """Return the lineage of the bank at the view's position as Turtle, in W3C PROV-O.

    Runs, judgments, extractions, retrievals and what ends items are activities, items are entities. Activities that
    follow one another are tied by `prov:wasInformedBy`; items come from extractions by `prov:wasGeneratedBy`, and are
    `prov:used` by retrievals and runs. What ended, restored or admitted an item influenced it; an item that is ended
    now `prov:wasInvalidatedBy` what ended it. Each edge is there a second time as in `lineage_edges`, in the project's
    own vocabulary.
    """
    # Imported here, because rdflib is slow to load and only exports of provenance need it.
    from rdflib import PROV, RDF, XSD, Graph, Literal, Namespace, URIRef

    own, graph = Namespace(VOCABULARY), Graph()
    graph.bind("prov", PROV)
    graph.bind("rbank", own)

    def node(kind: str, name: str) -> URIRef:
        found = URIRef(f"urn:rbank-es:{kind}:{quote(name, safe='')}")
        graph.add((found, RDF.type, PROV.Entity if kind == "item" else PROV.Activity))
        graph.add((found, RDF.type, own[kind.capitalize()]))
        return found

    ended = {item["id"]: item["ended_seq"] for item in view.rows("items")}
    for edge in view.rows("lineage_edges"):
        cause, effect = node(edge["source_kind"], edge["source"]), node(edge["target_kind"], edge["target"])
        graph.add((effect, PROV[_PROPERTIES[edge["relation"]]], cause))
        graph.add((cause, own[edge["relation"]], effect))
        if edge["relation"] == "ended" and edge["seq"] == ended[edge["target"]]:
            graph.add((effect, PROV.wasInvalidatedBy, cause))
    for item in view.rows("items"):
        found = node("item", item["id"])
        graph.add((found, own.state, Literal(item["state"])))
        if item["title"]:
            graph.add((found, PROV.value, Literal(item["title"])))
    for run in view.rows("runs"):
        graph.add((node("run", run["run"]), PROV.startedAtTime, Literal(run["started_at"], datatype=XSD.dateTime)))
    return graph.serialize(format="turtle")
