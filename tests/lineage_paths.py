"""Paths of a lineage by brute force: what followed from a node, by the plain definition, with nothing left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rbank_es.projections.lineage_edges import LineageEdge, LineageNode

LATE = ("born_as", "supports", "made", "restored", "admitted")
"""Relations to what was perhaps there before."""

LAST = ("ended", "superseded")
"""Relations that may only be the last step of a path."""


def followed(edges: Iterable[LineageEdge], start: LineageNode) -> set[LineageNode]:
    """Every node to which a path leads, the start left out.

    Each node is noted with every position since which it follows, not only the first one.
    """
    steps = defaultdict[LineageNode, list[LineageEdge]](list)
    for edge in edges:
        steps[edge.source].append(edge)
    seen, ends = {(start, 0)}, set[LineageNode]()
    waiting = list(seen)
    while waiting:
        node, since = waiting.pop()
        for edge in steps[node]:
            if node.kind == "item" and edge.seq < since:
                continue  # it came before
            if edge.relation in LAST:
                ends.add(edge.target)
                continue
            later = max(edge.seq, since if node.kind == "decision" else 0)
            state = (edge.target, later if edge.relation in LATE else 0)
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return ({node for node, _ in seen} | ends) - {start}
