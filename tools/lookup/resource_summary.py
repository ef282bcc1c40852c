"""What a look at one thing says: each function adds to a body as much as there is room for."""

from __future__ import annotations

from typing import Any

from rbank_es.tools.lookup.resource_queries import Looking
from rbank_es.tools.runtime.answer_budget import Room

NOTE_CHARS = 90
"""What a note may take beside the instances."""

LABEL_CHARS, COMMENT_CHARS, NOTES_CHARS = 80, 200, 240
"""What is shown of a label, of a comment, and of each note of an ontology."""

TRAITS = ("functional", "inverse_functional", "transitive", "symmetric", "deprecated")

SHOWN_PROPERTIES = 8
"""Properties that one instance shows at most; fewer where several instances share the room."""


def peek_class(body: dict[str, Any], look: Looking, room: Room, iri: str, n: int) -> None:
    """Instances of a class with a few of their properties; of its subclasses where it has none of its own."""
    describe_class(body, look, room, iri, brief=True)
    deep = look.tables is not None and not look.tables.instances(iri)
    add_instances(body, look, room, iri, n, subclasses=deep)
    if deep and body["instances"]:
        note = "instances of subclasses only: query ?x a/rdfs:subClassOf* "
        body["note"] = note + (body["uri"] if len(note + body["uri"]) <= NOTE_CHARS else "this class")
    elif not body["instances"]:
        body["note"] = "no instances here; output_mode='schema' tells what is declared"


def add_instances(body: dict[str, Any], look: Looking, room: Room, iri: str, n: int, *, subclasses: bool) -> None:
    """Instances, each with as many properties as leave room for all of them."""
    rows = look.instances(iri, n, subclasses=subclasses)
    body["note"] = "x" * NOTE_CHARS  # that there is room for it
    width = SHOWN_PROPERTIES if not room.naive else 10**6
    narrow = [_narrow(row, width) for row in rows]
    while width > 1 and not room.holds(body, "instances", narrow):
        width -= 1
        narrow = [_narrow(row, width) for row in rows]
    room.put(body, "instances", narrow)
    del body["note"]


def _narrow(row: dict[str, Any], width: int) -> dict[str, Any]:
    kept = dict([*row["properties"].items()][:width])
    more = {name: count for name, count in row.get("more", {}).items() if name in kept}
    return {"uri": row["uri"], "properties": kept, **({"more": more} if more else {})}


def describe_class(body: dict[str, Any], look: Looking, room: Room, iri: str, *, brief: bool = False) -> None:
    """What the schema says of a class; `brief` leaves out all but its label and count."""
    tables = look.tables
    if tables is None or iri not in tables.classes:
        if not brief:
            room.put(body, "properties", look.used_by(iri))
        return
    known = tables.classes[iri]
    below = tables.descendants(iri)
    body["count"] = known.instances
    if not brief:
        body |= {"subclasses": len(below), "subclass_instances": sum(map(tables.instances, below))}
    room.say(body, "label", known.label, LABEL_CHARS)
    if not brief:
        room.list(body, "parents", tables.shorten(known.parents))
        room.say(body, "comment", known.comment, COMMENT_CHARS)
        room.texts(body, "notes", known.notes, NOTES_CHARS, len(known.notes) + known.notes_left_out)
        room.put(body, "properties", [tables.has_row(has) for has in tables.properties_of(iri)])


def describe_property(body: dict[str, Any], look: Looking, room: Room, iri: str, *, brief: bool = False) -> None:
    """What the schema says of a property; `brief` leaves out the words."""
    tables = look.tables
    if tables is None or iri not in tables.properties:
        return
    known = tables.properties[iri]
    body["uses"] = known.uses
    if not brief:
        body |= {"property_kind": known.kind, "traits": [trait for trait in TRAITS if getattr(known, trait)]}
    room.say(body, "label", known.label, LABEL_CHARS)
    room.list(body, "domains", tables.shorten(bound.iri for bound in known.domains))
    room.list(body, "ranges", tables.shorten(bound.iri for bound in known.ranges))
    if known.inverses:
        inverses = [{"uri": tables.names.shorten(each), "uses": tables.uses(each)} for each in known.inverses]
        room.put(body, "inverses", inverses, share=50)
    if not brief:
        room.list(body, "parents", tables.shorten(known.parents))
        room.say(body, "comment", known.comment, COMMENT_CHARS)
        room.texts(body, "notes", known.notes, NOTES_CHARS, len(known.notes) + known.notes_left_out)


def peek_property(body: dict[str, Any], look: Looking, room: Room, iri: str, n: int) -> None:
    """Triples with a property."""
    describe_property(body, look, room, iri, brief=True)
    room.put(body, "examples", look.examples(iri, n))


def peek_individual(body: dict[str, Any], look: Looking, room: Room, iri: str, *, both: bool = False) -> None:
    """What an individual says; with `both`, what leads to it too."""
    room.put(body, "properties", look.outgoing(iri), share=60 if both else 100)
    if both:
        room.put(body, "incoming", look.incoming(iri))
