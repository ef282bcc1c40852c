"""A class of a source, and a query that finds something in it, to show an agent how a call is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rbank_es.ontology.prefixes import Prefixes, local_name
from rbank_es.text.stems import stems_in

if TYPE_CHECKING:
    from rbank_es.ontology.schema_model import ClassInfo, Schema
    from rbank_es.sparql.source import Source


def example_query(source: Source | None, question: str = "") -> str | None:
    """Return a query with rows: things of the class that the question names, else of one that has many.

    They have a label where there is one. Where no class has instances, it asks what is declared of a class.

    Returns None where neither is known. Nothing is asked.
    """
    schema = source.schema if source is not None else None
    if source is None or schema is None:
        return None
    found = _class_and_property(schema, question)
    prefixes = Prefixes(source.surroundings.prefixes)
    if found is None:
        declared = [each for each in schema.classes if each.declared]
        return (
            f"SELECT * {{ {prefixes.shorten(_best(declared, question))} ?property ?value }} LIMIT 5"
            if declared
            else None
        )
    cls, held = (prefixes.shorten(iri) if iri else "" for iri in found)
    found_in = f"?x a {cls} ; {held} ?value" if held else f"?x a {cls}"
    return f"SELECT * {{ {found_in} }} LIMIT 5"


def example_class(source: Source | None, question: str = "") -> str | None:
    """Return the name of a class for an example, as queries write it; None where no class is known.

    It is the one that the question names; else that with most instances, or with most properties and relatives.
    """
    schema = source.schema if source is not None else None
    if source is None or schema is None or not schema.classes:
        return None
    return Prefixes(source.surroundings.prefixes).shorten(_best(schema.classes, question))


def _best(classes: Sequence[ClassInfo], question: str) -> str:
    first = min(classes, key=lambda each: (each.deprecated, -(each.instances or 0), -each.degree, each.iri))
    return class_named([each.iri for each in classes], question) or first.iri


def class_named(iris: Iterable[str], question: str) -> str | None:
    """Return the class whose name the question has, in the singular or plural; of several the longest name."""
    said = _spoken(question)
    named = [(iri, name) for iri in iris if (name := _spoken(local_name(iri))).strip() and name in said]
    return max(named, key=lambda each: len(each[1]), default=(None,))[0]


def _spoken(text: str) -> str:
    return f" {' '.join(stems_in(text, 'english'))} "


def _class_and_property(schema: Schema, question: str) -> tuple[str, str] | None:
    """Return the IRIs of a class with instances and of a property that they have; of a class alone with none known."""
    sizes = {info.iri: info.instances for info in schema.classes if info.instances and not info.echoes}
    uses = [use for use in schema.typed_uses if use.cls in sizes]
    if uses:
        labels = schema.label_properties
        asked = class_named(sizes, question)
        uses = [use for use in uses if use.cls == asked] or uses
        best = min(uses, key=lambda use: (use.property not in labels, -(sizes[use.cls] or 0), use.cls, use.property))
        return best.cls, best.property
    return (min(sizes, key=lambda iri: (-(sizes[iri] or 0), iri)), "") if sizes else None
