"""Spans: items from a position on, so that a path of edges alone says what followed from what.

A decision may let a candidate support an item that exists, a person may bring an item back, a correction may decide
again. Each of these led to the uses of the item since, not to those before. Edges of a graph have no times. So such a
cause leads to a span of the item, and the span to the item's uses from that position on.

    cause -upheld-> span -continued-> later span of the item          span -used_in, hit_in, …-> as the item's own edges
    span -span_of-> item

Where the item had led to nothing before, the cause upheld the item itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from rbank_es.projections.lineage_edges import LineageEdge, LineageNode

BEARINGS = frozenset({"born_as", "supports"})
"""Relations by which a decision leads to an item."""

RETURNS = frozenset({"restored", "admitted"})
"""Relations by which an event leads to an item that it brought back, or let become active."""

TIMED = BEARINGS | RETURNS | {"made"}
"""Relations to a decision or an item that was perhaps there before: spans say what followed."""


def span_edges(edges: Iterable[LineageEdge]) -> Iterator[LineageEdge]:
    """Yield the edges to spans, between them and from them, which stand for those of `TIMED` relations on a path."""
    found = _Spans(edges)
    for item, causes in found.causes.items():
        yield from found.of(item, causes)


class _Spans:
    """The causes of items, each with the position since which it is one, and the effects of items."""

    def __init__(self, edges: Iterable[LineageEdge]) -> None:
        self.causes: defaultdict[LineageNode, list[tuple[int, LineageNode]]] = defaultdict(list)
        self._onward: defaultdict[LineageNode, list[LineageEdge]] = defaultdict(list)
        borne: defaultdict[LineageNode, list[LineageEdge]] = defaultdict(list)
        made: list[LineageEdge] = []
        for edge in edges:
            if edge.relation in BEARINGS:
                borne[edge.source].append(edge)
            if edge.relation in BEARINGS | RETURNS:
                self.causes[edge.target].append((edge.seq, edge.source))
            elif edge.relation == "made":
                made.append(edge)
            elif edge.source.kind == "item":
                self._onward[edge.source].append(edge)
        for edge in made:
            for bearing in borne[edge.target]:
                # From when on both edges hold: an event that decides again leads to the item only since then.
                self.causes[bearing.target].append((max(edge.seq, bearing.seq), edge.source))

    def of(self, item: LineageNode, causes: Iterable[tuple[int, LineageNode]]) -> Iterator[LineageEdge]:
        """Yield the edges of the spans of an item."""
        onward = self._onward[item]
        first = min((edge.seq for edge in onward), default=None)
        begins = sorted({since for since, _ in causes if first is not None and since > first})
        spans = [LineageNode("span", f"{item.name}@{begin}") for begin in begins]
        for since, cause in causes:
            known = bisect_right(begins, since)
            yield LineageEdge(cause, "upheld", spans[known - 1] if known else item, since)
        for span, begin in zip(spans, begins, strict=True):
            yield LineageEdge(span, "span_of", item, begin)
        for before, after, begin in zip(spans, spans[1:], begins[1:], strict=False):
            yield LineageEdge(before, "continued", after, begin)
        for edge in onward:
            known = bisect_right(begins, edge.seq)
            if known:
                yield LineageEdge(spans[known - 1], edge.relation, edge.target, edge.seq)
