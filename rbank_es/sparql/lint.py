"""Lint: what a query tells by itself. Names that stand where no engine takes them are refused; parts that are slow, or
probably not meant, give warnings, and a profile may refuse such queries.

Both are found before anything runs, because an engine's error doesn't say what to write instead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator

import msgspec

from rbank_es import limits
from rbank_es.ontology.rdf_names import TYPE
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery
from rbank_es.sparql.parser.tokens import clipped, refuse_at

CODES: dict[str, str] = {
    "unbound_predicate": "a predicate is a variable, and neither end of its triple is known",
    "string_filter_on_predicate": "a filter looks into the IRIs of predicates",
    "string_filter": "a filter looks into the text of every value",
    "cross_product": "parts of a pattern share no variable",
    "graph_scan": "GRAPH with a variable goes through every graph",
    "unknown_graph": "GRAPH names a graph that isn't there",
    "unbounded_path": "a path of any length, with both ends open",
    "order_without_limit": "everything is sorted before the first row comes",
    "unbound_variable": "a variable is asked for that no pattern binds",
    "class_mismatch": "a thing's class doesn't fit the domain or range of a property of it",
    "limit_counts_solutions": "LIMIT counts solutions of the pattern, not triples",
}
"""Every code of a finding, with its meaning."""

_STRING_TESTS = frozenset({"CONTAINS", "REGEX", "STRSTARTS", "STRENDS"})


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A warning about a query, known before it runs."""

    code: str
    """Stable, for programs and profiles: one of `CODES`."""
    message: str
    alternative: str
    """The query to write instead, in words."""


def refuse_scopes(parsed: ParsedQuery, *, local: bool = True) -> None:
    """Raise `QueryRefused('syntax')` for a variable, an aggregate or a blank node that can't stand where it does.

    The rules are those of SPARQL 1.1, 11.2, 18.2.1, 19.6 and 19.8: a name given by AS is new where it is given; what a
    grouped SELECT asks for is grouped or aggregated; a blank node's label belongs to one basic graph pattern. Where
    some endpoints take more, only a `local` query is refused: GROUP BY a name that SELECT gives, aggregates in FILTER,
    BIND and GROUP BY, and within another aggregate.
    """
    for selection in tree.selections(parsed.tree):
        if local:
            _refuse_aggregates(selection, parsed)
            _refuse_early_names(selection, parsed)
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


def _refuse_early_names(selection: tree.Selection, parsed: ParsedQuery) -> None:
    """Raise for GROUP BY ?n where SELECT (… AS ?n) gives the name, which happens only after grouping."""
    bound = tree.visible(selection.where) if selection.where else set()
    made = {each.variable.name: each.expression for each in selection.columns if each.expression is not None}
    for grouped in selection.grouping:
        if isinstance(grouped, tree.Variable) and grouped.name in made.keys() - bound:
            name, expression = clipped(grouped.name), made[grouped.name]
            counts = any(call.name in tree.AGGREGATES for call in tree.calls(expression))
            hint = f"leave ?{name} out of GROUP BY" if counts else f"name it while grouping: GROUP BY (… AS ?{name})"
            message = f"GROUP BY names ?{name}, which SELECT (… AS ?{name}) gives only after grouping"
            refuse_at(parsed.token_at(grouped.offset), "syntax", message, hint)


def _refuse_aggregates(selection: tree.Selection, parsed: ParsedQuery) -> None:
    """Raise for an aggregate in GROUP BY, in FILTER or BIND of the pattern, or within another aggregate."""
    elements = selection.where.elements if selection.where is not None else ()
    early = [(each.expression, "FILTER") for each in elements if isinstance(each, tree.Filter)]
    early += [(each.expression, "BIND") for each in elements if isinstance(each, tree.Bind)]
    early += [(each, "GROUP BY") for each in selection.grouping]
    hints = {"FILTER": "put the condition into HAVING(…), behind GROUP BY", "BIND": "use SELECT (COUNT(?x) AS ?n)"}
    for expression, where in early:
        for call in _aggregates(expression):
            message = f"{call.name} stands in {where}, where nothing is grouped yet"
            refuse_at(parsed.token_at(call.offset), "syntax", message, hints.get(where, "group in a subquery first"))
    for expression in selection.expressions:
        for call in _aggregates(expression):
            for inner in (found for argument in call.arguments for found in _aggregates(argument)):
                message = f"{inner.name} stands inside of {call.name}: an aggregate takes no other"
                hint = f"compute {inner.name} in a subquery, and {call.name} of it outside"
                refuse_at(parsed.token_at(inner.offset), "syntax", message, hint)


