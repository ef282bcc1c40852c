"""The question `lineage`: what followed from a thing, or what it follows from, counted, listed and as a tree."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from rbank_es.answers.event import position_of
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.id_lookup import not_in_bank, whole_id
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import type_of
from rbank_es.events.event_sentences import summary
from rbank_es.limits import answer_limits
from rbank_es.projections.lineage_edges import LineageNode

if TYPE_CHECKING:
    from rbank_es.bank.lineage_graph import Branch, LineageGraph, Walk

ThingKind = Literal[
    "item", "run", "event", "candidate", "decision", "call", "judgment", "context", "artifact", "retrieval",
    "extraction", "consolidation", "forgetting", "retraction", "restoration", "admission", "undoing", "correction",
]  # fmt: skip

_KINDS = {
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


class LineageThing(Struct, frozen=True, kw_only=True):
    """A thing with the facts by which somebody knows it; all are null where the bank only names it."""

    kind: str
    id: str
    title: str | None = None
    state: str | None = None
    task: str | None = None
    outcome: str | None = None
    verdict: str | None = None
    item: str | None = None
    action: str | None = None
    policy: str | None = None
    undone: bool | None = None
    event_seq: int | None = None
    summary: str | None = None


class LineageStep(Struct, frozen=True, kw_only=True):
    """A thing that was reached, and how: the relation to the one before it."""

    kind: str
    id: str
    depth: int
    relation: str
    of_kind: str
    of_id: str
    seq: int


class LineageBranch(LineageThing, frozen=True, kw_only=True):
    """A thing of a tree, how it was reached, what lies behind it, and how much of that the tree leaves out."""

    relation: str | None
    seq: int | None
    hidden: dict[str, int]
    branches: tuple[LineageBranch, ...]


class LineageAnswer(BankAnswer, frozen=True, kw_only=True):
    """What is reached from a thing. The counts include what the list and the tree leave out."""

    thing: LineageThing
    direction: Literal["effects", "causes"]
    counts: dict[str, int]
    total: int
    depth: int
    nodes: tuple[LineageStep, ...]
    tree: LineageBranch


class LineageQuestion(BankQuestion, frozen=True, kw_only=True):
    """From which thing, which way, and how much is listed and shown."""

    kind: Annotated[ThingKind, Meta(description="The kind of the thing: item, run, event, or as in `nodes`.")]
    id: Annotated[
        str,
        Meta(
            min_length=1,
            description="Its id, of an item or a run an unambiguous beginning, of an event its position too. An event "
            "of a run that has no lineage of its own means its run.",
        ),
    ]
    direction: Annotated[
        Literal["effects", "causes"], Meta(description="effects: what followed from it; causes: what it follows from.")
    ] = "effects"
    depth: Annotated[int, Meta(ge=1, le=answer_limits.LINEAGE_TREE_DEPTH_MOST, description="Levels of the tree.")] = (
        answer_limits.LINEAGE_TREE_DEPTH
    )
    width: Annotated[
        int, Meta(ge=1, le=answer_limits.LINEAGE_NODES, description="Branches of each thing of the tree.")
    ] = answer_limits.LINEAGE_TREE_WIDTH
    limit: Annotated[int, Meta(ge=0, le=answer_limits.ANSWER_ROWS_MOST, description="Things listed at most.")] = (
        answer_limits.LINEAGE_NODES
    )


def find_lineage(reader: BankReader, question: LineageQuestion) -> LineageAnswer:
    """Return the effects or the causes of a thing. Raises `NotInBank`, `AmbiguousId`; `BadInput` for an event that has
    no lineage."""
    from rbank_es.bank.lineage_graph import LineageGraph, TreeBounds

    graph = LineageGraph.of(reader.view)
    start = _node(reader, graph, question.kind, question.id)
    walk = graph.effects(start) if question.direction == "effects" else graph.causes(start)
    return LineageAnswer(
        bank=reader.name,
        position=reader.position,
        thing=LineageThing(kind=start.kind, id=start.name, **_facts(reader, start)),
        direction=question.direction,
        counts=walk.counts,
        total=len(walk.depths) - 1,
        depth=walk.depth,
        nodes=tuple(_step(walk, node) for node in islice(walk.nodes, reader.limit(question.limit))),
        tree=_branch(reader, walk.tree(TreeBounds(depth=question.depth, width=question.width))),
    )


def _node(reader: BankReader, graph: LineageGraph, kind: str, id: str) -> LineageNode:
    """Return the node of a thing. Raises as `find_lineage`."""
    if kind in ("item", "run"):
        return LineageNode(kind, whole_id(reader.view, kind, id))
    if kind == "event":
        return _event_node(reader, graph, id)
    node = LineageNode(kind, id)
    if node not in graph:
        raise NotInBank(id, reader.position, kind=kind)
    return node


def _event_node(reader: BankReader, graph: LineageGraph, event: str) -> LineageNode:
    seq = position_of(reader, event)
    if seq is None:
        raise not_in_bank(reader.view, event, ["event"])
    found = reader.bank.event_at(seq)
    type_, run = type_of(found), getattr(found, "run", None)
    node = LineageNode(_KINDS.get(type_, type_), found.id)
    if node in graph:
        return node
    if run is not None:
        return LineageNode("run", run)
    raise BadInput(
        f"no lineage leads from {type_} at position {seq:,}; name an item, a run, or an event that judged a run, "
        "drew or decided about candidates, searched, holds a guide, or ended an item"
    )


def _step(walk: Walk, node: LineageNode) -> LineageStep:
    edge, parent = walk.edges[node], walk.parent(node)
    return LineageStep(
        kind=node.kind,
        id=node.name,
        depth=walk.depths[node],
        relation=edge.relation,
        of_kind=parent.kind,
        of_id=parent.name,
        seq=edge.seq,
    )


def _branch(reader: BankReader, branch: Branch) -> LineageBranch:
    edge = branch.edge
    return LineageBranch(
        kind=branch.node.kind,
        id=branch.node.name,
        **_facts(reader, branch.node),
        relation=None if edge is None else edge.relation,
        seq=None if edge is None else edge.seq,
        hidden=dict(branch.hidden),
        branches=tuple(_branch(reader, each) for each in branch.branches),
    )


def _facts(reader: BankReader, node: LineageNode) -> dict[str, Any]:
    """Return the facts by which somebody knows a node; none for a node that the bank only names."""
    if node.kind == "item":
        row = reader.view.item(node.name)
        return {} if row is None else {"title": row["title"] or "", "state": row["state"]}
    if node.kind == "run":
        row = reader.view.run(node.name)
        if row is None:
            return {}
        return {"task": row["task"], "outcome": row["outcome"], "verdict": row["verdict"]}
    if node.kind in ("candidate", "decision"):
        return _candidate_facts(reader, node)
    return _event_facts(reader, node)


def _candidate_facts(reader: BankReader, node: LineageNode) -> dict[str, Any]:
    extraction, _, place = node.name.rpartition("#")
    for row in reader.view.rows("candidate_decisions", extraction=extraction, place=int(place)):
        if node.kind == "candidate":
            return {"item": row["item"], "title": row["title"] or ""}
        return {"action": row["action"], "policy": row["policy"], "undone": bool(row["undone"])}
    return {}


def _event_facts(reader: BankReader, node: LineageNode) -> dict[str, Any]:
    seq = reader.bank.log.seq_of_id(node.name)
    if seq is None or seq > reader.position:
        return {}
    return {"event_seq": seq, "summary": summary(reader.bank.event_at(seq))}


QUESTION = QuestionKind(
    about="What followed from an item, a run or an event, or what it follows from: counted, listed, and as a tree.",
    question=LineageQuestion,
    answer=LineageAnswer,
    find=find_lineage,
    rows="nodes",
)
