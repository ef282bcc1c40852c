"""Trees of causes and effects as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rbank_es import limits
from rbank_es.cli.shared.output import styled, truncate
from rbank_es.events.event_envelope import ERASED
from rbank_es.events.readable_text import count, safe_line

if TYPE_CHECKING:
    from rbank_es.answers.lineage import LineageBranch


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


def tree_lines(tree: LineageBranch, *, relations: bool, indent: str = "") -> Iterator[str]:
    """Yield the lines of a tree without its root; with `relations`, how each thing was reached."""
    rest = [f"and {counted(tree.hidden)} more"] if tree.hidden else []
    lines: list[LineageBranch | str] = [*tree.branches, *rest]
    for number, branch in enumerate(lines, start=1):
        corner, below = ("└─ ", "   ") if number == len(lines) else ("├─ ", "│  ")
        if isinstance(branch, str):
            yield indent + corner + styled(branch, "dim")
            continue
        relation = branch.relation or ""
        how = f"{WORDS.get(relation, relation.replace('_', ' '))} " if relations else ""
        yield indent + corner + styled(how, "dim") + node_line(branch)
        yield from tree_lines(branch, relations=relations, indent=indent + below)


def node_line(node: LineageBranch) -> str:
    """Return a thing in one line: its kind, what it is called, and what there is to say about it."""
    kind, id = NOUNS.get(node.kind, node.kind), safe_line(node.id)
    if node.summary is not None:
        words = f"{kind} at {node.event_seq:,}: {node.summary}"
    elif node.kind == "run":
        ends = ", ".join(filter(None, (node.outcome, node.verdict)))
        words = f"{kind} {id}{f' ({ends})' if ends else ''}{f': {node.task}' if node.task else ''}"
    elif node.action:
        words = f"{kind} to {node.action} ({node.policy}{', undone' if node.undone else ''})"
    elif node.title is not None:
        state = f" ({node.state})" if node.state else ""
        words = f"{kind} {safe_line(node.item or id)}{state}: {node.title or ERASED}"
    else:
        words = f"{kind} {id}, of which this bank has no more than the name"
    return truncate(safe_line(words), limits.TREE_LINE_CHARS)
