"""Schemas made by hand, in one namespace: names stand for IRIs."""

from __future__ import annotations

from typing import Any

from rbank_es.ontology.prefixes import Prefixes
from rbank_es.ontology.schema_model import Bound, Cardinality, ClassInfo, Link, PropertyInfo, Schema, TypedUse

EX = "https://example.org/ns#"
PREFIXES = Prefixes({"ex": EX})


def iri(name: str) -> str:
    return name if "://" in name else EX + name


def cls(name: str, parents: str = "", **facts: Any) -> ClassInfo:
    """A class; its parents are named, parted by blanks."""
    return ClassInfo(iri=iri(name), parents=tuple(map(iri, parents.split())), **facts)


def prop(name: str, domains: str = "", ranges: str = "", **facts: Any) -> PropertyInfo:
    """A property; its domains and ranges are named, parted by blanks, as are its parents and inverses."""
    for key in ("parents", "inverses"):
        facts[key] = tuple(map(iri, facts.get(key, "").split()))
    starts, ends = (tuple(Bound(iri=iri(one), source="rdfs") for one in side.split()) for side in (domains, ranges))
    return PropertyInfo(iri=iri(name), domains=starts, ranges=ends, **facts)


def link(subject: str, name: str, other: str, uses: int = 1) -> Link:
    return Link(subject=iri(subject), property=iri(name), object=iri(other), uses=uses)


def use(cls_: str, name: str, uses: int = 1) -> TypedUse:
    return TypedUse(cls=iri(cls_), property=iri(name), uses=uses)


def values(cls_: str, name: str, least: int | None = None, most: int | None = None) -> Cardinality:
    return Cardinality(cls=iri(cls_), property=iri(name), least=least, most=most, source="owl")


def make(*parts: Any, **facts: Any) -> Schema:
    """A schema of classes, properties, links, uses and cardinalities, in any order; degrees are counted."""
    properties = sorted((part for part in parts if isinstance(part, PropertyInfo)), key=lambda part: part.iri)
    ends = [{bound.iri for bound in (*one.domains, *one.ranges)} for one in properties]
    classes = [
        ClassInfo(
            **{
                **{name: getattr(part, name) for name in part.__struct_fields__},
                "degree": sum(part.iri in e for e in ends),
            }
        )
        for part in parts
        if isinstance(part, ClassInfo)
    ]
    return Schema(
        triples=facts.pop("triples", 100),
        prefixes=dict(PREFIXES),
        classes=tuple(sorted(classes, key=lambda part: part.iri)),
        properties=tuple(properties),
        links=tuple(part for part in parts if isinstance(part, Link)),
        typed_uses=tuple(part for part in parts if isinstance(part, TypedUse)),
        cardinalities=tuple(part for part in parts if isinstance(part, Cardinality)),
        **facts,
    )


def line_of(text: str, title: str) -> str:
    """What stands on the line that begins so; empty if there is none."""
    return next((line.removeprefix(title) for line in text.splitlines() if line.startswith(title)), "")
