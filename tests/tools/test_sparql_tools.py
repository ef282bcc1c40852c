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
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item
from rbank_es.limits import tool_limits
from rbank_es.ontology.rdf_names import XSD
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.sparql.endpoint_profiles import LOCAL
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset, QueryEngine
from rbank_es.sparql.guard import Surroundings
from rbank_es.sparql.results import Answer, Cell, Form, Row
from rbank_es.sparql.source import Source
from rbank_es.testing import event_id
from rbank_es.tools.runtime.tool_family import ToolPolicy
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


# ---------------------------------------------------------------- the schema


def test_properties_come_with_kind_uses_domains_and_ranges(tools: LibraryTools) -> None:
    rows = {
        row["uri"]: row for row in tools("sparql_schema", output_mode="properties", filter_prefix="lib:")["properties"]
    }
    wrote = rows["lib:wrote"]
    assert (wrote["kind"], wrote["triples"]) == ("object", 3)
    assert (wrote["domains"], wrote["ranges"]) == (["lib:Person"], ["lib:Work"])


def test_the_detail_of_a_class_names_its_superclasses_and_properties(tools: LibraryTools) -> None:
    rows = {row["uri"]: row for row in pages(tools, "classes", output_mode="detail")}
    assert rows["lib:Atlas"]["parents"] == ["lib:Book"]
    assert rows["lib:Work"]["comment"] == "Anything that someone wrote."
    assert "lib:title" in rows["lib:Book"]["properties"]


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


def test_an_unknown_prefix_comes_back_with_those_that_are_known(tools: LibraryTools) -> None:
    error = tools.fails("sparql_schema", filter_prefix="zz:")
    assert error["code"] == "unknown_prefix"
    assert "lib:" in error["hint"]


def test_an_endpoint_without_a_description_says_how_to_get_one(bank: Bank, source: Source) -> None:
    error = LibraryTools(bank, endpoint_over(source)).fails("sparql_schema")
    assert error["code"] == "no_schema"
    assert "SELECT ?class" in error["hint"]
    assert "--" not in error["hint"], "an agent has no command line"


def test_the_schema_of_an_endpoint_comes_from_its_description(bank: Bank, source: Source) -> None:
    schema = Schema(prefixes={"lib": NAMESPACE}, classes=(ClassInfo(iri=NAMESPACE + "Book", instances=3_116_860),))
    body = LibraryTools(bank, endpoint_over(source, schema))("sparql_schema")
    assert body["top_classes"] == [{"uri": "lib:Book", "count": 3_116_860}]


def test_without_any_source_the_error_says_so(bank: Bank) -> None:
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
    rows = {row["uri"]: row for row in body["properties"]}
    assert (rows["lib:title"]["triples"], rows["lib:title"]["how"]) == (3, "used")
    assert rows["lib:writtenBy"]["how"] == "inherited"
    assert (body["parents"], body["subclasses"], body["subclass_instances"]) == (["lib:Work"], 1, 1)


@pytest.mark.parametrize("name", ["lib:Book", f"<{NAMESPACE}Book>", f"{NAMESPACE}Book", " lib:Book ", "Book", "book"])
def test_a_thing_is_named_in_any_way_that_has_one_meaning(tools: LibraryTools, name: str) -> None:
    assert tools("sparql_peek", resource=name, limit=1)["uri"] == "lib:Book"


def test_an_unknown_thing_comes_back_with_the_nearest_names(tools: LibraryTools) -> None:
    error = tools.fails("sparql_peek", resource="lib:Boook")
    assert error["code"] == "unknown_resource"
    assert "lib:Book" in error["hint"]


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ("zz:Book", "unknown_prefix"),
        ("_:b0", "blank_node"),
        ("lib:Book> ?p ?o . } #", "bad_iri"),
        ("<http://a b>", "bad_iri"),
        ('http://a"b', "bad_iri"),
        ("http://a\\u003eb", "bad_iri"),
        ("<relative>", "unknown_resource"),
        ("http://a\ud800", "bad_iri"),
        ("", "unknown_resource"),
        ("nothing at all", "unknown_resource"),
    ],
)
def test_what_can_be_no_name_never_reaches_a_query(tools: LibraryTools, resource: str, code: str) -> None:
    assert tools.fails("sparql_peek", resource=resource)["code"] == code


REFUSALS = {"ambiguous_name", "bad_iri", "bad_query", "blank_node", "unknown_prefix", "unknown_resource"}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40).flatmap(lambda text: st.sampled_from([text, f"lib:{text}", f"<{NAMESPACE}{text}>"])))
def test_whatever_is_looked_at_is_answered_or_refused_within_the_cap(tools: LibraryTools, resource: str) -> None:
    answer = tools("sparql_peek", resource=resource)
    assert answer["ok"] or answer["error"]["code"] in REFUSALS


