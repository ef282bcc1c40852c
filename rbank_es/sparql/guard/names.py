"""The names of a query: variables and labels where no engine takes them, and terms that a vocabulary doesn't know.

Both are found before anything runs, because an engine's error doesn't say what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Literal, NamedTuple, NoReturn

from rbank_es.ontology.prefixes import Prefixes, is_refused, local_name
from rbank_es.ontology.rdf_names import RDF, RDFS
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.query import ParsedQuery
from rbank_es.sparql.parser.tokens import Edit, clipped, refuse_at

Kind = Literal["class", "property"]

_OBJECTS: dict[str, Kind] = {
    RDF + "type": "class",
    RDFS + "subClassOf": "class",
    RDFS + "domain": "class",
    RDFS + "range": "class",
    RDFS + "subPropertyOf": "property",
}
"""Predicates that lead to a class or a property."""

SHOWN_TERMS = 5
"""Unknown terms that a refusal names; how many more there are, it counts."""

NEAREST = 3
"""Known terms or prefixes that are suggested for an unknown one."""

_LIKE_PREFIX = 0.75
"""The least ratio of difflib at which two prefixes are alike: at 0.5, `p:` and `up:` would be like `np:`."""


def refuse_scopes(parsed: ParsedQuery) -> None:
    """Raise `QueryRefused('syntax')` for a variable or a blank node that can't stand where it does.

    The rules are those of SPARQL 1.1, 18.2.1, 19.6 and 19.8: a name given by AS is new where it is given; what a
    grouped SELECT asks for is grouped or aggregated; a blank node's label belongs to one basic graph pattern.
    """
    for selection in tree.selections(parsed.tree):
        _refuse_names(selection, parsed)
        if tree.is_grouped(selection):
            _refuse_ungrouped(selection, parsed)
    for group in parsed.tree.groups:
        _refuse_binds(group, parsed)
    _refuse_labels(parsed)


def _refuse_names(selection: tree.Selection, parsed: ParsedQuery) -> None:
    """Raise for `(… AS ?x)` where ?x has a value already."""
    taken = tree.visible(selection.where) if selection.where else set()
    for expression in selection.grouping:
        if isinstance(expression, tree.FunctionCall) and expression.name == "AS":
            _take(expression.arguments[1], taken, parsed)
    for column in selection.columns:
        if column.expression is not None:
            _take(column.variable, taken, parsed)


def _refuse_binds(group: tree.GroupPattern, parsed: ParsedQuery) -> None:
    """Raise for BIND to a variable that what stands before it in the group binds."""
    before: set[str] = set()
    for element in group.elements:
        if isinstance(element, tree.Bind):
            _take(element.variable, before, parsed)
        before |= tree.bound_by(element)


def _take(variable: tree.Expression, taken: set[str], parsed: ParsedQuery) -> None:
    """Add a name that must be new to those taken; raise where it isn't."""
    if not isinstance(variable, tree.Variable):
        return
    if variable.name in taken:
        name = clipped(variable.name)
        message = f"?{name} has a value already, so that AS can't give it another"
        refuse_at(parsed.token_at(variable.offset), "syntax", message, f"use a new name, for instance ?{name}2")
    taken.add(variable.name)


def _refuse_ungrouped(selection: tree.Selection, parsed: ParsedQuery) -> None:
    """Raise for what a grouped SELECT asks for and neither groups nor aggregates."""
    if selection.star:
        hint = "name what is grouped, and put the rest into COUNT, SAMPLE or GROUP_CONCAT"
        refuse_at(parsed.token_at(selection.offset), "syntax", "SELECT * can't be grouped", hint)
    grouped = set(_grouped(selection))
    for column in selection.columns:
        for variable in _loose(column.expression or column.variable):
            if variable.name not in grouped:
                name = clipped(variable.name)
                hint = f"add it to GROUP BY, or ask for (SAMPLE(?{name}) AS ?one)"
                refuse_at(
                    parsed.token_at(variable.offset), "syntax", f"?{name} is neither grouped nor aggregated", hint
                )
        grouped.add(column.variable.name)


