"""Hints for a query without results: likely causes in this query and these data, as far as the schema shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rbank_es import limits
from rbank_es.errors import QueryFailed, QueryRefused
from rbank_es.limits import tool_limits
from rbank_es.ontology.rdf_names import TYPE
from rbank_es.sparql.lint import findings
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery
from rbank_es.sparql.parser.tokens import Edit, Token, rewritten
from rbank_es.sparql.results import Row
from rbank_es.system.text_cuts import cut
from rbank_es.tools.graph.schema_tables import SchemaTables, tables_of
from rbank_es.tools.graph.term_names import reference
from rbank_es.tools.shared.result_page import value_of
from rbank_es.tools.shared.tool_family import ToolError

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source


DEFAULT = (
    "If you expected something: check directions, spelling and letter case; sparql_peek(resource) shows how a thing is "
    "described; leave out one pattern or FILTER at a time"
)


class RequiredLink(NamedTuple):
    """A pattern that must match, and leads from one thing to another by a property."""

    subject: tree.Node
    property: str
    object: tree.Node


class RequiredPattern:
    """The part of a query that must match: the classes of its things, and their links."""

    def __init__(self, where: tree.GroupPattern | None) -> None:
        self.classes: dict[str, set[str]] = {}
        self.direct: list[str] = []
        self.links: list[RequiredLink] = []
        self.filtered = False
        self.compared: set[str] = set()
        for element in _required(where):
            if isinstance(element, tree.Filter):
                self.filtered = True
                self.compared.update(_compared(element.expression))
            if isinstance(element, tree.Triple) and not isinstance(element.predicate, tree.Variable):
                self._add(element, element.predicate)

    def _add(self, triple: tree.Triple, path: tree.Path) -> None:
        first, deep = _type_path(path)
        if first and isinstance(triple.object, tree.Iri):
            self.classes.setdefault(_name(triple.subject), set()).add(triple.object.iri)
            if not deep:
                self.direct.append(triple.object.iri)
            return
        link = _link(triple, path)
        if link is not None:
            self.links.append(link)

    def classes_of(self, node: tree.Node) -> set[str]:
        """Return the classes that the query gives a thing."""
        return self.classes.get(_name(node), set())


def hint_for(query: ParsedQuery, source: Source) -> str:
    """Return a sentence on what to try next after a query that found nothing."""
    reading = RequiredPattern(query.tree.body.where)
    try:
        found = _of_rows(query, source) or _of_graphs(query.tree, source)
        if not found and source.schema is not None:
            found = next(_Hinter(reading, tables_of(source), source).hints(), "")
    except (QueryRefused, ToolError):  # a query that can be run, and names what can't be looked up
        return DEFAULT
    if source.schema is None:
        return found or DEFAULT
    return found or ("A FILTER may be too strict: try without it. " * reading.filtered + DEFAULT)


def _of_rows(query: ParsedQuery, source: Source) -> str:
    """Return a hint at LIMIT 0, or at an OFFSET behind the last row."""
    if query.limit == 0:
        return "LIMIT 0 asks for no rows: give a larger LIMIT, or none"
    number = _offset_number(query)
    if number is None or int(number.text) == 0:
        return ""
    # An endpoint is not asked again for a hint: its answers cost others' time.
    offset = int(number.text)
    if source.kind != "local":
        return f"OFFSET {offset} may lie behind the last row: try a smaller one, or none, before anything else"
    text = rewritten(query.text, [Edit(number.offset, number.end, "0")])
    try:
        there = source.query(text, rows=1, timeout_s=tool_limits.HINT_QUERY_S)[1].rows
    except (QueryRefused, QueryFailed):
        return ""
    return f"OFFSET {offset} lies behind the last row: without it there are rows" if there else ""


def _offset_number(query: ParsedQuery) -> Token | None:
    """Return the number after the OFFSET of the query itself, not of a subselect."""
    slices = [token for token in query.words if query.notes.roles.get(token.offset) == "slice"]
    return next((after for token, after in pairwise(slices) if token.keyword == "OFFSET"), None)


def _of_graphs(asked: tree.Query, source: Source) -> str:
    """Return a hint at a GRAPH that isn't there, with those that are."""
    if source.kind != "local":
        return ""
    found = findings(asked, source.surroundings.graphs)
    return next((f"{each.message}: {each.alternative}" for each in found if each.code == "unknown_graph"), "")


