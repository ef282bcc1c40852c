"""SPARQL as an agent reaches it: metadata first, handles for results, rows by the page, errors as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.limits import tool_limits
from rbank_es.ontology.rdf_names import XSD
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.sparql.data_source import Source
from rbank_es.sparql.endpoint_profiles import LOCAL
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset, QueryEngine
from rbank_es.sparql.guard import Surroundings
from rbank_es.sparql.results import Answer, Cell, Form, Row
from rbank_es.tools.shared.tool_family import ToolPolicy
from tests.effort import examples
from tests.tools.library import NAMESPACE, THINGS, TURTLE, LibraryTools, open_library
from tests.tools.tool_sessions import calls, types

BOOKS = "SELECT ?book ?title WHERE { ?book a lib:Book ; lib:title ?title } ORDER BY ?title"
EVERYTHING = "SELECT * WHERE { ?s ?p ?o }"


def endpoint_over(source: Source, schema: Schema | None = None) -> Source:
    """The same data as an endpoint has them: its schema is known from elsewhere, or not at all."""
    known = Surroundings(prefixes={"lib": NAMESPACE, "t": THINGS}, remote=True)
    return Source(
        id="far",
        kind="remote",
        profile=LOCAL,
        engine=source.engine,
        surroundings=known,
        schema=schema,
        url="http://far",
    )


RESULT = "the handle of BOOKS"
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("sparql_schema", {"filter_prefix": "zz:"}, "unknown_prefix", "lib:"),
    ("sparql_peek", {"resource": "lib:Boook"}, "unknown_resource", "lib:Book"),
    ("sparql_peek", {"resource": "zz:Book"}, "unknown_prefix", ""),
    ("sparql_peek", {"resource": "_:b0"}, "blank_node", ""),
    ("sparql_peek", {"resource": "lib:Book> ?p ?o . } #"}, "bad_iri", ""),
    ("sparql_peek", {"resource": "<http://a b>"}, "bad_iri", ""),
    ("sparql_peek", {"resource": 'http://a"b'}, "bad_iri", ""),
    ("sparql_peek", {"resource": "http://a\\u003eb"}, "bad_iri", ""),
    ("sparql_peek", {"resource": "<relative>"}, "unknown_resource", ""),
    ("sparql_peek", {"resource": "http://a\ud800"}, "bad_iri", ""),
    ("sparql_peek", {"resource": ""}, "unknown_resource", ""),
    ("sparql_peek", {"resource": "nothing at all"}, "unknown_resource", ""),
    ("sparql_query", {"query": BOOKS, "limit": 0}, "bad_limit", ""),
    ("sparql_query", {"query": BOOKS, "limit": -5}, "bad_limit", ""),
    ("sparql_query", {"query": BOOKS, "timeout_s": 0}, "bad_timeout", ""),
    ("sparql_query", {"query": BOOKS, "timeout_s": -1}, "bad_timeout", ""),
    ("sparql_query", {"query": BOOKS, "timeout_s": float("nan")}, "bad_timeout", ""),
    ("sparql_query", {"query": BOOKS, "limit": "many"}, "bad_arguments", ""),
    ("sparql_query", {"query": BOOKS, "limit": 1.5}, "bad_arguments", ""),
    ("sparql_query", {"query": BOOKS, "explain": "perhaps"}, "bad_arguments", ""),
    ("sparql_query", {"query": "SELECT ?x WHERE { ?x a lib:Boook }"}, "unknown_term", ""),
    ("sparql_query", {"query": "SELECT ?x WHERE { ?x a zz:Book }"}, "unknown_prefix", ""),
    ("sparql_query", {"query": "SELECT ?x WHERE { ?x a lib:Book"}, "syntax", ""),
    ("sparql_query", {"query": "INSERT DATA { <urn:a> a lib:Book }"}, "not_read_only", ""),
    ("sparql_query", {"query": "SELECT ?x { SERVICE <http://elsewhere> { ?x a lib:Book } }"}, "service_refused", ""),
    ("sparql_query", {"query": ""}, "syntax", ""),
    ("sparql_slice", {"result": RESULT, "offset": -1}, "bad_offset", ""),
    ("sparql_slice", {"result": RESULT, "limit": 0}, "bad_limit", ""),
    ("sparql_slice", {"result": RESULT, "limit": -1}, "bad_limit", ""),
    ("sparql_slice", {"result": RESULT, "offset": "first"}, "bad_arguments", ""),
    ("sparql_slice", {"result": "results_99"}, "unknown_handle", ""),
    ("sparql_slice", {"result": {"no": "key"}}, "unknown_handle", ""),
    ("sparql_slice", {"result": 5}, "bad_arguments", ""),
]


@pytest.mark.parametrize(("tool", "arguments", "code", "hint"), REFUSED)
def test_a_call_that_can_not_be_answered_says_why_and_leaves_the_tools_working(
    tools: LibraryTools, tool: str, arguments: dict[str, Any], code: str, hint: str
) -> None:
    handle = tools("sparql_query", query=BOOKS)
    given = {**arguments, "result": handle} if arguments.get("result") == RESULT else arguments
    error = tools.fails(tool, **given)
    assert error["code"] == code and hint in error["hint"]
    assert tools("sparql_query", query=BOOKS)["rows"] == 3


ANSWERED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sparql_query", {"query": f"{BOOKS} LIMIT 2"}, {"rows": 2, "truncated": False, "limit": 2}),
    (
        "sparql_query",
        {"query": BOOKS, "limit": 10**6, "timeout_s": 10**6},
        {"note": "limit is at most 10,000; timeout_s is at most 300"},
    ),
    ("sparql_slice", {"result": RESULT, "offset": 99}, {"rows": [], "note": "there is no row 99"}),
    ("sparql_slice", {"result": RESULT, "limit": 10**9}, {"note": f"limit is at most {tool_limits.SLICE_ROWS}"}),
    *(
        ("sparql_peek", {"resource": name, "limit": 1}, {"uri": "lib:Book"})
        for name in ("lib:Book", f"<{NAMESPACE}Book>", f"{NAMESPACE}Book", " lib:Book ", "Book", "book")
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "expected"), ANSWERED)
def test_a_call_is_answered_as_its_row_says(
    tools: LibraryTools, tool: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Limits are cut to the highest and the answer says so; a thing is named in any way that has one meaning."""
    if "result" in arguments:
        arguments = {**arguments, "result": tools("sparql_query", query=BOOKS)}
    body = tools(tool, **arguments)
    assert {name: body[name] for name in expected} == expected