def test_an_endpoint_without_a_description_is_looked_at_by_asking_it(bank: Bank, source: Source) -> None:
    tools = LibraryTools(bank, endpoint_over(source))
    assert tools("sparql_peek", resource="lib:Book")["kind"] == "class"
    assert tools("sparql_peek", resource="lib:wrote")["kind"] == "property"
    assert tools("sparql_peek", resource="t:ada")["kind"] == "individual"
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


# ---------------------------------------------------------------- a look, and what the bank knows of it


def learn(bank: Bank, *items: Item) -> None:
    """Make items active."""
    facts = {"heads": tuple(item.head for item in items), "candidates": tuple(item.text for item in items)}
    decisions = tuple(Decision(candidate=place, action="add", item=item.id) for place, item in enumerate(items))
    extracted = MemoriesExtracted(id=event_id(7), kind="manual", **facts)
    bank.append([extracted, MemoriesConsolidated(extraction=event_id(7), policy="append-1", decisions=decisions)])


@pytest.mark.parametrize("policy", [ToolPolicy(), ToolPolicy(related=False)])
def test_no_search_is_made_that_nobody_asked_for(bank: Bank, source: Source, policy: ToolPolicy) -> None:
    asked = {"related_memories": False} if policy.related else {}
    body = LibraryTools(bank, source, policy)("sparql_peek", resource="lib:Book", **asked)
    assert "related_procedures" not in body
    assert "memories_retrieved" not in types([*bank.events()])


# ---------------------------------------------------------------- a query


def test_a_limit_of_the_query_itself_cuts_nothing(tools: LibraryTools) -> None:
    body = tools("sparql_query", query=f"{BOOKS} LIMIT 2")
    assert (body["rows"], body["truncated"], body["limit"]) == (2, False, 2)


def test_a_question_is_answered_by_yes_or_no(tools: LibraryTools) -> None:
    yes = tools("sparql_query", query="ASK { ?x a lib:Atlas }")
    assert yes["boolean"] is True
    assert tools("sparql_slice", result=yes) == {
        "ok": True, "boolean": True, "rows": [], "returned": 0, "total": 0, "has_more": False,
    }  # fmt: skip
    no = tools("sparql_query", query="ASK { ?x a lib:Map }")
    assert no["boolean"] is False
    assert "lib:Map has no instances" in no["hint"]


def test_limits_that_are_too_high_are_cut_and_the_answer_says_so(tools: LibraryTools) -> None:
    body = tools("sparql_query", query=BOOKS, limit=10**6, timeout_s=10**6)
    assert body["note"] == "limit is at most 10,000; timeout_s is at most 300"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"limit": 0}, "bad_limit"),
        ({"limit": -5}, "bad_limit"),
        ({"timeout_s": 0}, "bad_timeout"),
        ({"timeout_s": -1}, "bad_timeout"),
        ({"timeout_s": float("nan")}, "bad_timeout"),
        ({"limit": "many"}, "bad_arguments"),
        ({"limit": 1.5}, "bad_arguments"),
        ({"explain": "perhaps"}, "bad_arguments"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(tools: LibraryTools, arguments: dict[str, Any], code: str) -> None:
    assert tools.fails("sparql_query", query=BOOKS, **arguments)["code"] == code


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT ?x WHERE { ?x a lib:Boook }", "unknown_term"),
        ("SELECT ?x WHERE { ?x a zz:Book }", "unknown_prefix"),
        ("SELECT ?x WHERE { ?x a lib:Book", "syntax"),
        ("INSERT DATA { <urn:a> a lib:Book }", "not_read_only"),
        ("SELECT ?x WHERE { SERVICE <http://elsewhere> { ?x a lib:Book } }", "service_refused"),
        ("", "syntax"),
    ],
)
def test_a_query_that_will_not_be_run_says_why(tools: LibraryTools, query: str, code: str) -> None:
    assert tools.fails("sparql_query", query=query)["code"] == code
    assert tools("sparql_query", query=BOOKS)["rows"] == 3, "the tool works afterwards"


def test_explaining_runs_nothing_and_tells_form_limit_and_warnings(tools: LibraryTools) -> None:
    body = tools("sparql_query", query=EVERYTHING, explain=True)
    assert (body["form"], body["limit"], body["refused"]) == ("select", 100, False)
    assert sorted(body["variables"]) == ["o", "p", "s"]
    assert body["warnings"][0]["code"] == "unbound_predicate"
    assert "key" not in body


def test_many_variables_are_counted_where_they_find_no_room(tools: LibraryTools) -> None:
    names = " ".join(f"?a_rather_long_name_{number}" for number in range(60))
    body = tools("sparql_query", query=f"SELECT {names} WHERE {{ ?a_rather_long_name_0 a lib:Book }}")
    assert body["variables_total"] == 60
    assert 0 < len(body["variables"]) < 60
    assert len(msgspec.json.encode(body)) <= limits.FLAG_RETURN_CHARS