def _aggregates(expression: tree.Expression) -> Iterator[tree.FunctionCall]:
    yield from (call for call in tree.calls(expression) if call.name in tree.AGGREGATES)


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


# ---------------------------------------------------------------- warnings


def findings(query: tree.Query, graphs: Collection[str] | None = None) -> tuple[LintFinding, ...]:
    """Return all findings of a query, each once, in the order of `CODES`. `graphs`: the named graphs, where known."""
    known = narrowed(query)
    found = [finding for find in _FINDERS for finding in find(query, known)]
    if graphs is not None:
        found += _unknown_graphs(query, graphs)
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: list(CODES).index(finding.code)))


def _is_open(node: tree.Node | tree.Path, known: frozenset[str]) -> bool:
    """Return whether a node is a variable that nothing in the query holds to few values."""
    return isinstance(node, tree.Variable) and node.name not in known


def _listed(variables: set[str]) -> str:
    """Return variables as a message shows them."""
    shown = [f"?{clipped(name)}" for name in sorted(variables) if not name.startswith("_:")]
    return ", ".join(shown[: limits.VARIABLES_NAMED]) + (", …" if len(shown) > limits.VARIABLES_NAMED else "")


def _unbound_predicates(query: tree.Query, known: frozenset[str]) -> Iterator[LintFinding]:
    """Yield a finding for each `?s ?p ?o` where neither end is known."""
    for triple in tree.triples(query):
        if isinstance(triple.predicate, tree.Variable) and all(_is_open(node, known) for node in triple):
            yield LintFinding(
                code="unbound_predicate",
                message=f"the predicate {_listed({triple.predicate.name})} is a variable over all data",
                alternative="name the predicate, or the subject; sparql_schema lists the predicates that there are",
            )


def _expressions(query: tree.Query) -> Iterator[tree.Expression]:
    for selection in tree.selections(query):
        yield from selection.expressions
    yield from (element.expression for element in tree.elements(query) if isinstance(element, tree.Filter | tree.Bind))


def _string_tests(query: tree.Query) -> Iterator[tuple[tree.FunctionCall, set[str]]]:
    """Yield every test of a text, with the names of the variables whose text it searches."""
    made = {b.variable.name: tree.variables_of(b.expression) for b in tree.elements(query) if isinstance(b, tree.Bind)}
    for expression in _expressions(query):
        for call in tree.calls(expression):
            if call.name in _STRING_TESTS and call.arguments:
                looked = tree.variables_of(call.arguments[0])
                yield call, looked.union(*(made.get(name, set()) for name in looked))


def _string_filters(query: tree.Query, known: frozenset[str]) -> Iterator[LintFinding]:
    """Yield findings for REGEX, CONTAINS and the like over predicates, or over values that nothing else restricts."""
    predicates = {t.predicate.name for t in tree.triples(query) if isinstance(t.predicate, tree.Variable)}
    tests = [(call.name, looked - known) for call, looked in _string_tests(query)]
    if over := [(name, looked & predicates) for name, looked in tests if looked & predicates]:
        yield LintFinding(
            code="string_filter_on_predicate",
            message=f"{_told(over)} in the IRIs of predicates",
            alternative="find the predicate with sparql_schema first, then name it in the query",
        )
    if over := [(name, looked - predicates) for name, looked in tests if looked - predicates]:
        yield LintFinding(
            code="string_filter",
            message=f"{_told(over)} in the text of every value",
            alternative="narrow the pattern first: a type, an exact value, or a known subject",
        )


def _told(tests: list[tuple[str, set[str]]]) -> str:
    functions = " and ".join(sorted({name for name, _ in tests}))
    return f"{functions} over {_listed(set().union(*(looked for _, looked in tests)))} searches"