def _grouped(selection: tree.Selection) -> Iterator[str]:
    """Yield the names that have one value per group."""
    for expression in selection.grouping:
        named = (
            expression.arguments[1]
            if isinstance(expression, tree.FunctionCall) and expression.name == "AS"
            else expression
        )
        if isinstance(named, tree.Variable):
            yield named.name


def _loose(expression: tree.Expression) -> Iterator[tree.Variable]:
    """Yield the variables of an expression that stand in no aggregate and in no pattern of EXISTS."""
    if isinstance(expression, tree.Variable):
        yield expression
    elif isinstance(expression, tree.FunctionCall) and expression.name not in tree.AGGREGATES:
        for argument in expression.arguments:
            yield from _loose(argument)


def _refuse_labels(parsed: ParsedQuery) -> None:
    """Raise for a blank node's label that is in two basic graph patterns."""
    homes: dict[str, tuple[int, int]] = {}
    for group in parsed.tree.groups:
        part = 0  # A filter amid triples doesn't end their basic graph pattern (SPARQL 1.1, 5.1.1).
        for element in group.elements:
            part += not isinstance(element, tree.Triple | tree.Filter)
            for node in _labelled(element) if isinstance(element, tree.Triple) else ():
                if homes.setdefault(node.label, (group.offset, part)) != (group.offset, part):
                    hint = "use a variable instead: a blank node's label holds within one group of triples"
                    refuse_at(
                        parsed.token_at(node.offset), "syntax", f"{clipped(node.label)} stands in two groups", hint
                    )


def _labelled(triple: tree.Triple) -> Iterator[tree.Blank]:
    """Yield the blank nodes of a triple that have a label of their own."""
    yield from (node for node in triple if isinstance(node, tree.Blank) and node.label.startswith("_:"))


# ---------------------------------------------------------------- prefixes


def expanded_names(parsed: ParsedQuery) -> list[Edit]:
    """Return the edits that write those prefixed names as IRIs which pyoxigraph refuses, such as `ec:1.1.1.353`."""
    iris = parsed.notes.iris
    refused = (each for each in parsed.tokens if each.kind == "name" and each.offset in iris and is_refused(each.text))
    return [Edit(each.offset, each.end, f"<{iris[each.offset]}>") for each in refused]


def refuse_prefixes(parsed: ParsedQuery, vocabulary: Vocabulary | None) -> NoReturn:
    """Raise for prefixes that nobody declares, with the known terms of the same local name, else the nearest prefixes.

    A prefix that is usual elsewhere (`np:`) seldom resembles the one that the data have for its namespace, while the
    local name is the same.
    """
    named = ", ".join(f"{clipped(prefix)}:" for prefix in list(parsed.unknown)[:SHOWN_TERMS])
    prefix, token = next(iter(parsed.unknown.items()))
    written = f"{prefix}:"
    uses = [each for each in parsed.tokens if each.kind == "name" and each.text.startswith(written)]
    meant = {each.text: vocabulary.named(local_name(each.text)) for each in uses} if vocabulary is not None else {}
    known = {name: space for name, space in parsed.prefixes.items() if name not in parsed.tree.prefixes}
    shorten = Prefixes(known).shorten
    found = [
        f"instead of {clipped(text)} try {' or '.join(map(shorten, iris[:NEAREST]))}"
        for text, iris in meant.items()
        if iris
    ]
    hints = found[:NEAREST] or [f"declare it in front of the query: PREFIX {clipped(prefix)}: <namespace IRI>"]
    near = get_close_matches(prefix.lower(), sorted(known), NEAREST, _LIKE_PREFIX) if not found else []
    hints += [f"known here are {', '.join(f'{name}: <{known[name]}>' for name in near)}"] if near else []
    refuse_at(token, "unknown_prefix", f"not declared and not known here: {named}", "; ".join(hints))


# ---------------------------------------------------------------- terms


class Use(NamedTuple):
    """A term where a query needs a class, or a property."""

    kind: Kind
    iri: str
    offset: int


