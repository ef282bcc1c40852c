"""Checks: every code is found where it should be and not beside it; from the run's own events, or from a source."""

from __future__ import annotations

import msgspec
import pytest

from rbank_es.errors import QueryFailed
from rbank_es.judging.checks import check, judge_by_checks
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.sparql.data_source import Source
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset
from rbank_es.sparql.results import Answer, Cell, Form
from tests.judging.answers import iri, ran, run_of, table, text, typed

PREFIX = "PREFIX e: <http://example.org/>\n"
THINGS = PREFIX + "SELECT ?x WHERE { ?x a e:Thing }"
LIGHTS = "SELECT ?light WHERE { ?light a lt:Lighthouse }"


def codes(outcome: RunOutcome, source: Source | None = None) -> list[str]:
    """Return the codes of all findings; those that the check is sure of end with `!`."""
    return [finding.code + "!" * finding.sure for finding in check(outcome, source).findings]


class Failing:
    """An engine that fails with one code, and counts how often it is asked."""

    def __init__(self, code: str = "") -> None:
        self.code, self.asked = code, 0

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        self.asked += 1
        if self.code:
            raise QueryFailed(self.code, "it failed", "try again")
        raise AssertionError("nothing should be asked")

    def close(self) -> None: ...


def with_engine(source: Source, engine: Failing) -> Source:
    return msgspec.structs.replace(source, engine=engine)


# ---------------------------------------------------------------- how the run ended


def test_prose_alone_is_no_answer_unless_the_run_looked_at_the_data() -> None:
    assert codes(run_of("", answer="An Activity occurs over time.", source="lights")) == ["no_query"]
    assert codes(run_of("", answer="It does.", queries=(ran(THINGS, error_code="timeout"),))) == ["no_query"]
    assert codes(run_of("", answer="It does.", looked=("g_describe",))) == ["no_query"]
    assert codes(run_of("", answer="It does.", queries=(ran(THINGS, table((iri("a"),))),))) == ["no_query"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (LIGHTS, "; the one term that it names exists"),
        (LIGHTS.replace("}", "; lt:name ?n }"), "; all 2 terms that it names exist"),
    ],
)
def test_where_nothing_is_found_the_terms_that_were_looked_up_are_counted(
    query: str, said: str, lights_source: Source
) -> None:
    assert judge_by_checks(run_of(query, answer="Some."), lights_source).reason.endswith(said)


def test_only_a_failure_that_a_check_is_sure_of_is_recorded_as_sure() -> None:
    """No model's verdict outweighs it then."""
    sure = judge_by_checks(run_of("I searched for things"))
    assert sure.verdict == "failure" and sure.event("r").sure and sure.as_dict()["sure"]
    unsure = judge_by_checks(run_of(THINGS))
    others = (
        unsure,
        msgspec.structs.replace(sure, kind="lm"),
        msgspec.structs.replace(sure, verdict="undecided"),
        msgspec.structs.replace(sure, findings=unsure.findings),
    )
    assert not any(other.event("r").sure or other.as_dict()["sure"] for other in others)


# ---------------------------------------------------------------- what the run's own events say


def test_a_query_that_the_run_had_answered_is_known_again() -> None:
    """By what it says: layout, prefixes, names of variables and the outer LIMIT make no difference."""
    rdf_type = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    asked = f"prefix ex: <http://example.org/> select $y {{ $y {rdf_type} ex:Thing . }} limit 7"
    run = run_of(THINGS, answer="a", queries=(ran(asked, table((iri("a"),))),))
    assert codes(run) == []


@pytest.mark.parametrize(
    "other",
    [
        PREFIX + "SELECT ?x WHERE { ?x a e:Other }",
        PREFIX + "SELECT DISTINCT ?x WHERE { ?x a e:Thing }",
        PREFIX + "SELECT ?x WHERE { ?x a e:Thing } ORDER BY ?x",
        PREFIX + 'SELECT ?x WHERE { ?x a e:Thing ; e:name "x" }',
        PREFIX + "SELECT ?x WHERE { ?x a ?y }",
    ],
)
def test_a_query_that_the_run_did_not_have_answered_is_told(other: str) -> None:
    run = run_of(THINGS, answer="a", queries=(ran(other, table((iri("a"),))), ran(THINGS, error_code="timeout")))
    assert codes(run) == ["query_not_run"]


def test_counting_rows_that_were_cut_is_a_failure_and_listing_them_is_said() -> None:
    cut = table((iri("a"),), (iri("b"),), truncated="rows")
    counting = run_of(THINGS, "How many things are there?", "There are 2: a and b", queries=(ran(THINGS, cut),))
    listing = run_of(THINGS, "Select all things", "a, b", queries=(ran(THINGS, cut),))
    some = run_of(THINGS, "Name two things", "a, b", queries=(ran(THINGS, cut),))
    assert codes(counting) == ["cut_result"]
    assert codes(listing) == ["cut_result"]
    assert check(some).findings == []


