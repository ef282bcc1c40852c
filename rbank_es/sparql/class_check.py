"""The check of a query's classes against the domains and ranges of its properties.

What it finds is a suspicion: in an open world a dog may be a car, unless somebody says otherwise. A thing that the
query types is suspected where none of its classes fits the stated domain or range of a property, and the data have no
such triple; one that it doesn't type, only where two properties need disjoint classes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import combinations, product

from rbank_es import limits
from rbank_es.ontology.disjointness import ClassFit, EndClasses
from rbank_es.ontology.rdf_names import SUBCLASS, TYPE
from rbank_es.sparql.parser import tree

Shorten = Callable[[str], str]


class _Facts:
    """What a group says of its nodes, by name: their classes, and the ends of properties where they stand."""

    def __init__(self, outer: _Facts | None = None) -> None:
        self._outer = outer
        self.types: defaultdict[str, list[str]] = defaultdict(list)
        self.ends: defaultdict[str, list[EndClasses]] = defaultdict(list)

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that the group itself mentions."""
        return tuple(dict.fromkeys((*self.types, *self.ends)))

    def types_of(self, name: str) -> list[str]:
        """Return the classes of a node, those that the groups around give first; each once."""
        outer = self._outer.types_of(name) if self._outer is not None else []
        return list(dict.fromkeys((*outer, *self.types.get(name, ()))))[: limits.CLASS_FACTS]

    def ends_of(self, name: str) -> list[EndClasses]:
        """Return the ends of properties where a node stands, likewise."""
        outer = self._outer.ends_of(name) if self._outer is not None else []
        return list(dict.fromkeys((*outer, *self.ends.get(name, ()))))[: limits.CLASS_FACTS]


def mismatches(query: tree.Query, fit: ClassFit, shorten: Shorten) -> list[str]:
    """Return a sentence for each thing whose class doesn't fit a property of it, in the order of the query."""
    found: dict[str, None] = {}
    waiting = deque((each.where, _Facts()) for each in tree.selections(query) if each.where is not None)
    while waiting:
        group, facts = waiting.popleft()
        dependent: list[tree.GroupPattern] = []
        for element in _together(group, dependent):
            if isinstance(element, tree.Triple):
                _read(element, fit, facts)
                found.update(dict.fromkeys(_literal(element, fit, shorten)))
        for name in facts.names:
            found.update(dict.fromkeys(_suspicions(name, facts, fit, shorten)))
        waiting += ((each, _Facts(facts)) for each in dependent)
    return list(found)


def _together(group: tree.GroupPattern, dependent: list[tree.GroupPattern]) -> Iterator[tree.Element]:
    """Yield the elements that hold at once; add the groups that hold in some solutions to `dependent`.

    Left out are MINUS, NOT EXISTS and subselects: what they say, holds of no solution, or of other variables.
    """
    for element in group.elements:
        if isinstance(element, tree.Nested) and element.kind in ("group", "graph"):
            for inner in element.groups:
                yield from _together(inner, dependent)
        elif isinstance(element, tree.Nested) and element.kind in ("optional", "union"):
            dependent += element.groups
        elif isinstance(element, tree.Filter) and isinstance(element.expression, tree.Exists):
            dependent += [] if element.expression.negated else [element.expression.group]
        else:
            yield element


def _read(triple: tree.Triple, fit: ClassFit, facts: _Facts) -> None:
    """Add what a triple says of its subject and its object."""
    subject, path, value = _name(triple.subject), triple.predicate, _name(triple.object)
    if isinstance(path, tree.Variable):
        return
    if _gives_type(path):
        if isinstance(triple.object, tree.Iri) and subject and fit.knows(triple.object.iri):
            facts.types[subject].append(triple.object.iri)
        return
    for name, forwards in ((subject, True), (value, False)):
        if name:
            facts.ends[name] += _ends(path, fit, begins=forwards)


def _name(node: tree.Node) -> str:
    match node:
        case tree.Variable(name):
            return f"?{name}"
        case tree.Blank(label):
            return label if label.startswith("_:") else f"_:{label}"
        case tree.Iri(iri):
            return iri
    return ""


def _gives_type(path: tree.Path) -> bool:
    """Return whether a path leads to the class of a thing: rdf:type, or that and any number of superclasses."""
    first, *rest = path.parts if isinstance(path, tree.Sequence) else (path,)
    above = all(isinstance(each, tree.Repeat) and _is_step(each.path, SUBCLASS) for each in rest)
    return _is_step(first, TYPE) and above


def _is_step(path: tree.Path, iri: str) -> bool:
    return isinstance(path, tree.PathStep) and path.iri.iri == iri


def _ends(path: tree.Path, fit: ClassFit, *, begins: bool) -> list[EndClasses]:
    """Return the classes at the beginning of a path, or at its end; none where it may have no step, or several."""
    match path:
        case tree.PathStep(iri):
            return fit.ends(iri.iri, "domain" if begins else "range")
        case tree.Inverse(inner):
            return _ends(inner, fit, begins=not begins)
        case tree.Sequence(parts):
            return _ends(parts[0 if begins else -1], fit, begins=begins)
        case tree.Repeat(inner, "+"):
            return _ends(inner, fit, begins=begins)
    return []


def _suspicions(name: str, facts: _Facts, fit: ClassFit, shorten: Shorten) -> Iterator[str]:
    """Yield what speaks against the classes of one node."""
    types, ends = facts.types_of(name), facts.ends_of(name)
    shown = name if name.startswith(("?", "_:")) else shorten(name)
    for one, other in combinations(types, 2):
        if fit.excludes(one, other):
            yield f"{shown} is typed {shorten(one)} and {shorten(other)}, which are disjoint"
    for end in ends if types else ():
        if not any(fit.occurs(cls, end) or any(fit.fits(cls, each) for each in end.classes) for cls in types):
            typed = f"{shown} is typed {_any(types, shorten, 'and')}"
            yield f"{typed}, and {_stated(end, shorten)}, {_unlike(types, end, fit, shorten)}"
    for first, second in combinations(ends, 2) if not types else ():
        if all(fit.excludes(*pair) for pair in product(first.classes, second.classes)):
            yield f"{shown} can't be both: {_stated(first, shorten)}, and {_stated(second, shorten)}; they are disjoint"


def _stated(end: EndClasses, shorten: Shorten) -> str:
    by = f" (of {shorten(end.inherited)})" if end.inherited else ""
    return f"{shorten(end.property)} has the {end.end} {_any(sorted(end.classes), shorten, 'or')}{by}"


def _any(classes: list[str], shorten: Shorten, word: str) -> str:
    return f" {word} ".join(map(shorten, classes))


def _unlike(types: list[str], end: EndClasses, fit: ClassFit, shorten: Shorten) -> str:
    words = f"of which {_any(types, shorten, 'or')} is no subclass"
    apart = all(fit.excludes(*pair) for pair in product(types, end.classes))
    return f"{words}; they are disjoint" if apart else words


def _literal(triple: tree.Triple, fit: ClassFit, shorten: Shorten) -> Iterator[str]:
    """Yield a sentence for a text or a number where a property leads to things."""
    if not isinstance(triple.object, tree.Value) or not isinstance(triple.predicate, tree.PathStep):
        return
    info = fit.info(triple.predicate.iri.iri)
    for end in fit.ends(info.iri, "range") if info is not None and info.kind == "object" else ():
        yield f"{triple.object.text} is a value, and {_stated(end, shorten)}"