def uses(query: tree.Query, *, whole: bool) -> Iterator[Use]:
    """Yield the predicates, also within paths, and the classes and properties that these lead to.

    VALUES, BIND, filters and the template of a CONSTRUCT are left out. Unless the vocabulary is
    the `whole` of what there is, only rdf:type leads to a class: a description of an endpoint lists the classes that
    have instances, and knows nothing of their superclasses.
    """
    # A VoID description of an endpoint counts instances, so superclasses may be missing from it.
    leads: dict[str, Kind] = _OBJECTS if whole else {RDF + "type": "class"}
    for triple in tree.triples(query):
        if isinstance(triple.predicate, tree.Variable):
            continue
        yield from (Use("property", step.iri, step.offset) for step in tree.steps(triple.predicate))
        kinds: set[Kind | None] = {leads.get(last) for last in _lasts(triple.predicate)}
        if isinstance(triple.object, tree.Iri) and len(kinds) == 1 and (kind := kinds.pop()):
            yield Use(kind, triple.object.iri, triple.object.offset)


def _lasts(path: tree.Path) -> set[str]:
    """Return the predicates that a path may end with; an empty name for an end that says nothing of the object."""
    match path:
        case tree.PathStep():
            return {path.iri.iri}
        case tree.Repeat():
            return _lasts(path.path)
        case tree.Alternative():
            return set().union(*(_lasts(part) for part in path.parts))
        case tree.Sequence():
            return _lasts_of_sequence(path)
        case tree.Inverse(tree.PathStep(tree.Iri(iri))) if iri in (RDFS + "subClassOf", RDFS + "subPropertyOf"):
            return {iri}
        case tree.Inverse(tree.Repeat(inner)):
            return _lasts(tree.Inverse(inner))
        case tree.Inverse() | tree.Negation():
            return {""}


def _lasts_of_sequence(path: tree.Sequence) -> set[str]:
    """Return the predicates that a sequence may end with: an optional last part lets the one before it end."""
    found: set[str] = set()
    for part in reversed(path.parts):
        found |= _lasts(part)
        if not (isinstance(part, tree.Repeat) and part.sign in "*?"):
            break
    return found


def refuse_unknown(parsed: ParsedQuery, vocabulary: Vocabulary, *, whole: bool) -> None:
    """Raise `QueryRefused('unknown_term')` that names the unknown terms of a query, each with the nearest known ones.

    For `whole` see `uses`.
    """
    # By kind too: the same IRI may be known as a class and unknown as a property.
    unknown: dict[tuple[Kind, str], Use] = {}
    for use in uses(parsed.tree, whole=whole):
        if not _knows(vocabulary, use):
            unknown.setdefault((use.kind, use.iri), use)
    if not unknown:
        return
    shorten = Prefixes(dict(parsed.prefixes)).shorten
    shown = [(use, clipped(parsed.token_at(use.offset).text)) for use in list(unknown.values())[:SHOWN_TERMS]]
    more = f" and {len(unknown) - SHOWN_TERMS} more" if len(unknown) > SHOWN_TERMS else ""
    refuse_at(
        parsed.token_at(shown[0][0].offset),
        "unknown_term",
        f"unknown: {', '.join(f'{written} (no {use.kind} here)' for use, written in shown)}{more}",
        "; ".join(_suggestion(use, written, vocabulary, shorten) for use, written in shown),
    )


def _knows(vocabulary: Vocabulary, use: Use) -> bool:
    return vocabulary.knows_class(use.iri) if use.kind == "class" else vocabulary.knows_property(use.iri)


def _suggestion(use: Use, written: str, vocabulary: Vocabulary, shorten: Callable[[str], str]) -> str:
    if use.kind == "property" and use.iri in vocabulary.classes:
        return f"{written} is a class: ?x a {written}"
    if use.kind == "class" and use.iri in vocabulary.properties:
        return f"{written} is a property: ?x {written} ?y"
    nearest = vocabulary.nearest(use.iri, use.kind, NEAREST)
    if nearest:
        return f"instead of {written} try {' or '.join(map(shorten, nearest))}"
    return f"nothing here has a name like {written}: look at the schema"
