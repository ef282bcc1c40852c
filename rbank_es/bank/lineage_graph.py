"""The lineage of a bank as a graph: what followed from a node, and what it follows from, within bounds.

Every walk goes breadth first and visits a node once, so a cycle ends it like a leaf: an item supported by the lesson of
a run that was given the item. Whatever ends an item, or takes its place, leads to the item and no further: the runs
that were given it came before. Whatever supports the item later, brings it back or decides about it again leads on to
the uses of the item since.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from rbank_es.limits import answer_limits
from rbank_es.projections.item_spans import TIMED
from rbank_es.projections.lineage_edges import ENDINGS, LineageEdge, LineageNode

if TYPE_CHECKING:
    from rbank_es.projections.view import View

Direction = Literal["effects", "causes"]

ORDER = ("item", "run", "artifact", "judgment", "call", "extraction", "candidate", "decision", "context", "retrieval")
"""Kinds of nodes in the order of their interest: where there is no room for all, the first ones are shown."""


class TreeBounds(Struct, frozen=True, kw_only=True):
    """The size of a tree: levels below its root, branches of a node, and nodes in all."""

    depth: int = answer_limits.LINEAGE_TREE_DEPTH
    width: int = answer_limits.LINEAGE_TREE_WIDTH
    nodes: int = answer_limits.LINEAGE_NODES


class Branch(Struct, frozen=True, kw_only=True):
    """A node of a tree, with its depth (0 for the root), and the edge by which it was reached (None for the root).

    `hidden` counts by kind the nodes below it that the tree leaves out.
    """

    node: LineageNode
    depth: int
    edge: LineageEdge | None
    branches: tuple[Branch, ...] = ()
    hidden: Mapping[str, int] = {}


class Walk(Struct, frozen=True, kw_only=True):
    """All nodes that were reached from a start, in breadth-first order, each with its depth and the edge to it.

    A node may be more than one level deeper than the node below which it is shown: where an item led to it before the
    nearest cause of that item, and after one that is farther away.
    """

    start: LineageNode
    direction: Direction
    depths: Mapping[LineageNode, int]
    edges: Mapping[LineageNode, LineageEdge]

    @property
    def nodes(self) -> Iterator[LineageNode]:
        """The nodes, the start left out, the nearest first."""
        return (node for node in self.depths if node != self.start)

    @property
    def counts(self) -> dict[str, int]:
        """The number of nodes by kind, in the order of `ORDER`."""
        found = Counter(node.kind for node in self.nodes)
        return {kind: found[kind] for kind in sorted(found, key=_rank)}

    @property
    def depth(self) -> int:
        """The depth of the node that is farthest away; 0 if there is none."""
        return max(self.depths.values(), default=0)

    def parent(self, node: LineageNode) -> LineageNode:
        """Return the node from which another one than the start was reached."""
        edge = self.edges[node]
        return edge.source if self.direction == "effects" else edge.target

    def tree(self, bounds: TreeBounds | None = None) -> Branch:
        """Return the nodes as a tree within bounds, each under the node from which it was reached first."""
        return _Grown(self, bounds or TreeBounds()).tree()


class LineageGraph:
    """The edges of a lineage by their nodes."""

    def __init__(self, edges: Iterable[LineageEdge]) -> None:
        self._onward: defaultdict[LineageNode, list[LineageEdge]] = defaultdict(list)
        self._back: defaultdict[LineageNode, list[LineageEdge]] = defaultdict(list)
        for edge in edges:
            self._onward[edge.source].append(edge)
            self._back[edge.target].append(edge)

    @classmethod
    def of(cls, view: View) -> LineageGraph:
        """Return the lineage of a bank at the view's position."""
        return cls(view.edges())

    def __contains__(self, node: LineageNode) -> bool:
        return node in self._onward or node in self._back

    def effects(self, start: LineageNode) -> Walk:
        """Return everything downstream of a node."""
        return _walk(start, "effects", self._onward)

    def causes(self, start: LineageNode) -> Walk:
        """Return everything upstream of a node."""
        return _walk(start, "causes", self._back)


