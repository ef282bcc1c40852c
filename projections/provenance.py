"""The lineage of a bank as a graph in W3C PROV-O, with the vocabulary that describes it.

Items, candidates, contexts and artifacts are entities, everything else is an activity. Each edge of the lineage is
there twice: in the terms of PROV-O, from effect to cause, and in the project's own vocabulary, from cause to effect,
under the name that it has in `lineage_edges`. Spans (`rbank_es.projections.item_spans`) make paths of the relations in
`PATH` say what followed from what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from rbank_es.projections.item_spans import TIMED, span_edges
from rbank_es.projections.lineage_edges import ENDINGS

if TYPE_CHECKING:
    from rbank_es.projections.view import View

VOCABULARY = "https://rbank-es.invalid/vocabulary#"
"""Namespace of what PROV-O has no word for. `.invalid` never resolves: nothing is published there."""

NODE = "urn:rbank-es:"
"""Beginning of the IRI of a node; its kind and its percent-encoded name follow, with a colon between them."""


class NodeKind(NamedTuple):
    """A kind of node: the class of PROV-O that it is one of, and what it is."""

    parent: str
    about: str


class Relation(NamedTuple):
    """A relation of the lineage: the property of PROV-O for it, from effect to cause, and what it says of the cause."""

    property: str
    about: str


KINDS = {
    "run": NodeKind("Activity", "One attempt of an agent at a task."),
    "judgment": NodeKind("Activity", "A verdict on a run: success, failure or undecided."),
    "call": NodeKind("Activity", "A call of a language model that judged a run or extracted from it."),
    "extraction": NodeKind("Activity", "The drawing of candidates from judged runs."),
    "candidate": NodeKind("Entity", "An item that was extracted, before anything was decided about it."),
    "decision": NodeKind("Activity", "The decision in force about a candidate."),
    "item": NodeKind("Entity", "A reusable lesson."),
    "span": NodeKind("Entity", "An item from a position on: what came of it since it was upheld there."),
    "retrieval": NodeKind("Activity", "A search of the bank."),
    "artifact": NodeKind("Entity", "A text that was written once, to be summarised for many runs: a guide."),
    "context": NodeKind("Entity", "The part of a run's first prompt that quotes items and guides."),
    "consolidation": NodeKind("Activity", "The event by which candidates were decided about."),
    "correction": NodeKind("Activity", "Decisions that were made again after verdicts changed."),
    "undoing": NodeKind("Activity", "Somebody took a decision back, or that."),
    "forgetting": NodeKind("Activity", "A policy ended items."),
    "retraction": NodeKind("Activity", "Somebody ended items."),
    "restoration": NodeKind("Activity", "Somebody vouched for items."),
    "admission": NodeKind("Activity", "Somebody admitted pending items."),
}

RELATIONS = {
    "judged_by": Relation("wasInformedBy", "the run was judged in the judgment"),
    "asked": Relation("wasInformedBy", "a model was asked about the run"),
    "answered": Relation("wasInformedBy", "the call gave the judgment, or the candidates of the extraction"),
    "led_to": Relation("wasInformedBy", "the extraction relied on the judgment"),
    "drawn_from": Relation("wasInformedBy", "the extraction was drawn from the run"),
    "drew": Relation("wasGeneratedBy", "the extraction drew the candidate"),
    "decided_by": Relation("used", "the candidate was decided about"),
    "made": Relation("wasInformedBy", "the event put the decision in force"),
    "born_as": Relation("wasGeneratedBy", "the decision made the candidate an item"),
    "supports": Relation("wasInfluencedBy", "the decision let the candidate support an item in other words"),
    "superseded": Relation("wasInfluencedBy", "the item took the place of another"),
    "upheld": Relation(
        "wasInfluencedBy", "the item, or a span of it, rests on the decision or act, perhaps with others"
    ),
    "continued": Relation("wasDerivedFrom", "the span of the item begins while an earlier one lasts"),
    "span_of": Relation("alternateOf", "the span is one of the item"),
    "precedent_of": Relation("used", "the judge was shown the item"),
    "hit_in": Relation("used", "the search found the item"),
    "served": Relation("wasInformedBy", "the search was made for the run"),
    "injected_in": Relation("wasDerivedFrom", "the context quotes the item"),
    "wrote": Relation("wasGeneratedBy", "the run wrote the artifact"),
    "summarised_in": Relation("wasDerivedFrom", "the context has a summary of the artifact"),
    "given_to": Relation("used", "the run was given the context"),
    "used_in": Relation("used", "the item was in the run's context, or read there in full"),
    "ended": Relation("wasInfluencedBy", "the event ended the item"),
    "restored": Relation("wasInfluencedBy", "the event brought the item back"),
    "admitted": Relation("wasInfluencedBy", "the event let the pending item become active"),
}

PATH = tuple(name for name in RELATIONS if name not in ENDINGS | TIMED | {"span_of"})
"""The relations that a path from a cause to its effects takes; any other may only be its last step."""

ATTRIBUTES = {
    "state": "State of an item: active, pending, superseded, merged, forgotten, unsupported, withdrawn or rejected.",
    "polarity": "Polarity of an item: success for a strategy, failure for a guardrail.",
    "uses": "Number of runs that were given an item.",
    "wins": "Of the uses of an item, those in runs whose standing verdict is success.",
    "losses": "Of the uses of an item, those in runs whose standing verdict is failure.",
    "outcome": "End of a run: submitted, forced_at_limit or failed.",
    "verdict": "Standing verdict on a run: success, failure or undecided.",
    "action": "Decision about a candidate: add, skip, merge, supersede or discard.",
    "policy": "Policy by which a candidate was decided about.",
    "undone": "Whether somebody took the decision back.",
}

_PREFIXES = {
    "prov": "http://www.w3.org/ns/prov#",
    "rbank": VOCABULARY,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}

# What a string of Turtle may not hold as it is; controls are escaped for those who read the file on a terminal.
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')


def provenance(view: View) -> Iterator[str]:
    """Yield the lineage of the bank at the view's position in Turtle, a statement or a few a piece.

    An item that is ended now `prov:wasInvalidatedBy` what ended it. Titles and tasks are `prov:value`; erased ones are
    left out.
    """
    yield from (f"@prefix {name}: <{iri}> .\n" for name, iri in _PREFIXES.items())
    yield from _vocabulary()
    items, edges = view.rows("items"), list(view.edges())
    named = set[tuple[str, str]]()
    for edge in chain(edges, span_edges(edges)):
        for node in (edge.source, edge.target):
            if node not in named:
                named.add(node)
                yield _typed(*node)
                if node.kind == "span":
                    yield f"{_iri(*node)} prov:specializationOf {_iri('item', node.name.rpartition('@')[0])} .\n"
        cause, effect = _iri(*edge.source), _iri(*edge.target)
        yield f"{effect} prov:{RELATIONS[edge.relation].property} {cause} .\n"
        yield f"{cause} rbank:{edge.relation} {effect} .\n"
    yield from _ends(view, items)
    yield from _items(items, named)
    yield from _runs(view, named)
    yield from _decisions(view)


def _vocabulary() -> Iterator[str]:
    for kind, node in KINDS.items():
        yield f"rbank:{kind.capitalize()} a owl:Class ; rdfs:subClassOf prov:{node.parent} ; "
        yield f'rdfs:label "{kind}" ; rdfs:comment "{node.about}" .\n'
    for name, relation in RELATIONS.items():
        yield f'rbank:{name} a owl:ObjectProperty ; rdfs:label "{name.replace("_", " ")}" ; '
        yield f'rdfs:comment "From cause to effect: {relation.about}." .\n'
    for name, about in ATTRIBUTES.items():
        yield f'rbank:{name} a owl:DatatypeProperty ; rdfs:label "{name}" ; rdfs:comment "{about}" .\n'


def _ends(view: View, items: list[dict[str, Any]]) -> Iterator[str]:
    ended = {item["id"]: item["ended_seq"] for item in items}
    for edge in view.rows("lineage_edges", relation="ended"):
        if edge["seq"] == ended[edge["target"]]:
            cause = _iri(edge["source_kind"], edge["source"])
            yield f"{_iri('item', edge['target'])} prov:wasInvalidatedBy {cause} .\n"


def _items(items: list[dict[str, Any]], named: set[tuple[str, str]]) -> Iterator[str]:
    for item in items:
        if ("item", item["id"]) not in named:
            yield _typed("item", item["id"])
        facts = {name: item[name] for name in ("state", "polarity", "uses", "wins", "losses")}
        yield _stated(_iri("item", item["id"]), facts, item["title"])


def _runs(view: View, named: set[tuple[str, str]]) -> Iterator[str]:
    for run in view.rows("runs"):
        if ("run", run["run"]) not in named:
            yield _typed("run", run["run"])
        node = _iri("run", run["run"])
        yield f"{node} prov:startedAtTime {_literal(run['started_at'])}^^xsd:dateTime .\n"
        yield _stated(node, {"outcome": run["outcome"], "verdict": run["verdict"]}, run["task"])


def _decisions(view: View) -> Iterator[str]:
    for row in view.rows("candidate_decisions"):
        name = f"{row['extraction']}#{row['place']}"
        yield _stated(_iri("candidate", name), {}, row["title"])
        if row["action"] is not None:
            # SQLite has no booleans, and 1 is another literal in Turtle than true.
            facts = {"action": row["action"], "policy": row["policy"], "undone": bool(row["undone"])}
            yield _stated(_iri("decision", name), facts)


def _typed(kind: str, name: str) -> str:
    parent = KINDS[kind].parent if kind in KINDS else "Activity"
    return f"{_iri(kind, name)} a prov:{parent} , rbank:{kind.capitalize()} .\n"


def _stated(node: str, facts: dict[str, Any], value: str | None = None) -> str:
    """Return the facts about a node as statements; unknown ones are left out."""
    parts = [f"rbank:{name} {_literal(fact)}" for name, fact in facts.items() if fact is not None]
    parts += [f"prov:value {_literal(value)}"] if value else []
    return f"{node} {' ; '.join(parts)} .\n" if parts else ""


def _iri(kind: str, name: str) -> str:
    return f"<{NODE}{kind}:{quote(name, safe='')}>"


def _literal(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return f'"{_SPECIAL.sub(_escaped, value)}"'


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04X}"
