"""Laws of the guard, over texts of every kind, over queries that make sense, and over those run on real triples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import pyoxigraph
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from rbank_es.errors import QueryRefused
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.endpoint_profiles import profile_named
from rbank_es.sparql.guard import Checked, Surroundings, check, explain
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.sparql.parser.tokens import tokenise
from tests.effort import examples
from tests.sparql.second_parser import form_and_limit_by_rdflib

EX = "http://ex/"
LOCAL = Surroundings(prefixes={"ex": EX}, graphs=frozenset({EX + "g"}))
STRICT = Surroundings(
    prefixes={"ex": EX},
    vocabulary=Vocabulary((EX + "T", EX + "U"), (EX + "p", EX + "q")),
    profile=profile_named("uniprot"),
)
REMOTE = Surroundings(prefixes={"ex": EX}, remote=True)
CODES = {
    *("syntax", "not_read_only", "service_refused", "from_refused"),
    *("unknown_term", "unknown_prefix", "too_long", "slow_here"),
}


def law(count: int) -> settings:
    """So many examples, however long one takes."""
    return settings(max_examples=examples(count), deadline=None, suppress_health_check=[HealthCheck.too_slow])


# Pieces of queries, and what is often between, around and instead of them.
PIECES = (
    *("SELECT", "ASK", "CONSTRUCT", "DESCRIBE", "WHERE", "FROM", "NAMED", "LIMIT", "OFFSET", "ORDER BY", "GROUP BY"),
    *("HAVING", "VALUES", "FILTER", "BIND", "AS", "OPTIONAL", "UNION", "MINUS", "GRAPH", "SERVICE", "EXISTS", "NOT"),
    *("PREFIX", "BASE", "DISTINCT", "COUNT", "REGEX", "IN", "UNDEF", "a", "true", "INSERT", "DROP", "xyz", "IF"),
    *("{", "}", "(", ")", "[", "]", ".", ",", ";", "*", "/", "|", "^", "!", "?", "+", "-", "=", "<", ">", "&&", "||"),
    *("?x", "$y", "ex:p", "ex:", ":", "_:b", "nope:x", "<http://ex/p>", "<g>", "<file:///etc/passwd>", "5", "1.5e3"),
    *('"LIMIT 5"', "'SERVICE'", '"""\nLIMIT"""', "@en", "^^", "'", '"', "<", "#", "# LIMIT 1\n", "\n", "\r", "\t"),
    *("\\", "\\u0053", "\u00a0", "\ufeff", "\0", "`", "\ud800", "é", "?ſ"),
)
soups = st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join) | st.lists(st.sampled_from(PIECES)).map("".join)


def refusal_or_check(text: str, surroundings: Surroundings, rows: int) -> Checked | QueryRefused:
    try:
        return check(text, surroundings, rows)
    except QueryRefused as refused:
        return refused


@law(300)
@given(st.text() | soups, st.sampled_from((LOCAL, STRICT, REMOTE)), st.integers(0, 10_000))
@example("", LOCAL, 1)
@example("{" * 15, LOCAL, 1)
@example("SELECT * {" + "[]" * 15, LOCAL, 1)
def test_any_text_is_checked_or_refused_with_a_code_and_a_hint(
    text: str, surroundings: Surroundings, rows: int
) -> None:
    found = refusal_or_check(text, surroundings, rows)
    if isinstance(found, QueryRefused):
        assert found.code in CODES
        assert found.message
        assert found.hint
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert found.line is None or (found.column and 1 <= found.column <= len(lines[found.line - 1]) + 2)
    else:
        assert found.limit_applied is None or found.limit_applied <= rows + 1
        again = refusal_or_check(text, surroundings, rows)
        assert again == found


@given(st.text() | soups)
def test_tokens_and_what_is_between_them_are_the_text(text: str) -> None:
    with suppress(QueryRefused):
        tokens = tokenise(text)
        assert "".join(token.between + token.text for token in tokens) == text
        assert [token.offset for token in tokens] == sorted({token.offset for token in tokens})
        assert all(text.startswith(token.text, token.offset) for token in tokens)


# Queries that make sense


class Made(NamedTuple):
    """A query, and what is known of it by how it was made."""

    tokens: tuple[str, ...]
    form: str
    limit: int | None
    values: bool = False


variables = st.sampled_from(("?a", "?b", "?c", "$limit", "?service"))
nodes = variables | st.sampled_from(("ex:n0", "ex:n1", "<http://ex/n2>", "ex:limit", "1", "'LIMIT 3'", "'# no'@en"))
subjects = variables | st.sampled_from(("ex:n0", "ex:n1", "ex:n2", "_:b"))
paths = st.sampled_from(("ex:p", "ex:q", "a", "<http://ex/q>", "ex:p/ex:q", "^ex:p", "ex:p|ex:q", "ex:p*", "!ex:q"))
verbs = variables | paths
triples = st.tuples(subjects, verbs, nodes).map(" ".join)
conditions = st.sampled_from(
    (
        *("(?a != 'LIMIT 1')", "(?b = ?c || BOUND(?a))", "(STR(?a) < 'z' && -1.5 < 2)", "REGEX(STR(?a), 'n|SERVICE')"),
        *("EXISTS { ?a ex:p ?z }", "NOT EXISTS { ?a ex:q 'x' }", "(?a IN (ex:n1, 1, 'LIMIT'))"),
    )
)


@st.composite
def groups(draw: st.DrawFn, depth: int = 2) -> str:
    """What stands between two braces, these included."""
    inner = groups(depth=depth - 1)
    parts = [f"{draw(triples)} ." for _ in range(draw(st.integers(0, 2)))]
    if depth:
        others = st.one_of(
            inner.map(lambda group: f"OPTIONAL {group}"),
            st.tuples(inner, inner).map(" UNION ".join),
            inner.map(lambda group: f"MINUS {group}"),
            conditions.map(lambda condition: f"FILTER {condition}"),
            st.just("VALUES ?a { ex:n0 ex:n1 'LIMIT' }"),
            subselects(depth),
        )
        # A label of a blank node holds within one group of triples: only the first may have one.
        parts += [part.replace("_:b", "?b") for part in draw(st.lists(others, max_size=2))]
    return "{ " + " ".join(parts) + " }"


@st.composite
def subselects(draw: st.DrawFn, depth: int) -> str:
    """A SELECT in braces; its limit is so large that it never cuts, which would be an answer by chance."""
    limit = draw(st.sampled_from(("", "LIMIT 1000", "ORDER BY ?a OFFSET 0 LIMIT 2000")))
    return f"{{ SELECT {draw(st.sampled_from(('*', '?a ?b', 'DISTINCT ?c')))} {draw(groups(depth - 1))} {limit} }}"


@st.composite
def queries(draw: st.DrawFn, form: str = "") -> Made:
    """Queries of every form (or of this one), with and without a LIMIT, in the words that they are made of."""
    form = form or draw(st.sampled_from(("select", "select", "select", "ask", "construct", "describe")))
    head = {
        "select": st.sampled_from(("SELECT *", "SELECT ?a", "SELECT DISTINCT ?a ?b", "SELECT REDUCED *")),
        "ask": st.just("ASK"),
        "construct": st.sampled_from(("CONSTRUCT { ?a ex:p ?b . ?a ex:limit 'LIMIT 1' } WHERE", "CONSTRUCT {}")),
        "describe": st.sampled_from(("DESCRIBE ?a", "DESCRIBE * WHERE", "DESCRIBE ex:n0 ?a")),
    }[form]
    prologue = draw(st.sampled_from(("", "PREFIX ex: <http://ex/>", "BASE <http://ex/> PREFIX ex: <>")))
    order = draw(st.sampled_from(("", "ORDER BY ?a DESC(?b)")))
    limit = draw(st.none() | st.integers(0, 30))
    slices = [f"LIMIT {limit}"] if limit is not None else []
    slices += draw(st.sampled_from(([], [f"OFFSET {draw(st.integers(0, 5))}"])))
    slices = draw(st.permutations(slices))
    values = draw(st.booleans())
    end = "VALUES ?c { UNDEF }" if values else ""
    text = " ".join((prologue, draw(head), draw(groups()), order, *slices, end))
    return Made(tuple(token.text for token in tokenise(text)[:-1]), form, limit, values)


gaps = st.sampled_from(
    (" ", " ", " ", "\n", "\t", "\r\n", " # LIMIT 1 } SERVICE <x> {\n", '#\'"""\r', " #\\u000 LIMIT\n\n")
)
ends = st.sampled_from(("", " ", "\n", "# LIMIT 3", " # ' LIMIT 4\n\n", "\r"))