def _graph_scans(query: tree.Query, known: frozenset[str]) -> Iterator[LintFinding]:
    for element in tree.elements(query):
        if isinstance(element, tree.Nested) and element.graph is not None and _is_open(element.graph, known):
            yield LintFinding(
                code="graph_scan",
                message=f"GRAPH {_listed({element.graph[0]})} goes through every graph",
                alternative="leave GRAPH out, or name the graph",
            )


def _unknown_graphs(query: tree.Query, graphs: Collection[str]) -> Iterator[LintFinding]:
    for element in tree.elements(query):
        if isinstance(element, tree.Nested) and isinstance(element.graph, tree.Iri) and element.graph.iri not in graphs:
            those = f", or name one of: {', '.join(sorted(graphs)[: limits.NAMES_LISTED])}" if graphs else ""
            yield LintFinding(
                code="unknown_graph",
                message=f"there is no graph <{clipped(element.graph.iri)}> here, so that nothing is found in it",
                alternative=f"leave GRAPH out{those}",
            )


def _unbounded_paths(query: tree.Query, known: frozenset[str]) -> Iterator[LintFinding]:
    """Yield a finding for each `?a p* ?b` where nothing else restricts either end."""
    uses = Counter(name for triple in tree.triples(query) for name in tree.names(triple))
    for triple in tree.triples(query):
        ends = tree.names(triple) - known
        if isinstance(triple.predicate, tree.Variable) or not _repeats(triple.predicate) or len(ends) < 2:
            continue
        if all(uses[name] == 1 for name in ends):
            yield LintFinding(
                code="unbounded_path",
                message=f"the path between {_listed(ends)} may have any length, and begins and ends anywhere",
                alternative="name one end, or bind it with another pattern",
            )


def _repeats(path: tree.Path) -> bool:
    """Return whether a path as a whole can be walked any number of times."""
    match path:
        case tree.Repeat(_, sign):
            return sign in "*+"
        case tree.Inverse(inner):
            return _repeats(inner)
        case tree.Sequence(parts) | tree.Alternative(parts):
            return any(_repeats(part) for part in parts)
    return False


def _orders(query: tree.Query, _: frozenset[str]) -> Iterator[LintFinding]:
    if query.form != "ask" and query.body.ordered and query.body.limit is None and not tree.is_grouped(query.body):
        yield LintFinding(
            code="order_without_limit",
            message="ORDER BY without a LIMIT sorts everything before the first row comes",
            alternative="add a LIMIT, or leave out the order",
        )


def _unbound_variables(query: tree.Query, _: frozenset[str]) -> Iterator[LintFinding]:
    """Yield a finding for variables that are asked for, or tested, and that nothing binds: misspelt, most often."""
    for selection in tree.selections(query):
        if selection.where is None:
            continue
        bound = tree.visible(selection.where) | _made(selection)
        if selection.values:
            bound |= tree.bound_by(selection.values)
        wanted = set(tree.projected(selection)).union(*(tree.variables_of(e) for e in selection.expressions))
        if missing := wanted - bound:
            yield LintFinding(
                code="unbound_variable",
                message=f"no pattern binds {_listed(missing)}",
                alternative="use the name that the pattern has"
                + (f": {_listed(bound)}" if bound else ", or add a pattern"),
            )


def _made(selection: tree.Selection) -> set[str]:
    """Return the names that a SELECT gives to expressions."""
    named = {column.variable.name for column in selection.columns if column.expression is not None}
    aliases = (call for expression in selection.expressions for call in tree.calls(expression) if call.name == "AS")
    return named.union(*(tree.variables_of(call.arguments[1]) for call in aliases))


def _cross_products(query: tree.Query, known: frozenset[str]) -> Iterator[LintFinding]:
    """Yield a finding for a group whose parts share no variable, where at least two may have many values."""
    for group in query.groups:
        # `[] ex:p []` joins nothing and multiplies nothing: it is a test with one outcome.
        loose = [part for part in _components(group) if not part <= known and not all(n.startswith("_:") for n in part)]
        if len(loose) > 1:
            parts = " and ".join(sorted(_listed(part) for part in loose)[: limits.NAMES_LISTED])
            yield LintFinding(
                code="cross_product",
                message=f"nothing joins {parts}: every combination is an answer",
                alternative="add a triple that joins them, or ask in two queries",
            )


