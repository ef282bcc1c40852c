"""The projection `lineage`: the causes and effects of every item, as edges.

    run -judged_by-> judgment -led_to-> extraction -drew-> candidate -decided_by-> decision -born_as, supports-> item
    run -drawn_from-> extraction          item -hit_in-> retrieval -served-> run      item -injected_in-> context
    run -asked-> call                     item -used_in-> run                         context -given_to-> run
    run -wrote-> artifact -summarised_in-> context
    call -answered-> judgment, extraction                       item -precedent_of-> judgment
    consolidation, correction, … -made-> decision               item -superseded-> item
    judgment, consolidation, retraction, … -ended, restored, admitted-> item

An edge leads from a cause to an effect, and has the position since which it does. Runs and items go by their ids,
candidates and the decisions in force about them by `EXTRACTION#INDEX`, everything else by the id of its event. Edges
that depend on earlier events (decisions, births, standing support, uses, ends) are read from the projections that
settle them, so they are those of the position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from rbank_es.events import (
    ArtifactMaterialised,
    ContextBuilt,
    JudgmentOverruled,
    MemoriesExtracted,
    MemoriesRetrieved,
    RunJudged,
)
from rbank_es.projections.projection import Insert, Projection, Table


class LineageNode(NamedTuple):
    """A node of the lineage: its kind, such as `item` or `run`, and its name, unique among its kind."""

    kind: str
    name: str


class LineageEdge(Struct, frozen=True):
    """An edge of the lineage from a cause to an effect, and the position of the event that made it."""

    source: LineageNode
    relation: str
    target: LineageNode
    seq: int


ENDINGS = frozenset({"ended", "superseded"})
"""Relations to an item that they end: its uses came before, so no path leads through one to them."""

EDGES = Table(
    name="edges",
    columns="""
        number INTEGER NOT NULL, source_kind TEXT NOT NULL, source TEXT NOT NULL, relation TEXT NOT NULL,
        target_kind TEXT NOT NULL, target TEXT NOT NULL
    """,
    key=("from_seq", "number"),
)


def _edges(seq: int, edges: Iterable[tuple[str, str, str, str, str]]) -> list[Insert]:
    return [Insert("edges", (number, *edge, seq)) for number, edge in enumerate(edges)]


def record_judgment(event: RunJudged | JudgmentOverruled) -> list[Insert]:
    """Record the edges to a judgment, overruling or not: from its run, the calls that gave it, and its precedents."""
    edges = [("run", event.run, "judged_by", "judgment", event.id)]
    if isinstance(event, RunJudged):
        edges += _calls((event.run,), event.calls, "judgment", event.id)
        edges += [("item", item, "precedent_of", "judgment", event.id) for item in event.precedents]
    return _edges(event.seq, edges)


def _calls(runs: Iterable[str], calls: Iterable[str], kind: str, id: str) -> Iterator[tuple[str, str, str, str, str]]:
    for call in calls:
        yield from (("run", run, "asked", "call", call) for run in runs)
        yield "call", call, "answered", kind, id


def record_extraction(event: MemoriesExtracted) -> list[Insert]:
    """Record the edges from judgments, runs and calls to the extraction that relies on them."""
    edges = [("run", run, "drawn_from", "extraction", event.id) for run in event.runs]
    judgments = [each.judgment for each in event.relied if each.judgment is not None]
    edges += [("judgment", judgment, "led_to", "extraction", event.id) for judgment in judgments]
    return _edges(event.seq, [*edges, *_calls(event.runs, event.calls, "extraction", event.id)])


def record_context(event: ContextBuilt) -> list[Insert]:
    """Record the edges from items to the context that quotes them, from guides to the one that has their summary, and
    from it to its run; none without either."""
    edges = [("item", item, "injected_in", "context", event.id) for item in event.items]
    edges += [("artifact", artifact, "summarised_in", "context", event.id) for artifact in event.artifacts]
    if not edges:
        return []
    return _edges(event.seq, [*edges, ("context", event.id, "given_to", "run", event.run)])


def record_retrieval(event: MemoriesRetrieved) -> list[Insert]:
    """Record the edges from items to the retrieval that found them, and from it to its run."""
    edges = [("item", hit.id, "hit_in", "retrieval", event.id) for hit in event.hits]
    if event.run is not None:
        edges.append(("retrieval", event.id, "served", "run", event.run))
    return _edges(event.seq, edges)


def record_artifact(event: ArtifactMaterialised) -> list[Insert]:
    """Record the edge from the run that wrote an artifact to it."""
    return _edges(event.seq, [("run", event.run, "wrote", "artifact", event.id)] if event.run is not None else [])


_NAME = "c.extraction || '#' || c.place"

_LINEAGE_EDGES = f"""
SELECT source_kind, source, relation, target_kind, target, from_seq AS seq FROM edges
UNION ALL
SELECT 'extraction', c.extraction, 'drew', 'candidate', {_NAME}, c.from_seq FROM candidates c
UNION ALL
SELECT 'candidate', {_NAME}, 'decided_by', 'decision', {_NAME}, d.from_seq
FROM decisions d JOIN candidates c ON c.text = d.text WHERE d.to_seq IS NULL
UNION ALL
SELECT m.kind, m.activity, 'made', 'decision', {_NAME}, d.from_seq
FROM decisions d JOIN candidates c ON c.text = d.text JOIN moments m ON m.from_seq = d.from_seq WHERE d.to_seq IS NULL
UNION ALL
SELECT 'decision', {_NAME}, 'born_as', 'item', s.item, MAX(s.born_seq, c.from_seq)
FROM item_states s JOIN candidates c ON c.text = s.text WHERE s.to_seq IS NULL
UNION ALL
SELECT DISTINCT 'decision', {_NAME}, 'supports', 'item', p.item,
    (SELECT MIN(q.from_seq) FROM item_support q WHERE q.item = p.item AND q.text = p.text)
FROM item_support p JOIN candidates c ON c.text = p.text JOIN item_states s ON s.item = p.item AND s.to_seq IS NULL
WHERE p.to_seq IS NULL AND p.text <> s.text
UNION ALL
SELECT 'item', b.value, 'superseded', 'item', s.item, s.from_seq
FROM item_states s, json_each(s.superseded_by) b WHERE s.to_seq IS NULL
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
    title="From runs over judgments, extractions and decisions to items, and back to the runs that used them",
    handlers={
        RunJudged: record_judgment,
        JudgmentOverruled: record_judgment,
        MemoriesExtracted: record_extraction,
        ContextBuilt: record_context,
        MemoriesRetrieved: record_retrieval,
        ArtifactMaterialised: record_artifact,
    },
    tables=(EDGES,),
    views={"lineage_edges": _LINEAGE_EDGES},
)
