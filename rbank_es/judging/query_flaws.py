"""Flaws that are visible in a query itself, whatever its result: without these checks, such runs counted as right."""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.judging.run_outcome import asks_for_all, asks_for_names
from rbank_es.judging.verdict import Finding
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import local_name
from rbank_es.ontology.schema_model import PropertyInfo, Schema
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.query import ParsedQuery

_LABELS = frozenset(
    {
        rdf_names.RDFS + "label",
        rdf_names.SKOS + "prefLabel",
        rdf_names.SKOS + "altLabel",
        "http://xmlns.com/foaf/0.1/name",
        "http://schema.org/name",
        rdf_names.DCTERMS + "title",
        rdf_names.DC + "title",
    }
)
"""Properties whose values are names of a thing."""


def limited(query: ParsedQuery, task: str, rows: int | None) -> Iterator[Finding]:
    """`limit_below_all`: the task asks for all, and the query's own LIMIT cuts the answer, or may cut it."""
    limit = query.limit
    if (
        limit is None
        or not asks_for_all(task)
        or tree.is_grouped(query.tree.body)
        or (rows is not None and rows < limit)
    ):
        return
    seen = "" if rows is None else f", and it gave {rows:,} rows"
    yield Finding(
        code="limit_below_all", message=f"the task asks for all, and the query stops at LIMIT {limit:,}{seen}"
    )


def made_up(query: ParsedQuery) -> Iterator[Finding]:
    """`made_up_column`: a column holds only words that the query itself wrote, none that the data hold."""
    for name in sorted(set(tree.projected(query.tree.body))):
        written = list(_expressions_of(query, name))
        if written and all(isinstance(each, tree.Value) for each in written) and name not in _matched(query):
            words = ", ".join(dict.fromkeys(each.text for each in written if isinstance(each, tree.Value)))
            message = f"?{name} holds only what the query itself wrote ({words}): nothing of it comes from the data"
            yield Finding(code="made_up_column", message=message)


def _expressions_of(query: ParsedQuery, name: str) -> Iterator[tree.Expression]:
    """Yield the expressions that BIND and SELECT (… AS ?name) put under a name."""
    for element in tree.elements(query.tree):
        if isinstance(element, tree.Bind) and element.variable.name == name:
            yield element.expression
    columns = query.tree.body.columns
    yield from (column.expression for column in columns if column.variable.name == name and column.expression)


def _matched(query: ParsedQuery) -> set[str]:
    return {node.name for triple in tree.triples(query.tree) for node in triple if isinstance(node, tree.Variable)}


def named_only(query: ParsedQuery, task: str) -> Iterator[Finding]:
    """`name_for_thing`: what is asked for are things, and a column has only what they are called.

    Different things may be called the same, and one thing by many names.
    """
    shown = set(tree.projected(query.tree.body))
    if asks_for_names(task) or tree.is_grouped(query.tree.body) or len(shown) < 2:
        return
    for triple in tree.triples(query.tree):
        thing, label = triple.subject, triple.object
        if not (isinstance(thing, tree.Variable) and isinstance(label, tree.Variable) and _is_label(triple)):
            continue
        if label.name in shown and thing.name not in shown:
            message = (
                f"?{label.name} is only what ?{thing.name} is called, and ?{thing.name} itself is not in the answer"
            )
            yield Finding(code="name_for_thing", message=message)


def _is_label(triple: tree.Triple) -> bool:
    predicate = triple.predicate
    return isinstance(predicate, tree.PathStep) and predicate.iri.iri in _LABELS


def untyped(query: ParsedQuery, schema: Schema) -> Iterator[Finding]:
    """`untyped_variable`: things of several classes fit what is asked of a variable, and the query says not which.

    Told only where the schema settles it: every property that is asked of the variable starts from several classes,
    none of them a subclass of another, and nothing else in the pattern leads to it.
    """
    by_iri = {info.iri: info for info in schema.properties}
    for name in dict.fromkeys(tree.projected(query.tree.body)):
        asked = _asked_of(query, name)
        if not asked or rdf_names.TYPE in asked:
            continue
        shared = frozenset.intersection(*(_domains(by_iri.get(iri)) for iri in asked))
        classes = _topmost(shared, schema)
        if len(classes) > 1:
            named = ", ".join(sorted(map(local_name, classes)))
            message = f"?{name} has no type: by its properties it may be any of {named}"
            yield Finding(code="untyped_variable", message=message)


def _topmost(classes: frozenset[str], schema: Schema) -> frozenset[str]:
    """Return the classes that are no subclass of another one of them."""
    parents = {info.iri: info.parents for info in schema.classes}

    def above(iri: str) -> set[str]:
        found: set[str] = set()
        waiting = list(parents.get(iri, ()))
        while waiting:
            parent = waiting.pop()
            if parent not in found:
                found.add(parent)
                waiting += parents.get(parent, ())
        return found

    return frozenset(iri for iri in classes if not (above(iri) - {iri}) & classes)


def _asked_of(query: ParsedQuery, name: str) -> set[str] | None:
    """Return the properties of which a variable is the subject; None where the pattern says more of it."""
    found: set[str] = set()
    for triple in tree.triples(query.tree):
        if isinstance(triple.object, tree.Variable) and triple.object.name == name:
            return None
        if not (isinstance(triple.subject, tree.Variable) and triple.subject.name == name):
            continue
        if not isinstance(triple.predicate, tree.PathStep):
            return None
        found.add(triple.predicate.iri.iri)
    return found


def _domains(info: PropertyInfo | None) -> frozenset[str]:
    return frozenset(bound.iri for bound in info.domains) if info else frozenset()