@st.composite
def texts(draw: st.DrawFn, form: str = "") -> tuple[Made, str]:
    """A query (of this form) with anything that may stand between its words."""
    query = draw(queries(form))
    return query, "".join(draw(gaps) + token for token in query.tokens) + draw(ends)


def words_and_limit(text: str) -> tuple[list[str], int | None]:
    """The words of a query without its outer LIMIT, and that LIMIT: the last one that stands in no braces."""
    words = [token.text for token in tokenise(text)[:-1]]
    depths = list(accumulate((word == "{") - (word == "}") for word in words))
    found = [at for at, word in enumerate(words) if word == "LIMIT" and not depths[at]]
    if not found:
        return words, None
    return words[: found[-1]] + words[found[-1] + 2 :], int(words[found[-1] + 1])


@law(150)
@given(texts(), st.integers(0, 20))
def test_the_outer_limit_is_right_whatever_stands_around_it(made: tuple[Made, str], rows: int) -> None:
    query, text = made
    found = check(text, LOCAL, rows)
    lowered = query.form != "ask" and (query.limit is None or query.limit > rows + 1)
    expected = rows + 1 if lowered else query.limit
    assert (found.form, found.parsed.limit, found.limit_applied) == (query.form, query.limit, expected)
    before, _ = words_and_limit(text)
    after, limit = words_and_limit(found.query)
    assert limit == expected
    assert after == ["PREFIX", "ex:", f"<{EX}>"] * len(found.added_prefixes) + before


