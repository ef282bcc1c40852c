"""A class of a source, and a query that finds something in it, to show an agent how a call is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbank_es.ontology.prefixes import Prefixes

if TYPE_CHECKING:
    from rbank_es.ontology.schema_model import Schema
    from rbank_es.sparql.source import Source


def example_query(source: Source | None) -> str | None:
    """Return a query with rows: things of the class that has most, with a label where there is one.

    Returns None where no class is known to have instances. Nothing is asked.
    """
    schema = source.schema if source is not None else None
    found = _class_and_property(schema) if schema is not None else None
    if source is None or found is None:
        return None
    prefixes = Prefixes(source.surroundings.prefixes)
    cls, held = (prefixes.shorten(iri) if iri else "" for iri in found)
    found_in = f"?x a {cls} ; {held} ?value" if held else f"?x a {cls}"
    return f"SELECT * {{ {found_in} }} LIMIT 5"


def example_class(source: Source | None) -> str | None:
    """Return the name of the class that most of a source is about, as queries write it; None where no class is known.

    It is the one with most instances; where none has any, the one with most properties and relatives.
    """
    schema = source.schema if source is not None else None
    if source is None or schema is None or not schema.classes:
        return None
    best = min(schema.classes, key=lambda each: (each.deprecated, -(each.instances or 0), -each.degree, each.iri))
    return Prefixes(source.surroundings.prefixes).shorten(best.iri)


def _class_and_property(schema: Schema) -> tuple[str, str] | None:
    """Return the IRIs of a class with instances and of a property that they have; of a class alone with none known."""
    sizes = {info.iri: info.instances for info in schema.classes if info.instances and not info.echoes}
    uses = [use for use in schema.typed_uses if use.cls in sizes]
    if uses:
        labels = schema.label_properties
        best = min(uses, key=lambda use: (use.property not in labels, -(sizes[use.cls] or 0), use.cls, use.property))
        return best.cls, best.property
    return (min(sizes, key=lambda iri: (-(sizes[iri] or 0), iri)), "") if sizes else None