# ---------------------------------------------------------------- the schema


def test_properties_and_classes_come_with_what_is_known_of_them(tools: LibraryTools) -> None:
    wrote = by_uri(pages(tools, "properties", output_mode="properties", filter_prefix="lib:"))["lib:wrote"]
    assert (wrote["kind"], wrote["triples"]) == ("object", 3)
    assert (wrote["domains"], wrote["ranges"]) == (["lib:Person"], ["lib:Work"])
    rows = by_uri(pages(tools, "classes", output_mode="detail"))
    assert rows["lib:Atlas"]["parents"] == ["lib:Book"] and "lib:title" in rows["lib:Book"]["properties"]
    assert rows["lib:Work"]["comment"] == "Anything that someone wrote."


def by_uri(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["uri"]: row for row in rows}


def pages(tools: LibraryTools, name: str, **arguments: Any) -> list[dict[str, Any]]:
    """All rows of a schema answer, page by page."""
    rows: list[dict[str, Any]] = []
    while True:
        body = tools("sparql_schema", offset=len(rows), **arguments)
        rows += body[name]
        if not body["has_more"]:
            assert len(rows) == body["total"]
            return rows
        assert body["next_offset"] == len(rows)


@pytest.mark.parametrize("prefix", ["lib:", "lib", NAMESPACE, f"<{NAMESPACE}>"])
def test_a_filter_is_a_prefix_or_a_namespace(tools: LibraryTools, prefix: str) -> None:
    rows = pages(tools, "properties", output_mode="properties", filter_prefix=prefix)
    assert {row["uri"].partition(":")[0] for row in rows} == {"lib"}


def test_the_schema_of_an_endpoint_comes_from_its_description_or_how_to_get_one_is_told(
    bank: Bank, source: Source
) -> None:
    error = LibraryTools(bank, endpoint_over(source)).fails("sparql_schema")
    assert error["code"] == "no_schema" and "SELECT ?class" in error["hint"]
    assert "--" not in error["hint"], "an agent has no command line"
    schema = Schema(prefixes={"lib": NAMESPACE}, classes=(ClassInfo(iri=NAMESPACE + "Book", instances=3_116_860),))
    body = LibraryTools(bank, endpoint_over(source, schema))("sparql_schema")
    assert body["top_classes"] == [{"uri": "lib:Book", "count": 3_116_860}]
    assert LibraryTools(bank, None).fails("sparql_schema")["code"] == "no_source"


# ---------------------------------------------------------------- a look


def test_a_class_without_instances_of_its_own_shows_those_of_subclasses_and_says_so(tools: LibraryTools) -> None:
    body = tools("sparql_peek", resource="lib:Work")
    assert {row["uri"] for row in body["instances"]} == {"t:tides", "t:stars", "t:coast"}
    assert "rdfs:subClassOf* lib:Work" in body["note"]