def _components(group: tree.GroupPattern) -> list[set[str]]:
    """Return the variables of a group in sets: those together that its patterns and filters join."""
    parts: list[set[str]] = []
    binding: set[str] = set()
    for element in group.elements:
        joined = _joined(element)
        if not isinstance(element, tree.Filter):
            binding |= joined
        if not joined:
            continue
        parts = [part for part in parts if not part & joined] + [joined.union(*(p for p in parts if p & joined))]
    return [part & binding for part in parts if part & binding]


def _joined(element: tree.Element) -> set[str]:
    """Return the variables and blank nodes that an element joins."""
    match element:
        case tree.Triple():
            return tree.joints(element)
        case tree.Filter():
            return tree.variables_of(element.expression)
        case tree.Bind():
            return tree.variables_of(element.expression) | {element.variable.name}
        case tree.Selection():
            return set(tree.projected(element))
        case tree.Nested() | tree.Values():
            return tree.bound_by(element)


_FINDERS: tuple[Callable[[tree.Query, frozenset[str]], Iterator[LintFinding]], ...] = (
    _unbound_predicates,
    _string_filters,
    _cross_products,
    _graph_scans,
    _unbounded_paths,
    _orders,
    _unbound_variables,
)


def narrowed(query: tree.Query) -> frozenset[str]:
    """Return the variables that a list, a known subject or an exact value holds to few values.

    It is a guess from the query alone, for warnings.

    A type doesn't, because classes are large; any other known object of a triple does, and so does a known subject.
    Variables that are reached from there count too.
    """
    known = _enumerated(query) | _counted(query)
    waiting = [element for element in tree.elements(query) if isinstance(element, tree.Triple | tree.Bind)]
    users: defaultdict[str, list[tree.Triple | tree.Bind]] = defaultdict(list)
    for element in waiting:
        for name in tree.names(element) if isinstance(element, tree.Triple) else tree.variables_of(element.expression):
            users[name].append(element)
    # Each element again only when one of its variables became known: 1,000 triples in reverse order took 1 s.
    while waiting:
        new = _narrowed_by(waiting.pop(), known) - known
        known |= new
        waiting += [user for name in new for user in users[name]]
    return frozenset(known)


def _enumerated(query: tree.Query) -> set[str]:
    lists = [selection.values for selection in tree.selections(query) if selection.values]
    lists += [element for element in tree.elements(query) if isinstance(element, tree.Values)]
    return {variable.name for values in lists for variable in values.variables}


def _counted(query: tree.Query) -> set[str]:
    """Return the columns of each SELECT that makes one row of everything."""
    single = [
        selection for selection in tree.selections(query) if tree.is_grouped(selection) and not selection.grouping
    ]
    return set().union(*(tree.projected(selection) for selection in single))


def _narrowed_by(element: tree.Triple | tree.Bind, known: set[str]) -> set[str]:
    """Return the variables of an element that have few values, once those in `known` have."""
    if isinstance(element, tree.Bind):
        return {element.variable.name} if tree.variables_of(element.expression) <= known else set()
    if _is_known(element.subject, known):
        return {node.name for node in (element.predicate, element.object) if isinstance(node, tree.Variable)}
    if _is_known(element.object, known) and not _is_type(element):
        return {node.name for node in (element.subject, element.predicate) if isinstance(node, tree.Variable)}
    return set()


def _is_known(node: tree.Node, known: set[str]) -> bool:
    """Return whether a node is a term, or a variable of few values."""
    return tree.is_bound(node) or (isinstance(node, tree.Variable) and node.name in known)


def _is_type(triple: tree.Triple) -> bool:
    """Return whether a triple gives the class of its subject, be it by a path over subclasses."""
    path = triple.predicate
    first = path.parts[0] if isinstance(path, tree.Sequence) else path
    return isinstance(first, tree.PathStep) and first.iri.iri == TYPE
