"""`impact`: everything downstream of an item, a run or an event, counted, as a tree or as JSON."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from rbank_es.answers import BankReader
from rbank_es.answers.event import position_of
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_at, view_at
from rbank_es.cli.shared.lineage_tree import counted, node_facts, node_line, tree_facts, tree_lines
from rbank_es.cli.shared.named_things import find_thing
from rbank_es.cli.shared.output import count, echo, echo_json, styled
from rbank_es.errors import BadInput
from rbank_es.events import type_of
from rbank_es.limits import answer_limits
from rbank_es.projections.lineage import LineageNode

if TYPE_CHECKING:
    from rbank_es.bank.lineage_graph import LineageGraph, Walk

NODES = {
    "run_judged": "judgment",
    "judgment_overruled": "judgment",
    "lm_called": "call",
    "context_built": "context",
    "artifact_materialised": "artifact",
    "memories_retrieved": "retrieval",
    "memories_extracted": "extraction",
    "memories_consolidated": "consolidation",
    "memories_forgotten": "forgetting",
    "memories_retracted": "retraction",
    "memories_restored": "restoration",
    "memories_admitted": "admission",
    "decision_undone": "undoing",
    "correction_completed": "correction",
}
"""The kinds of nodes that events are, by the type of the event."""


@command(
    "impact",
    "rbank-es impact notes 3f2a9c01b7de",
    "rbank-es impact notes@HEAD~50 run:lights-L1-1 --depth 3",
    "rbank-es impact notes 120 --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("thing", metavar="ITEM|RUN|SEQ")
@click.option(
    "--depth", metavar="N", type=click.IntRange(1, answer_limits.LINEAGE_TREE_DEPTH_MOST),
    help=f"Levels of the tree; default: {answer_limits.LINEAGE_TREE_DEPTH}.",
)  # fmt: skip
@click.option(
    "--width", metavar="N", type=click.IntRange(1),
    help=f"Branches that are shown of each node; default: {answer_limits.LINEAGE_TREE_WIDTH}.",
)  # fmt: skip
@click.option(
    "--limit", metavar="N", type=click.IntRange(0),
    help=f"Nodes that --json lists, the nearest first; default: {answer_limits.LINEAGE_NODES}.",
)  # fmt: skip
def impact(bank: str, thing: str, depth: int | None, width: int | None, limit: int | None, as_json: bool) -> None:
    """Show everything downstream of an item, a run or an event, as of a point in time.

    Downstream of an item are the runs that were given it, the judgments whose judge was shown it, and the items that it
    took the place of; of a run, its judgments, the items drawn from it and the guide that it wrote; of a guide, the
    runs that were given its summary; of a decision, its item. An event that ended an item leads to the item and no
    further; one that came to support it, or brought it back, to its uses since. Each thing is counted once, at its
    least number of steps. The counts include what the tree leaves out. THING is named as for show; an event of a run
    that led to nothing itself means its run.
    """
    from rbank_es.bank.lineage_graph import LineageGraph, TreeBounds

    if as_json and (depth, width) != (None, None):
        raise BadInput("--depth and --width are of the tree, and --json lists nodes: leave them out, or give --limit")
    if limit is not None and not as_json:
        raise BadInput("--limit is of the list: add --json, or bound the tree with --depth and --width")
    opened, point = open_at(bank)
    with opened, view_at(opened, point) as view:
        reader = BankReader(view, opened.name, bank=opened)
        kind, name = find_thing(reader, thing)
        graph = LineageGraph.of(view)
        walk = graph.effects(_node(reader, graph, kind, name))
        if as_json:
            echo_json(
                {"bank": opened.name, "position": reader.position}
                | _facts(reader, walk, answer_limits.LINEAGE_NODES if limit is None else limit)
            )
            return
        bounds = TreeBounds(
            depth=depth or answer_limits.LINEAGE_TREE_DEPTH, width=width or answer_limits.LINEAGE_TREE_WIDTH
        )
        tree = tree_facts(reader, walk.tree(bounds))
        echo(styled(node_line(tree), "bold"))
        echo(_summary(walk))
        for line in tree_lines(tree, relations=True):
            echo(line)


def _node(reader: BankReader, graph: LineageGraph, kind: str, name: str) -> LineageNode:
    """Return the node of a thing. Raises `BadInput` for an event from which no lineage leads."""
    if kind != "event":
        return LineageNode(kind, name)
    seq = position_of(reader, name)
    assert seq is not None  # it was found
    event = reader.bank.event_at(seq)
    type_, run = type_of(event), getattr(event, "run", None)
    node = LineageNode(NODES.get(type_, type_), event.id)
    if node in graph:
        return node
    if run is not None:
        return LineageNode("run", run)
    raise BadInput(
        f"no lineage leads from {type_} at position {seq:,}; name an item, a run, or an event that judged a run, "
        "drew or decided about candidates, searched, holds a guide, or ended an item"
    )


def _summary(walk: Walk) -> str:
    counts = walk.counts
    if not counts:
        return "nothing on record has followed from it"
    return f"downstream: {counted(counts)}; the farthest is {count(walk.depth, 'step')} away"


def _facts(reader: BankReader, walk: Walk, limit: int) -> dict[str, Any]:
    nodes = [_listed(walk, node) for node in islice(walk.nodes, limit)]
    return {
        "thing": {"kind": walk.start.kind, "id": walk.start.name, **node_facts(reader, walk.start)},
        "counts": walk.counts,
        "total": len(walk.depths) - 1,
        "depth": walk.depth,
        "listed": len(nodes),
        "nodes": nodes,
    }


def _listed(walk: Walk, node: LineageNode) -> dict[str, Any]:
    edge = walk.edges[node]
    parent = walk.parent(node)
    facts = {"kind": node.kind, "id": node.name, "depth": walk.depths[node], "relation": edge.relation}
    return facts | {"of": {"kind": parent.kind, "id": parent.name}, "seq": edge.seq}