@pytest.mark.parametrize(
    ("answer", "cell"),
    [
        ("It is the Gannet.", iri("gannet")),
        ("http://example.org/gannet", iri("gannet")),
        ("There are 1,234 of them", typed(1234)),
        ("45 metres", typed("45.0", "decimal")),
        ("about 3.33", typed("3.3333333333", "decimal")),
        ("DISTRICT SUD", text("district sud", "fr")),
        ("some node", Cell("bnode", "b0")),
    ],
)
def test_an_answer_may_write_a_value_as_people_do(answer: str, cell: Cell) -> None:
    assert check(run_of(THINGS, answer=answer, queries=(ran(THINGS, table((cell,))),))).findings == []


def test_an_answer_that_names_nothing_of_what_was_found_is_a_failure() -> None:
    found = ran(THINGS, table((typed(15),)))
    assert codes(run_of(THINGS, answer="I counted them with COUNT.", queries=(found,))) == ["answer_without_result"]
    many = ran(THINGS, table(*((iri(f"thing-{n}"),) for n in range(20))))
    assert codes(run_of(THINGS, answer="Twenty things, see the query.", queries=(many,))) == []


# ---------------------------------------------------------------- what the query says


def test_a_column_of_words_that_the_query_wrote_is_told() -> None:
    made_up = PREFIX + 'SELECT ?x ?s WHERE { { ?x a e:A BIND("a" AS ?s) } UNION { ?x a e:B BIND("b" AS ?s) } }'
    selected = PREFIX + 'SELECT ?x ("a" AS ?s) WHERE { ?x a e:A }'
    reckoned = PREFIX + 'SELECT ?x ?s WHERE { ?x e:n ?n BIND(IF(?n > 3, "many", "few") AS ?s) }'
    matched = PREFIX + 'SELECT ?x ?s WHERE { BIND("a" AS ?s) ?x e:name ?s }'
    assert codes(run_of(made_up)) == ["made_up_column"]
    assert codes(run_of(selected)) == ["made_up_column"]
    assert codes(run_of(reckoned)) == []
    assert codes(run_of(matched)) == []


def test_names_instead_of_things_are_told_unless_names_are_asked_for() -> None:
    query = PREFIX + "SELECT ?x ?n WHERE { ?x e:has ?y . ?y rdfs:label ?n }"
    both = PREFIX + "SELECT ?x ?y ?n WHERE { ?x e:has ?y . ?y rdfs:label ?n }"
    alone = PREFIX + "SELECT ?n WHERE { ?y a e:Thing ; rdfs:label ?n }"
    assert codes(run_of(query, "Which things have which parts?")) == ["name_for_thing"]
    assert codes(run_of(query, "Which things have parts of which name?")) == []
    assert codes(run_of(both, "Which things have which parts?")) == []
    assert codes(run_of(alone, "Which things are there?")) == []


@pytest.mark.slow
def test_a_variable_that_may_be_of_several_classes_is_told_by_the_schema(lights_source: Source) -> None:
    untyped = "SELECT ?x ?from WHERE { ?x lt:from ?from }"
    typed_one = "SELECT ?x ?from WHERE { ?x a lt:Watch ; lt:from ?from }"
    narrowed = "SELECT ?x ?from WHERE { ?x lt:from ?from ; lt:keeper ?keeper }"
    outcomes = {query: codes(run_of(query, answer=""), lights_source) for query in (untyped, typed_one, narrowed)}
    assert outcomes[typed_one] == []
    assert "untyped_variable" not in outcomes[narrowed]
    assert codes(run_of("SELECT ?x WHERE { ?x lt:ofLight <https://lights.example/light/gannet> }"), lights_source) == [
        "untyped_variable"
    ]


# ---------------------------------------------------------------- what the source says


@pytest.mark.parametrize("code", ["unreachable", "endpoint_error", "too_many_requests", "engine_failed"])
def test_an_endpoint_that_does_not_answer_is_not_the_runs_fault(code: str, lights_source: Source) -> None:
    assert check(run_of(LIGHTS), with_engine(lights_source, Failing(code))).findings == []


def test_a_query_that_was_changed_for_the_better_counts_by_its_answer(lights_source: Source) -> None:
    """What was submitted was not run; but what was run has the same answer."""
    ran_one = "SELECT ?l WHERE { ?l a ?c FILTER(?c = lt:Lighthouse) }"
    _, answer = lights_source.query(LIGHTS)
    same = run_of(LIGHTS, answer="gannet", queries=(ran(ran_one, answer),))
    other = run_of(LIGHTS, answer="gannet", queries=(ran(ran_one, table((iri("gannet"),))),))
    assert codes(same, lights_source) == []
    assert codes(other, lights_source) == ["query_not_run"]


# ---------------------------------------------------------------- grounding


def test_a_success_that_names_what_is_not_there_is_not_learned_from(lights_source: Source) -> None:
    grounded = judge_by_checks(run_of(LIGHTS, answer="gannet: lt:Lighthouse"), lights_source)
    ungrounded = judge_by_checks(run_of(LIGHTS, answer="gannet: lt:Submarine"), lights_source)
    unlooked = judge_by_checks(run_of(LIGHTS, answer="gannet: lt:Submarine"), lights_source, grounding=False)
    assert {each.verdict for each in (grounded, ungrounded, unlooked)} == {"undecided"}
    assert not any(each.learnable for each in (grounded, ungrounded, unlooked))
    passed = [msgspec.structs.replace(each, verdict="success") for each in (grounded, ungrounded, unlooked)]
    assert [each.learnable for each in passed] == [True, False, True]