class _Hinter:
    """A search for the fault of a query, the most certain one first."""

    def __init__(self, reading: RequiredPattern, tables: SchemaTables, source: Source) -> None:
        self._reading = reading
        self._tables = tables
        self._source = source
        self._short = tables.names.shorten
        self._types: dict[str, set[str]] = {}

    def hints(self) -> Iterator[str]:
        """Yield hints, the best first."""
        yield from filter(None, map(self._of_class, self._reading.direct))
        yield from filter(None, map(self._of_property, self._reading.links))
        yield from filter(None, map(self._of_direction, self._reading.links))
        yield from filter(None, map(self._of_absence, self._reading.links))
        if self._source.kind == "local":
            yield from filter(None, map(self._of_value, self._reading.links))
            yield from filter(None, map(self._of_name, self._reading.links))

    def _of_class(self, cls: str) -> str:
        """Return a hint at a class without instances of its own."""
        if self._tables.instances(cls) != 0:
            return ""
        below = [each for each in self._tables.descendants(cls) if self._tables.instances(each)]
        below.sort(key=lambda each: (-(self._tables.instances(each) or 0), each))
        name = self._short(cls)
        if below:
            counts = self._counts(below)
            return f"{name} has no direct instances, its subclasses have: {counts}. Use ?x a/rdfs:subClassOf* {name}"
        there = [each for each in self._tables.classes if self._tables.instances(each)]
        return f"{name} has no instances in these data. Classes that have: {self._counts(there) or 'none'}"

    def _counts(self, classes: list[str]) -> str:
        shown = ", ".join(
            f"{self._short(each)} ({self._tables.instances(each)})" for each in classes[: limits.NAMES_LISTED]
        )
        return f"{shown}, …" if len(classes) > limits.NAMES_LISTED else shown

    def _of_property(self, link: RequiredLink) -> str:
        """Return a hint at a property that the data never use."""
        known = self._tables.properties.get(link.property)
        if known is None or known.triples != 0:
            return ""
        name = self._short(link.property)
        for inverse in known.inverses:
            if triples := self._tables.triples(inverse):
                other = self._short(inverse)
                way = self._turned(link, other)
                found = f"{triples} triple{'s' if triples > 1 else ''}"
                return f"the data never use {name}, but its inverse {other} ({found}). Turn it round: {way}"
        below = [iri for iri, each in self._tables.properties.items() if link.property in each.parents and each.triples]
        if below:
            return f"the data never use {name} itself, but {self._names(below)}"
        return f"the data never use {name}. {self._instead(link)}"

    def _names(self, iris: Sequence[str]) -> str:
        different = [*dict.fromkeys(iris)]
        return ", ".join(map(self._short, different[: limits.NAMES_LISTED])) + (
            ", …" if len(different) > limits.NAMES_LISTED else ""
        )

    def _instead(self, link: RequiredLink) -> str:
        for cls in sorted(self._reading.classes_of(link.subject)):
            has = [each.property for each in self._tables.properties_of(cls) if each.triples]
            if has:
                return f"{self._short(cls)} has {self._names(has)}"
        return "sparql_schema('properties') lists those in use"

    def _of_direction(self, link: RequiredLink) -> str:
        """Return a hint at two classes that the data link another way."""
        starts, ends = self._closed(link.subject), self._closed(link.object)
        known = self._tables.properties.get(link.property)
        if known is None or not starts or not ends or link.property in self._between(starts, ends):
            return ""
        if not self._tables.complete:
            return ""
        name = self._short(link.property)
        there, back = self._between(starts, ends), self._between(ends, starts)
        if link.property in back:
            return f"here {name} leads the other way: {self._turned(link, name)}"
        for inverse in known.inverses:
            if inverse in back:
                other = self._short(inverse)
                return f"here the data have {other}, the inverse of {name}. Turn it round: {self._turned(link, other)}"
        if there:
            return f"between these classes the data have {self._names(there)}, not {name}"
        return f"between these classes the data have {self._names(back)}, the other way round" if back else ""

    def _closed(self, node: tree.Node) -> set[str]:
        """Return the classes that the query gives a thing, and those below them."""
        classes = self._classes_of(node)
        return classes.union(*(self._tables.descendants(each) for each in classes))

    def _classes_of(self, node: tree.Node) -> set[str]:
        """Return the classes that the query gives a thing; of a thing that it names, those in the data."""
        said = self._reading.classes_of(node)
        if said or not isinstance(node, tree.Iri) or self._source.kind != "local":
            return said
        if node.iri not in self._types:
            found = self._rows(f"SELECT ?c WHERE {{ {reference(node.iri)} a ?c }} LIMIT {limits.NAMES_LISTED}")
            self._types[node.iri] = {row[0].value for row in found if row[0] is not None}
        return self._types[node.iri]

    def _between(self, starts: set[str], ends: set[str]) -> list[str]:
        """Return the properties that lead from some classes to others, the most used first."""
        links = self._tables.schema.links
        return [each.property for each in links if each.subject in starts and each.object in ends]

    def _of_absence(self, link: RequiredLink) -> str:
        """Return a hint at a property that instances of the class don't have."""
        starts = self._closed(link.subject)
        known = self._tables.properties.get(link.property)
        every = [has for cls in sorted(starts) for has in self._tables.properties_of(cls) if has.triples]
        used = [has.property for has in sorted(every, key=lambda has: (-(has.triples or 0), has.property))]
        if known is None or not starts or link.property in used or not self._tables.complete:
            return ""
        leading = {each.property for each in self._tables.schema.links if each.object in starts}
        for prop in (link.property, *known.inverses):
            if prop in leading:
                other = self._short(prop)
                return f"here {other} leads the other way. Turn it round: {self._turned(link, other)}"
        if not used:
            return ""
        what = self._names(sorted(self._classes_of(link.subject)))
        return f"instances of {what} have no {self._short(link.property)}; they have {self._names(used)}"

    def _turned(self, link: RequiredLink, prop: str) -> str:
        return f"{self._told(link.object)} {prop} {self._told(link.subject)}"

    def _told(self, node: tree.Node) -> str:
        if isinstance(node, tree.Variable):
            return f"?{node.name}"
        return self._short(node.iri) if isinstance(node, tree.Iri) else "?x"

    # ---------------------------------------------------------------- looks at the data

    def _of_value(self, link: RequiredLink) -> str:
        """Return a hint at a literal that may be spelled otherwise."""
        if not isinstance(link.object, tree.Value) and _name(link.object) not in self._reading.compared:
            return ""
        some = f"?s {reference(link.property)} ?v"
        values = self._probe(f"SELECT DISTINCT ?v WHERE {{ {some} }} ORDER BY ?v LIMIT {limits.NAMES_LISTED}")
        shown = ", ".join(cut(value, tool_limits.HINT_VALUE_CHARS) for value in values)
        how = '; compare loosely: FILTER(CONTAINS(LCASE(STR(?v)), "…"))' if shown[:1] in "'\"" else ""
        return f"values of {self._short(link.property)} look like {shown}{how}" if values else ""

    def _of_name(self, link: RequiredLink) -> str:
        """Return a hint at a thing that no triple has there."""
        for node, pattern in ((link.subject, "{} ?p ?o"), (link.object, "?s ?p {}")):
            if not isinstance(node, tree.Iri):
                continue
            if not self._probe(f"SELECT ?p WHERE {{ {pattern.format(reference(node.iri))} }} LIMIT 1"):
                check = f"check its spelling, and the direction of {self._short(link.property)}"
                return f"no triple has {self._short(node.iri)} there: {check}"
        return ""

    def _probe(self, query: str) -> list[str]:
        cells = [row[0] for row in self._rows(query) if row[0] is not None]
        return [f'"{cell.value}"@{cell.lang}' if cell.lang else repr(value_of(cell)) for cell in cells]

    def _rows(self, query: str) -> Sequence[Row]:
        try:
            return self._source.query(query, rows=limits.NAMES_LISTED, timeout_s=tool_limits.HINT_QUERY_S)[1].rows
        except (QueryRefused, QueryFailed):
            return ()