@law(100)
@given(texts(), st.integers(0, 20))
def test_what_was_checked_is_checked_again_unchanged_and_read_by_the_engine(made: tuple[Made, str], rows: int) -> None:
    found = check(made[1], LOCAL, rows)
    assert check(found.query, LOCAL, rows).query == found.query
    assert explain(made[1], LOCAL, rows).query == found.query
    pyoxigraph.Store().query(found.query)


@law(150)
@given(texts(), st.data())
def test_a_damaged_query_is_refused_or_read_by_the_engine_too(made: tuple[Made, str], data: st.DataObject) -> None:
    words = list(made[0].tokens)
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from(PIECES), max_size=1))
        assume(words)
    found = refusal_or_check(" ".join(words), LOCAL, 5)
    if not isinstance(found, QueryRefused):
        with suppress(RuntimeError):
            pyoxigraph.Store().query(found.query, base_iri="http://base/")


@law(150)
@given(texts(), st.data())
def test_what_both_parsers_accept_has_the_same_form_and_limit_for_both(
    made: tuple[Made, str], data: st.DataObject
) -> None:
    words = list(made[0].tokens)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from(PIECES), max_size=1))
        assume(words)
    with suppress(QueryRefused):
        parsed = parse_query(" ".join(words))
        assert form_and_limit_by_rdflib(parsed) in (None, (parsed.tree.form, parsed.limit))


# Run on triples


@cache
def store() -> pyoxigraph.Store:
    """A few triples, so that most patterns find something and some find much."""
    made = pyoxigraph.Store()
    named = [pyoxigraph.NamedNode(f"{EX}n{number}") for number in range(4)]
    for number, subject in enumerate(named):
        for object_ in (named[(number + 1) % 4], pyoxigraph.Literal("LIMIT 3"), pyoxigraph.Literal(str(number))):
            made.add(pyoxigraph.Quad(subject, pyoxigraph.NamedNode(EX + "pq"[number % 2]), object_))
    return made


def rows_of(text: str) -> Counter[Any]:
    """The rows or triples of an answer, and how often each comes."""
    answer: Any = store().query(text)
    return Counter(_rows(answer))


def _rows(answer: Any) -> Iterator[tuple[str, ...]]:
    is_table = isinstance(answer, pyoxigraph.QuerySolutions)
    for row in answer:
        yield tuple(str(row[name]) for name in answer.variables) if is_table else (str(row),)


@law(200)
@given(texts("select"), st.integers(1, 8))
def test_a_limited_answer_is_part_of_the_whole_one_and_as_long_as_it_may_be(made: tuple[Made, str], rows: int) -> None:
    text = made[1] if "PREFIX" in made[0].tokens else f"PREFIX ex: <{EX}>\n{made[1]}"
    found = check(made[1], LOCAL, rows)
    assert found.limit_applied is not None
    whole, part, everything = rows_of(text), rows_of(found.query), rows_of(without_slice(text))
    assert part.total() == min(whole.total(), found.limit_applied)
    assert min(part.total(), found.rows) == min(whole.total(), rows)
    assert not part - everything
    if whole.total() <= rows:
        assert part.total() == whole.total()


def without_slice(text: str) -> str:
    """The same query with an OFFSET of nothing and a LIMIT of everything."""
    tokens = tokenise(text)[:-1]
    depth, words = 0, []
    for before, token in zip((tokens[0], *tokens), tokens, strict=False):
        depth += token.is_symbol("{") - token.is_symbol("}")
        counts = {"LIMIT": "1000000", "OFFSET": "0"} if depth == 0 else {}
        words.append(counts.get(before.keyword, token.text))
    return " ".join(words)
