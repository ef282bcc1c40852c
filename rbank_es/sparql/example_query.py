"""A class of a source, and a query that finds something in it, to show an agent how a call is written.

Small models hand in an example as it stands. So it is about what the question names, and cuts nothing off.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from rbank_es.ontology.prefixes import Prefixes, local_name
from rbank_es.ontology.rdf_names import OWL, RDF, RDFS, SH
from rbank_es.text.stems import stems_in

if TYPE_CHECKING:
    from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
    from rbank_es.sparql.data_source import Source

_MODELLING = (RDF, RDFS, OWL, SH)
"""Namespaces of classes whose instances are parts of a model: few questions are about them, however many there are."""

_NAME = re.compile(r"<[^<>\s]+>|\w[\w.-]*:\w(?:[\w.-]*\w)?")
"""A term as queries write it."""


def example_query(source: Source | None, question: str = "") -> str | None:
    """Return a query with rows: about the term that the question names, else things of a class that has many.

    A property is asked for its values, a class for its instances; of a term without any, the query asks what is
    declared of it. Returns None where no term is known. Nothing is asked.
    """
    schema = source.schema if source is not None else None
    if source is None or schema is None:
        return None
    prefixes = Prefixes(source.surroundings.prefixes)
    pattern = _of_named(schema, _terms_in(question, prefixes), prefixes) or _of_class(schema, question, prefixes)
    return f"SELECT * {{ {pattern} }}" if pattern else None


def _terms_in(question: str, prefixes: Prefixes) -> list[str]:
    """Return the IRIs of the terms that a question has as queries write them."""
    return [iri for name in _NAME.findall(question) if (iri := prefixes.expand(name)) is not None]


def _of_named(schema: Schema, named: Collection[str], prefixes: Prefixes) -> str:
    """Return a pattern about the property, else the class, that is among the named terms; empty where none is."""
    held = next((each for each in schema.properties if each.iri in named and each.triples != 0), None)
    cls = next((each for each in schema.classes if each.iri in named and each.instances != 0), None)
    if held is not None:
        typed = cls is not None and any((use.cls, use.property) == (cls.iri, held.iri) for use in schema.typed_uses)
        of_class = f"a {prefixes.shorten(cls.iri)} ; " if cls is not None and typed else ""
        return f"?x {of_class}{prefixes.shorten(held.iri)} ?value"
    if cls is not None:
        return f"?x a {prefixes.shorten(cls.iri)}"
    terms: tuple[PropertyInfo | ClassInfo, ...] = (*schema.properties, *schema.classes)
    declared = (each.iri for each in terms if each.iri in named and each.declared)
    return next((f"{prefixes.shorten(iri)} ?property ?value" for iri in declared), "")


def _of_class(schema: Schema, question: str, prefixes: Prefixes) -> str:
    """Return a pattern about things of a class, with a label where there is one; else about a class."""
    found = _class_and_property(schema, question)
    if found is None:
        declared = [each for each in schema.classes if each.declared]
        return f"{prefixes.shorten(_best(declared, question))} ?property ?value" if declared else ""
    cls, held = (prefixes.shorten(iri) if iri else "" for iri in found)
    return f"?x a {cls} ; {held} ?value" if held else f"?x a {cls}"


def example_class(source: Source | None, question: str = "") -> str | None:
    """Return the name of a class for an example, as queries write it; None where no class is known.

    It is the one that the question names; else that with most instances, or with most properties and relatives.
    """
    schema = source.schema if source is not None else None
    if source is None or schema is None or not schema.classes:
        return None
    return Prefixes(source.surroundings.prefixes).shorten(_best(schema.classes, question))


def _best(classes: Sequence[ClassInfo], question: str) -> str:
    first = min(
        classes,
        key=lambda each: (each.deprecated, is_modelling(each.iri), -(each.instances or 0), -each.degree, each.iri),
    )
    return class_named([each.iri for each in classes], question) or first.iri


def is_modelling(cls: str) -> bool:
    """Return whether the instances of a class are parts of a model, such as shapes."""
    return cls.startswith(_MODELLING)


def class_named(iris: Iterable[str], question: str) -> str | None:
    """Return the class whose name the question has: behind a prefix, else in words, in the singular or plural.

    Of several it is the one with the longest name.
    """
    said = _spoken(question)
    named = [(iri, name) for iri in iris if (name := _spoken(local_name(iri))).strip() and name in said]
    written = {name.partition(":")[2] for name in _NAME.findall(question)}
    return max(named, key=lambda each: (local_name(each[0]) in written, len(each[1])), default=(None,))[0]


def _spoken(text: str) -> str:
    return f" {' '.join(stems_in(text, 'english'))} "


def _class_and_property(schema: Schema, question: str) -> tuple[str, str] | None:
    """Return the IRIs of a class with instances and of a property that they have; of a class alone with none known."""
    held = [info for info in schema.classes if info.instances and not info.echoes]
    sizes = {info.iri: info.instances for info in [each for each in held if not is_modelling(each.iri)] or held}
    uses = [use for use in schema.typed_uses if use.cls in sizes]
    if uses:
        labels = schema.label_properties
        asked = class_named(sizes, question)
        uses = [use for use in uses if use.cls == asked] or uses
        best = min(uses, key=lambda use: (use.property not in labels, -(sizes[use.cls] or 0), use.cls, use.property))
        return best.cls, best.property
    return (min(sizes, key=lambda iri: (-(sizes[iri] or 0), iri)), "") if sizes else None