# ---------------------------------------------------------------- reading patterns


def _required(group: tree.GroupPattern | None) -> Iterator[tree.Element]:
    """Yield the elements that must match: not those of OPTIONAL and MINUS."""
    for element in group.elements if group is not None else ():
        yield element
        if isinstance(element, tree.Nested) and element.kind not in ("optional", "minus"):
            for inner in element.groups:
                yield from _required(inner)
        elif isinstance(element, tree.Selection):
            yield from _required(element.where)


def _name(node: tree.Node) -> str:
    if isinstance(node, tree.Variable):
        return f"?{node.name}"
    if isinstance(node, tree.Iri):
        return node.iri
    return f"_:{node.label}" if isinstance(node, tree.Blank) else f"at {node.offset}"


def _compared(expression: tree.Expression) -> Iterator[str]:
    """Yield the variables that a condition compares with a literal, directly or by a function."""
    for call in tree.calls(expression):
        if any(isinstance(each, tree.Value) for each in call.arguments):
            yield from (f"?{name}" for name in sorted(tree.variables_of(call)))


def _type_path(path: tree.Path) -> tuple[bool, bool]:
    """Return whether a path begins with rdf:type, and whether it goes on from there (to superclasses)."""
    if isinstance(path, tree.PathStep):
        return path.iri.iri == TYPE, False
    if isinstance(path, tree.Sequence) and path.parts:
        return _type_path(path.parts[0])[0], True
    return False, False


def _link(triple: tree.Triple, path: tree.Path) -> RequiredLink | None:
    """Return the link of a path of one property, repeated or not; None for other paths."""
    if isinstance(path, tree.Repeat):
        return _link(triple, path.path)
    if isinstance(path, tree.Inverse):
        turned = tree.Triple(triple.object, path.path, triple.subject)
        return _link(turned, path.path)
    return RequiredLink(triple.subject, path.iri.iri, triple.object) if isinstance(path, tree.PathStep) else None