def _walk(start: LineageNode, direction: Direction, ways: Mapping[LineageNode, list[LineageEdge]]) -> Walk:
    onward = direction == "effects"
    passed = _since if onward else _until
    bounds = {start: 0 if onward else sys.maxsize}
    depths, edges, level, depth = {start: 0}, dict[LineageNode, LineageEdge](), dict(bounds), 0
    endings: list[tuple[int, LineageEdge]] = []
    while level:
        depth, following = depth + 1, dict[LineageNode, int]()
        for node, bound in level.items():
            for edge in ways.get(node, ()):
                reached = passed(edge, bound)
                if reached is None:
                    continue
                # Of the item that was asked about, the end is a cause of what it is; that of any other came after what
                # it led to.
                if edge.relation in ENDINGS and (onward or node != start):
                    endings.append((depth, edge))
                    continue
                next_node = edge.target if onward else edge.source
                known = bounds.get(next_node)
                if known is None:
                    depths[next_node], edges[next_node] = depth, edge
                # Again where it is reached with more of its history, because more follows from that.
                if known is None or (reached < known if onward else reached > known):
                    bounds[next_node] = following[next_node] = reached
        level = following
    # What has ended an item is no cause of what the item led to.
    for depth, edge in endings if onward else ():
        if edge.target not in depths:
            depths[edge.target], edges[edge.target] = depth, edge
    nearest = dict(sorted(depths.items(), key=lambda pair: pair[1]))
    return Walk(start=start, direction=direction, depths=nearest, edges=edges)


def _since(edge: LineageEdge, since: int) -> int | None:
    """Return the position since which an edge's target follows, where its source does since one; None where it doesn't.

    It is 0 for all but items and decisions that were perhaps there before.
    """
    if edge.source.kind == "decision":
        return max(since, edge.seq)
    if edge.source.kind == "item" and edge.seq < since:
        return None
    return edge.seq if edge.relation in TIMED else 0


def _until(edge: LineageEdge, until: int) -> int | None:
    """Return the position up to which an edge's source led to what its target led to up to one; None if it didn't."""
    if edge.relation in TIMED and edge.seq > until:
        return None
    if edge.source.kind == "decision":
        return until
    return edge.seq if edge.source.kind == "item" else sys.maxsize


class _Grown:
    """The tree of a walk, grown level by level until its bounds are reached."""

    def __init__(self, walk: Walk, bounds: TreeBounds) -> None:
        self._walk, self._bounds = walk, bounds
        self._below: defaultdict[LineageNode, list[LineageNode]] = defaultdict(list)
        for node in walk.nodes:
            self._below[walk.parent(node)].append(node)
        for below in self._below.values():
            below.sort(key=lambda node: (_rank(node.kind), walk.edges[node].seq, node.name))
        self._shown = self._chosen()

    def _chosen(self) -> set[LineageNode]:
        """Return the nodes that there is room for, level by level."""
        shown, waiting = {self._walk.start}, deque([self._walk.start])
        while waiting:
            node = waiting.popleft()
            for below in self._below[node][: self._bounds.width]:
                # The root is not counted.
                if len(shown) > self._bounds.nodes:
                    return shown
                if self._walk.depths[below] > self._bounds.depth:
                    continue
                shown.add(below)
                waiting.append(below)
        return shown

    def tree(self) -> Branch:
        """Return the tree, built from its leaves, because deep ones exceed the depth of Python's calls."""
        hidden = self._hidden()
        made: dict[LineageNode, Branch] = {}
        for node in reversed([node for node in self._walk.depths if node in self._shown]):
            made[node] = Branch(
                node=node,
                depth=self._walk.depths[node],
                edge=self._walk.edges.get(node),
                branches=tuple(made[below] for below in self._below[node] if below in self._shown),
                hidden={kind: hidden[node][kind] for kind in sorted(hidden[node], key=_rank)},
            )
        return made[self._walk.start]

    def _hidden(self) -> defaultdict[LineageNode, Counter[str]]:
        """Return, for each node shown, the hidden nodes whose nearest shown node it is."""
        hidden: defaultdict[LineageNode, Counter[str]] = defaultdict(Counter)
        under: dict[LineageNode, LineageNode] = {}
        for node in self._walk.depths:
            if node in self._shown:
                under[node] = node
            else:
                under[node] = under[self._walk.parent(node)]
                hidden[under[node]][node.kind] += 1
        return hidden


def _rank(kind: str) -> tuple[int, str]:
    return (ORDER.index(kind) if kind in ORDER else len(ORDER), kind)