# ---------------------------------------------------------------- what a query proposes


def test_values_that_were_cut_when_the_query_ran_are_told_there_and_in_every_slice(
    bank: Bank, tools: LibraryTools
) -> None:
    doubled = "CONCAT(" + ", ".join(["?v"] * 10) + ")"
    steps = " ".join(f"BIND({doubled.replace('?v', f'?v{at}')} AS ?v{at + 1})" for at in range(5))
    query = f"SELECT ?v0 ?v5 WHERE {{ VALUES ?v0 {{ 'ab' }} {steps} }}"
    handle = tools("sparql_query", query=query, store_pattern=False)
    assert (handle["clipped"], handle["rows"]) == (1, 1)
    assert "values over 100,000 characters were cut" in handle["note"]
    assert handle["truncated"] is False
    assert calls(bank)[-1].truncated is True
    body = tools("sparql_slice", result=handle)
    assert (body["clipped"], body["lost"]) == (1, 1)


# ---------------------------------------------------------------- rows


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


def test_a_slice_behind_the_end_is_empty_and_says_so(tools: LibraryTools) -> None:
    body = tools("sparql_slice", result=tools("sparql_query", query=BOOKS), offset=99)
    assert (body["rows"], body["note"]) == ([], "there is no row 99")


def test_more_rows_than_a_slice_may_have_are_cut_and_the_answer_says_so(tools: LibraryTools) -> None:
    body = tools("sparql_slice", result=tools("sparql_query", query=BOOKS), limit=10**9)
    assert body["note"] == f"limit is at most {tool_limits.SLICE_ROWS}"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"offset": -1}, "bad_offset"),
        ({"limit": 0}, "bad_limit"),
        ({"limit": -1}, "bad_limit"),
        ({"offset": "first"}, "bad_arguments"),
        ({"result": "results_99"}, "unknown_handle"),
        ({"result": {"no": "key"}}, "unknown_handle"),
        ({"result": 5}, "bad_arguments"),
    ],
)
def test_a_slice_that_can_not_be_taken_says_why(tools: LibraryTools, arguments: dict[str, Any], code: str) -> None:
    handle = tools("sparql_query", query=BOOKS)
    assert tools.fails("sparql_slice", **{"result": handle, **arguments})["code"] == code


@pytest.mark.parametrize(
    ("text", "dtype"), [("words", "text"), ("<urn:a> <urn:b> <urn:c> .", "graph"), ("{}", "results")]
)
def test_a_handle_of_something_else_is_read_by_another_tool(tools: LibraryTools, text: str, dtype: str) -> None:
    error = tools.fails("sparql_slice", result=tools.session.store.put(text, dtype).key)
    assert error["code"] == "not_results"
    assert "ctx_slice" in error["hint"]


# ---------------------------------------------------------------- the naive mode


def test_the_naive_mode_gives_payloads_and_schema_whole(bank: Bank, source: Source) -> None:
    tools = LibraryTools(bank, source, ToolPolicy(payloads="naive"))
    body = tools("sparql_query", query=EVERYTHING, limit=10_000)
    assert body["naive_payload"].count('"s":') == body["rows"] > 50
    assert len(tools("sparql_slice", result=body, limit=5)["rows"]) == body["rows"]
    assert tools("sparql_schema", output_mode="properties", limit=1)["has_more"] is False
    assert len(tools("sparql_schema", limit=1)["top_classes"]) == 6


# ---------------------------------------------------------------- large and odd schemas


@pytest.mark.slow
def test_a_schema_of_any_size_and_wording_stays_within_the_caps(bank: Bank, source: Source) -> None:
    long = '\x07"\\ß🦉' * 200
    classes = tuple(
        ClassInfo(
            iri=f"{NAMESPACE}C{number}{'x' * 400}", label=long, comment=long, parents=(f"{NAMESPACE}C0{'x' * 400}",)
        )
        for number in range(60)
    )
    properties = tuple(PropertyInfo(iri=f"{NAMESPACE}p{number}", label=long, comment=long) for number in range(60))
    prefixes = {f"p{number}": f"http://p.example/{number}/" for number in range(100)}
    schema = Schema(prefixes=prefixes, classes=classes, properties=properties)
    tools = LibraryTools(bank, endpoint_over(source, schema))
    assert tools("sparql_schema")["class_count"] == 60
    assert len(pages(tools, "classes", output_mode="classes")) == 60
    assert len(pages(tools, "classes", output_mode="detail")) == 60
    assert len(pages(tools, "properties", output_mode="properties")) == 60
    assert tools("sparql_peek", resource=classes[0].iri, output_mode="schema")["kind"] == "class"
