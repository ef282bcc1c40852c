"""Changes from one version of an ontology to the next: terms that are gone, renamed, or have another domain or
range. Pure: two schemas in, changes out.

A rename is never certain. A term that is gone is paired with one of its kind that came, if no third term has what the
two have in common. That is the local name (the namespace changed), else the label, else the use: the same numbers of
instances and of triples. What has no such partner is gone, with the nearest names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from rbank_es.ontology.defined_namespaces import defined_namespaces, space_of
from rbank_es.ontology.prefixes import local_name
from rbank_es.ontology.schema_model import Bound, ClassInfo, PropertyInfo, Schema, TermKind
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.text.spelled_words import plain_name

Change = Literal["gone", "renamed", "domain", "range"]
Way = Literal["", "name", "label", "use"]
"""How a rename was found; empty where there is none."""

Term = ClassInfo | PropertyInfo


class TermChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one term; IRIs throughout.

    `now` is the new name of a renamed one, the nearest names of one that is gone. `how` a rename was found: by name,
    label or use. `before` and `after` are the classes of a domain or range. `kind` is None for what is no term of a
    schema: an individual.
    """

    iri: str
    kind: TermKind | None
    change: Change
    now: tuple[str, ...] = ()
    how: Way = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def schema_changes(old: Schema, new: Schema, among: Collection[str] | None = None) -> dict[str, tuple[TermChange, ...]]:
    """Return the changes of the terms of the old schema that have any, by IRI; with `among`, of these terms only."""
    nearest = Vocabulary.from_schema(new).nearest
    found: defaultdict[str, list[TermChange]] = defaultdict(list)
    renamed: dict[str, str] = {}
    kinds: tuple[tuple[TermKind, Iterable[Term], Iterable[Term]], ...] = (
        ("class", old.classes, new.classes),
        ("property", old.properties, new.properties),
    )
    for kind, before, after in kinds:
        known = {term.iri for term in after}
        gone = [term for term in before if term.iri not in known]
        there = {term.iri for term in before}
        came = [term for term in after if term.iri not in there]
        pairs = dict(_renames(gone, came, _uses(old, renamed), _uses(new, {})))
        renamed |= {iri: now for iri, (now, _) in pairs.items()}
        # Only those, because the nearest names of a thousand terms take seconds.
        for term in (term for term in gone if among is None or term.iri in among):
            if term.iri in pairs:
                now, how = pairs[term.iri]
                made = TermChange(iri=term.iri, kind=kind, change="renamed", now=(now,), how=how)
            else:
                made = TermChange(iri=term.iri, kind=kind, change="gone", now=nearest(term.iri, kind))
            found[term.iri].append(made)
    for change in (each for each in _other_bounds(old, new, renamed) if among is None or each.iri in among):
        found[change.iri].append(change)
    return {iri: tuple(changes) for iri, changes in found.items()}


def gone_from(new: Schema, iris: Iterable[str]) -> dict[str, tuple[TermChange, ...]]:
    """Return as gone those IRIs that lie in a namespace which the schema defines and are none of its terms.

    For use without the old schema: a term that never existed looks the same.
    """
    vocabulary, own = Vocabulary.from_schema(new), defined_namespaces(new)
    found: dict[str, tuple[TermChange, ...]] = {}
    for iri in iris:
        if space_of(iri) not in own:
            continue
        if vocabulary.knows_class(iri) or vocabulary.knows_property(iri):
            continue
        now = (*vocabulary.nearest(iri, "class", 1), *vocabulary.nearest(iri, "property", 1))
        found[iri] = (TermChange(iri=iri, kind=None, change="gone", now=now),)
    return found


# ---------------------------------------------------------------- renames


def _renames(
    gone: list[Term], came: list[Term], old_use: Callable[[Term], Hashable], new_use: Callable[[Term], Hashable]
) -> Iterator[tuple[str, tuple[str, Way]]]:
    """Yield the terms that are gone, each with its new name and how that was found."""
    ways: tuple[tuple[Way, Callable[[Term], Hashable], Callable[[Term], Hashable]], ...] = (
        ("name", _name, _name),
        ("label", _label, _label),
        ("use", old_use, new_use),
    )
    for how, of_old, of_new in ways:
        before, after = _by_key(gone, of_old), _by_key(came, of_new)
        pairs = {
            olds[0].iri: after[key][0].iri
            for key, olds in before.items()
            if len(olds) == 1 and len(after.get(key, ())) == 1
        }
        for iri, now in pairs.items():
            yield iri, (now, how)
        taken = set(pairs.values())
        gone = [term for term in gone if term.iri not in pairs]
        came = [term for term in came if term.iri not in taken]


def _by_key(terms: Iterable[Term], key: Callable[[Term], Hashable]) -> dict[Hashable, list[Term]]:
    found: defaultdict[Hashable, list[Term]] = defaultdict(list)
    for term in terms:
        if (name := key(term)) is not None:
            found[name].append(term)
    return found


def _name(term: Term) -> Hashable:
    return local_name(term.iri).casefold() or None


def _label(term: Term) -> Hashable:
    return plain_name(term.label) or None


def _uses(schema: Schema, renamed: Mapping[str, str]) -> Callable[[Term], Hashable]:
    """Return a function from a term to its use in the data; None where there is no use to tell it by."""
    on: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for use in schema.typed_uses:
        on[use.property].append((renamed.get(use.cls, use.cls), use.uses))
        # A property that is renamed itself still has its number of uses.
        on[use.cls].append(("", use.uses))

    def key(term: Term) -> Hashable:
        size = term.instances if isinstance(term, ClassInfo) else term.triples
        return (size, tuple(sorted(on[term.iri]))) if size and on[term.iri] else None

    return key


# ---------------------------------------------------------------- domains and ranges


def _other_bounds(old: Schema, new: Schema, renamed: Mapping[str, str]) -> Iterator[TermChange]:
    """Yield the changes of domain and range of the properties that both have, by either name."""
    now = {each.iri: each for each in new.properties}
    for each in old.properties:
        other = now.get(renamed.get(each.iri, each.iri))
        if other is None:
            continue
        ends: tuple[tuple[Change, tuple[Bound, ...], tuple[Bound, ...]], ...] = (
            ("domain", each.domains, other.domains),
            ("range", each.ranges, other.ranges),
        )
        for end, before, after in ends:
            # A class that only has another name now is the same bound.
            if {renamed.get(bound.iri, bound.iri) for bound in before} != {bound.iri for bound in after}:
                yield TermChange(iri=each.iri, kind="property", change=end, before=_iris(before), after=_iris(after))


def _iris(bounds: Iterable[Bound]) -> tuple[str, ...]:
    return tuple(sorted({bound.iri for bound in bounds}))