@pytest.mark.slow
def test_what_is_said_beside_many_instances_finds_room(bank: Bank, tmp_path: Path) -> None:
    lines = [f't:atlas-{number} a lib:Atlas ; lib:title "{"long title " * 6}" .' for number in range(30)]
    crowded = open_library(tmp_path, TURTLE.replace("t:tides a lib:Book", "t:tides a lib:Loan") + "\n".join(lines))
    for asked in range(1, 21):
        body = LibraryTools(bank, crowded)("sparql_peek", resource="lib:Work", limit=asked)
        assert body["note"].endswith("rdfs:subClassOf* lib:Work")
    crowded.close()


def test_instances_without_a_name_are_shown_as_blank_nodes(tools: LibraryTools) -> None:
    rows = tools("sparql_peek", resource="lib:Loan")["instances"]
    assert all(row["uri"].startswith("_:") for row in rows)
    assert {row["properties"]["lib:loanOf"] for row in rows} == {"t:tides", "t:stars"}


def test_the_schema_of_a_class_tells_its_properties_and_why_it_has_them(tools: LibraryTools) -> None:
    body = tools("sparql_peek", resource="lib:Book", output_mode="schema")
    rows = by_uri(body["properties"])
    assert (rows["lib:title"]["triples"], rows["lib:title"]["how"]) == (3, "used")
    assert rows["lib:writtenBy"]["how"] == "inherited"
    assert (body["parents"], body["subclasses"], body["subclass_instances"]) == (["lib:Work"], 1, 1)


REFUSALS = {"ambiguous_name", "bad_iri", "bad_query", "blank_node", "unknown_prefix", "unknown_resource"}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40).flatmap(lambda text: st.sampled_from([text, f"lib:{text}", f"<{NAMESPACE}{text}>"])))
def test_whatever_is_looked_at_is_answered_or_refused_within_the_cap(tools: LibraryTools, resource: str) -> None:
    answer = tools("sparql_peek", resource=resource)
    assert answer["ok"] or answer["error"]["code"] in REFUSALS


def test_an_endpoint_without_a_description_is_looked_at_by_asking_it(bank: Bank, source: Source) -> None:
    tools = LibraryTools(bank, endpoint_over(source))
    for resource, kind in {"lib:Book": "class", "lib:wrote": "property", "t:ada": "individual"}.items():
        assert tools("sparql_peek", resource=resource)["kind"] == kind
    assert tools.fails("sparql_peek", resource="t:nobody")["code"] == "unknown_resource"
    rows = tools("sparql_peek", resource="lib:Book", output_mode="schema")["properties"]
    assert {"uri": "lib:title", "of_100": 3} in rows


class EmptyGroups:
    """An engine whose answers to a GROUP BY end with a row for a group of nothing, as some endpoints' do."""

    def __init__(self, engine: QueryEngine) -> None:
        self._engine = engine
        self.close = engine.close

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        answer = self._engine.run(query, form, caps, dataset)
        if "GROUP BY" not in query:
            return answer
        nothing: Row = (None, Cell("literal", "0", "", XSD + "integer"), None)
        return msgspec.structs.replace(answer, rows=(*answer.rows, nothing))


def test_a_row_of_nothing_is_no_property(bank: Bank, source: Source) -> None:
    far = msgspec.structs.replace(endpoint_over(source), engine=EmptyGroups(source.engine))
    shown = LibraryTools(bank, far)("sparql_peek", resource="t:ada")["properties"]
    assert len(shown) == 3 and all(row["uri"] and row["n"] for row in shown)


@pytest.mark.parametrize("policy", [ToolPolicy(), ToolPolicy(related=False)])
def test_no_search_is_made_that_nobody_asked_for(bank: Bank, source: Source, policy: ToolPolicy) -> None:
    asked = {"related_memories": False} if policy.related else {}
    body = LibraryTools(bank, source, policy)("sparql_peek", resource="lib:Book", **asked)
    assert "related_procedures" not in body
    assert "memories_retrieved" not in types([*bank.events()])


# ---------------------------------------------------------------- a query and its rows


def test_a_question_is_answered_by_yes_or_no(tools: LibraryTools) -> None:
    yes = tools("sparql_query", query="ASK { ?x a lib:Atlas }")
    assert yes["boolean"] is True
    assert tools("sparql_slice", result=yes) == {
        "ok": True, "boolean": True, "rows": [], "returned": 0, "total": 0, "has_more": False,
    }  # fmt: skip
    no = tools("sparql_query", query="ASK { ?x a lib:Map }")
    assert no["boolean"] is False and "lib:Map has no instances" in no["hint"]


def test_explaining_runs_nothing_and_tells_form_limit_and_warnings(tools: LibraryTools) -> None:
    body = tools("sparql_query", query=EVERYTHING, explain=True)
    assert (body["form"], body["limit"], body["refused"]) == ("select", 100, False)
    assert sorted(body["variables"]) == ["o", "p", "s"] and "key" not in body
    assert body["warnings"][0]["code"] == "unbound_predicate"


