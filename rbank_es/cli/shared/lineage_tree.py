"""Trees of causes and effects: the nodes of a lineage described, as JSON and as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.answers import BankReader
from rbank_es.cli.shared.output import count, safe_line, styled, truncate
from rbank_es.events.event import ERASED
from rbank_es.events.event_sentences import summary

if TYPE_CHECKING:
    from rbank_es.bank.lineage_graph import Branch
    from rbank_es.projections.lineage import LineageNode

PLURALS = {"context": "prompts", "retrieval": "searches"}
"""Plurals of kinds that aren't made by adding an s; of a context, as an agent got it, the prompt."""

NOUNS = {"context": "prompt", "retrieval": "search"}
"""Kinds whose nouns for people are others."""


WORDS = {"drawn_from": "taught"}
"""Words for relations whose names read from effect to cause."""


def counted(counts: Mapping[str, int]) -> str:
    """Return counts by kind in words: `2 items, 1 run`."""
    parts = (count(n, NOUNS.get(kind, kind), PLURALS.get(kind, "")) for kind, n in counts.items() if n)
    return ", ".join(parts)


def node_facts(reader: BankReader, node: LineageNode) -> dict[str, Any]:
    """Return the facts by which somebody knows a node; none for a node that the bank only names."""
    if node.kind == "item":
        row = reader.view.item(node.name)
        return {} if row is None else {"title": row["title"] or ERASED, "state": row["state"]}
    if node.kind == "run":
        row = reader.view.run(node.name)
        return {} if row is None else {name: row[name] for name in ("task", "outcome", "verdict")}
    if node.kind in ("candidate", "decision"):
        return _candidate_facts(reader, node)
    return _event_facts(reader, node)


def _candidate_facts(reader: BankReader, node: LineageNode) -> dict[str, Any]:
    extraction, _, place = node.name.rpartition("#")
    for row in reader.view.rows("candidate_decisions", extraction=extraction, place=int(place)):
        if node.kind == "candidate":
            return {"item": row["item"], "title": row["title"] or ERASED}
        return {"action": row["action"], "policy": row["policy"], "undone": bool(row["undone"])}
    return {}


def _event_facts(reader: BankReader, node: LineageNode) -> dict[str, Any]:
    seq = reader.bank.log.seq_of_id(node.name)
    if seq is None or seq > reader.position:
        return {}
    event = reader.bank.event_at(seq)
    return {"position": seq, "summary": summary(event)}


def tree_facts(reader: BankReader, branch: Branch) -> dict[str, Any]:
    """Return a tree for programs: each node with its facts, its relation to the one above, and its branches."""
    edge = branch.edge
    facts: dict[str, Any] = {"kind": branch.node.kind, "id": branch.node.name}
    if edge is not None:
        facts |= {"relation": edge.relation, "seq": edge.seq}
    facts |= node_facts(reader, branch.node)
    return facts | {"hidden": branch.hidden, "branches": [tree_facts(reader, each) for each in branch.branches]}


def tree_lines(facts: Mapping[str, Any], *, relations: bool, indent: str = "") -> Iterator[str]:
    """Yield the lines of a tree as `tree_facts` gives it, without its root; with `relations`, how each was reached."""
    rest = [f"and {counted(facts['hidden'])} more"] if facts["hidden"] else []
    last = len(facts["branches"]) + len(rest) - 1
    for number, branch in enumerate([*facts["branches"], *rest]):
        corner, below = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
        if isinstance(branch, str):
            yield indent + corner + styled(branch, "dim")
            continue
        relation = branch["relation"]
        how = f"{WORDS.get(relation, relation.replace('_', ' '))} " if relations else ""
        yield indent + corner + styled(how, "dim") + node_line(branch)
        yield from tree_lines(branch, relations=relations, indent=indent + below)


def node_line(facts: Mapping[str, Any]) -> str:
    """Return a node in one line: its kind, what it is called, and what there is to say about it."""
    kind, id = NOUNS.get(facts["kind"], facts["kind"]), safe_line(facts["id"])
    if "summary" in facts:
        words = f"{kind} at {facts['position']:,}: {facts['summary']}"
    elif facts["kind"] == "run":
        ends = ", ".join(filter(None, (facts.get("outcome"), facts.get("verdict"))))
        words = f"{kind} {id}{f' ({ends})' if ends else ''}{_said(facts.get('task'))}"
    elif facts["kind"] == "decision" and facts.get("action"):
        undone = ", undone" if facts["undone"] else ""
        words = f"{kind} to {facts['action']} ({facts['policy']}{undone})"
    elif "title" in facts:
        state = f" ({facts['state']})" if "state" in facts else ""
        words = f"{kind} {safe_line(facts.get('item', id))}{state}{_said(facts['title'])}"
    else:
        words = f"{kind} {id}, of which this bank has no more than the name"
    return truncate(safe_line(words), limits.TREE_LINE_CHARS)


def _said(words: str | None) -> str:
    return f": {words}" if words else ""