def test_many_variables_are_counted_where_they_find_no_room(tools: LibraryTools) -> None:
    names = " ".join(f"?a_rather_long_name_{number}" for number in range(60))
    body = tools("sparql_query", query=f"SELECT {names} WHERE {{ ?a_rather_long_name_0 a lib:Book }}")
    assert body["variables_total"] == 60 and 0 < len(body["variables"]) < 60
    assert len(msgspec.json.encode(body)) <= limits.FLAG_RETURN_CHARS


def test_values_that_were_cut_when_the_query_ran_are_told_there_and_in_every_slice(
    bank: Bank, tools: LibraryTools
) -> None:
    doubled = "CONCAT(" + ", ".join(["?v"] * 10) + ")"
    steps = " ".join(f"BIND({doubled.replace('?v', f'?v{at}')} AS ?v{at + 1})" for at in range(5))
    query = f"SELECT ?v0 ?v5 WHERE {{ VALUES ?v0 {{ 'ab' }} {steps} }}"
    handle = tools("sparql_query", query=query, store_pattern=False)
    assert (handle["clipped"], handle["rows"], handle["truncated"]) == (1, 1, False)
    assert "values over 100,000 characters were cut" in handle["note"] and calls(bank)[-1].truncated is True
    body = tools("sparql_slice", result=handle)
    assert (body["clipped"], body["lost"]) == (1, 1)


def test_rows_are_plain_values_with_their_kinds(tools: LibraryTools) -> None:
    handle = tools(
        "sparql_query", query="SELECT * WHERE { ?b lib:title ?t ; lib:pages ?n OPTIONAL { ?b lib:wrote ?w } }"
    )
    body = tools("sparql_slice", result=handle)
    assert {"b": THINGS + "tides", "n": 120, "t": "On Tides"} in body["rows"]
    assert body["kinds"] == {"b": "iri", "n": "number", "t": "mixed"}
    assert (body["returned"], body["total"], body["has_more"]) == (4, 4, False)


def test_a_slice_takes_handle_key_and_alias(tools: LibraryTools) -> None:
    handle = tools("sparql_query", query=BOOKS)
    bodies = [tools("sparql_slice", result=name) for name in (handle, handle["key"], handle["alias"])]
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize(
    ("text", "dtype"), [("words", "text"), ("<urn:a> <urn:b> <urn:c> .", "graph"), ("{}", "results")]
)
def test_a_handle_of_something_else_is_read_by_another_tool(tools: LibraryTools, text: str, dtype: str) -> None:
    error = tools.fails("sparql_slice", result=tools.session.store.put(text, dtype).key)
    assert error["code"] == "not_results" and "ctx_slice" in error["hint"]


def test_the_naive_mode_gives_payloads_and_schema_whole(bank: Bank, source: Source) -> None:
    tools = LibraryTools(bank, source, ToolPolicy(payloads="naive"))
    body = tools("sparql_query", query=EVERYTHING, limit=10_000)
    assert body["naive_payload"].count('"s":') == body["rows"] > 50
    assert len(tools("sparql_slice", result=body, limit=5)["rows"]) == body["rows"]
    for tool, mode in {"sparql_schema": {"output_mode": "properties"}, "g_props": {}}.items():
        assert tools(tool, limit=1, **mode)["has_more"] is False
    assert len(tools("sparql_schema", limit=1)["top_classes"]) == len(tools("g_classes", limit=1)["classes"]) == 6


@pytest.mark.slow
def test_a_schema_of_any_size_and_wording_stays_within_the_caps(bank: Bank, source: Source) -> None:
    long, parent = '\x07"\\ß🦉' * 200, f"{NAMESPACE}C0{'x' * 400}"
    said: dict[str, Any] = {"label": long, "comment": long}
    classes = tuple(
        ClassInfo(iri=f"{NAMESPACE}C{number}{'x' * 400}", parents=(parent,), **said) for number in range(60)
    )
    properties = tuple(PropertyInfo(iri=f"{NAMESPACE}p{number}", **said) for number in range(60))
    prefixes = {f"p{number}": f"http://p.example/{number}/" for number in range(100)}
    tools = LibraryTools(bank, endpoint_over(source, Schema(prefixes=prefixes, classes=classes, properties=properties)))
    assert tools("sparql_schema")["class_count"] == 60
    for name, mode in (("classes", "classes"), ("classes", "detail"), ("properties", "properties")):
        assert len(pages(tools, name, output_mode=mode)) == 60
    assert tools("sparql_peek", resource=classes[0].iri, output_mode="schema")["kind"] == "class"
